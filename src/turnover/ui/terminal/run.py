"""`turnover run`: from a file to a trained model that can be queried, and a report."""

import inspect
import itertools
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from turnover.errors import RunError
from turnover.runs import KINDS, PATHS, RunConfig, RunFolder, changed_data, start_run

from .drawing import visible
from .finished_run import finish
from .options import AsJson, Debug, OnDevice, OnRay, executor_at
from .outcomes import resumable
from .terminal import Terminal
from .tracking import Track, check_trackers, track

_DEFAULTS = {part.name: part.default for part in fields(RunConfig)}
# Settings for which 0 means the default of the kind of data, which is not what somebody means who types it.
_OPEN = ("epochs", "hidden", "replicas", "learning_rate")
_RUNS = Path("runs")
# Every setting as an option, by the panel of the help in which it stands: what it sets, and what its value is called.
_OPTIONS: dict[str, dict[str, tuple[str, str | None]]] = {
    "Data": {
        "text": ("Column of texts.", "COLUMN"),
        "label": ("Column of labels.", "COLUMN"),
        "task": (
            "Kind of data, or whether labels are classes or numbers (regression); auto-detected by default.",
            "|".join(KINDS),
        ),
        "columns": ("Feature columns of a table: a,b,c. Default: all but label and group.", "COLUMNS"),
        "group": ("Column of annotators, sources or users, each trained as one instance.", "COLUMN"),
        "validation_data": ("File of validation rows, instead of a share of DATA.", "FILE"),
        "test_data": ("File of test rows, instead of a share of DATA.", "FILE"),
        "validation": ("Share of the rows held out for validation.", "SHARE"),
        "test": ("Share of the rows held out for testing.", "SHARE"),
        "max_rows": ("Maximum number of rows; more are sampled at random.", None),
        "skip_bad": (
            "Skip rows without text or label, damaged images and labels unseen in training, instead of rejecting the "
            "data.",
            None,
        ),
    },
    "Model": {
        "model": (
            "Folder or hub name of a pretrained text encoder. Default: hashed n-grams, no download.",
            "DIR_OR_NAME",
        ),
        "adapters": ("Width of adapters trained inside the encoder; 0 keeps it frozen.", None),
        "hidden": ("Width of the masked layer.", None),
        "replicas": ("Number of masked replicas; from 3 on, every score has its own standard error.", None),
        "keep": ("Share of the units that each row trains.", None),
        "image_size": ("Shorter side of the images, in pixels.", None),
    },
    "Training": {
        "epochs": ("Number of epochs; the default depends on the kind and amount of data.", None),
        "batch_size": ("Rows per batch.", None),
        "learning_rate": ("Learning rate of AdamW; the default depends on the kind of data.", None),
        "weight_decay": ("Weight decay of AdamW.", None),
        "balance": ("Weight classes by their inverse frequency.", None),
        "seed": ("Random seed of split, initialization, masks and batch order.", None),
    },
}


def run(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="A csv, tsv, jsonl, json or parquet file, a folder of images, an npz file, or the name of "
            " a data set on the Hugging Face hub.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Settings of an earlier run, RUN/config.toml: repeats or resumes it."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Folder of the run.", show_default="runs/NAME")
    ] = None,
    ray: OnRay = None,
    trackers: Track = None,
    as_json: AsJson = False,
    device: OnDevice = None,
    debug: Debug = False,
    **given: Any,
) -> None:
    """Train once on your data, score every training row and write a report.

    Ctrl-C leaves a folder that the same command resumes.

    For example:

    - turnover run reviews.csv --text text --label label

    - turnover run reviews.csv --text text --label label --model ./all-MiniLM-L6-v2 --out runs/reviews

    - turnover run images/ --out runs/images

    - turnover run table.csv --label y

    - turnover run houses.csv --label price --task regression

    - turnover run --config runs/reviews/config.toml
    """
    terminal = Terminal(as_json=as_json)
    executor = executor_at(ray)
    check_trackers(trackers)
    settings = _settings_of({"data": data, **given}, config)
    folder = _folder_for(settings, config, out)
    if os.path.exists(folder / "run.json"):
        sentence = f"There is a run in {visible(str(folder))} already; the same settings resume it."
        terminal.aside.print(sentence, style="dim")
    for path in _changed_data(config, folder):
        sentence = f"{visible(path)} changed since the run whose settings are repeated: it is read as it is now."
        terminal.aside.print(sentence, style="yellow")
    with resumable(lambda: _how_to_resume(folder)), terminal.bars() as watch:
        made = start_run(settings, folder, watch=watch, executor=executor)
        track(made, trackers)
        finish(made, terminal, watch)


