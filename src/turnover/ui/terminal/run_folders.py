"""Where a run goes when nobody said it."""

import itertools
import re
from pathlib import Path

from turnover.runs import RunConfig, RunFolder, read_about

RUNS = Path("runs")


def folder_for(settings: RunConfig, config: Path | None, out: Path | None) -> Path:
    """Return the folder of a run.

    Args:
        settings: of the run.
        config: file that they came from; None: from the command line.
        out: folder that was asked for; None: runs/NAME, the folder of `config` where it holds the same run unfinished,
            or a new one beside it where that is finished.
    """
    if out is not None:
        return out
    if config is None or not (config.parent / "run.json").is_file():
        return RUNS / name_of(settings.data)
    former = RunFolder(config.parent)
    if read_about(former).state != "complete" and RunConfig.read(config) == settings:
        return former.path
    return next(
        new
        for number in itertools.count(2)
        if not (new := former.path.with_name(f"{former.path.resolve().name}-{number}")).exists()
    )


def name_of(data: str) -> str:
    """Return a name for the folder of a run.

    Example:
        >>> name_of("/data/my reviews.csv"), name_of("stanfordnlp/sst2"), name_of("images/")
        ('my-reviews', 'sst2', 'images')
    """
    name = Path(data).name
    stem = name.removesuffix(".gz").rsplit(".", 1)[0] if "." in name.lstrip(".") else name
    return re.sub(r"[^\w.-]+", "-", stem).strip("-.") or "run"