def _parameters() -> Iterator[inspect.Parameter]:
    """Give the options of all settings; None as a default shows that one was not given."""
    types = {**get_type_hints(RunConfig), "task": str, "columns": list[str]}
    for panel, settings in _OPTIONS.items():
        for name, (help_text, metavar) in settings.items():
            default, flag = _DEFAULTS[name], f"--{name.replace('_', '-')}"
            flags = f"{flag}/--no-{flag[2:]}" if isinstance(default, bool) else flag
            shown = str(default) if default or default is False else False
            option = typer.Option(flags, help=help_text, rich_help_panel=panel, show_default=shown, metavar=metavar)
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            yield inspect.Parameter(name, kind, default=None, annotation=Annotated[types[name] | None, option])


_data, *_others, _ = inspect.signature(run).parameters.values()
# Typer reads the options of a command from its signature.
setattr(run, "__signature__", inspect.Signature([_data, *_parameters(), *_others]))  # noqa: B010


def _how_to_resume(folder: Path) -> str:
    settings = folder / "config.toml"
    if not settings.exists():
        return "stopped while reading the data, so nothing is kept. The same command starts again."
    file = shlex.quote(str(settings))
    return f"stopped. What is finished is kept; resume with: turnover run --config {file}"


def _settings_of(given: Mapping[str, Any], config: Path | None) -> RunConfig:
    """Return the settings of a run: those of a file, overridden by those of the command line."""
    chosen = {name: value for name, value in given.items() if name in _DEFAULTS and value not in (None, [], ())}
    zero = [f"--{name.replace('_', '-')}" for name in _OPEN if chosen.get(name) == 0]
    if zero:
        raise RunError(
            f"{' and '.join(zero)} must be > 0, got 0. Leave it out for the default, which depends on the kind of data."
        )
    former = {} if config is None else RunConfig.read(config).as_dict()
    if "data" not in {**former, **chosen}:
        raise RunError(
            "no data was given. Give a file, a folder or the settings of an earlier run: turnover run reviews.csv "
            "--text text --label label, or: turnover run --config RUN/config.toml"
        )
    settled = {name: _settled(name, value) for name, value in chosen.items()}
    return RunConfig.from_values({**former, **settled}, source="the command line")


def _settled(name: str, value: Any) -> Any:
    """Return a value as settings hold it: a path in full, so that a run can be repeated from another folder."""
    if name == "columns":
        return [column.strip() for part in value for column in part.split(",") if column.strip()]
    # What is not a file may be a name on the hub, which stays as it is.
    return str(Path(value).resolve()) if name in PATHS and os.path.exists(value) else value


def _folder_for(settings: RunConfig, config: Path | None, out: Path | None) -> Path:
    """Return `out`; or the folder of `config`, a new one beside it where that run is finished; or runs/NAME."""
    if out is not None:
        return out
    if config is None or not (config.parent / "run.json").is_file():
        return _RUNS / _name_of(settings.data)
    former = RunFolder(config.parent)
    if former.read_about().state != "complete" and RunConfig.read(config) == settings:
        return former.path
    return next(
        new
        for number in itertools.count(2)
        if not (new := former.path.with_name(f"{former.path.resolve().name}-{number}")).exists()
    )


def _changed_data(config: Path | None, folder: Path) -> list[str]:
    """Return the data that changed since the run whose settings another folder repeats."""
    if config is None or config.parent == folder or not (config.parent / "run.json").is_file():
        return []
    return changed_data(RunFolder(config.parent).read_about())


def _name_of(data: str) -> str:
    """Return a name for the folder of a run."""
    name = Path(data).name
    stem = name.removesuffix(".gz").rsplit(".", 1)[0] if "." in name.lstrip(".") else name
    return re.sub(r"[^\w.-]+", "-", stem).strip("-.") or "run"
