"""The report of a run as files: a page, and beside it the same data as JSON."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from turnover.errors import RunError
from turnover.runs import write_whole

from .collect import collect
from .data import ReportData
from .page import render

if TYPE_CHECKING:
    from turnover.runs import LmRun, Run


def write_report(
    run: "Run | LmRun", html: str | os.PathLike[str] | None = None, *, data: ReportData | None = None
) -> Path:
    r"""Write the report of a finished run and return its path; each file is there whole or not at all.

    Args:
        run: as `turnover.runs.opening.open_any` returns it.
        html: the page; its JSON twin is named after it. None: RUN/report.html and RUN/report.json.
        data: what `collect(run)` returned, where it is known already; None: it is collected.

    Raises:
        RunError: it cannot be written there.

    Example:
        >>> import tempfile
        >>> from turnover.runs.config import RunConfig
        >>> from turnover.runs.starting import start_run
        >>> file = Path(tempfile.mkdtemp()) / "fruit.csv"
        >>> lines = [f"sweet apple {n},good\nrotten pear {n},bad" for n in range(20)]
        >>> _ = file.write_text("\n".join(["text,label", *lines]))
        >>> config = RunConfig(str(file), text="text", label="label", hidden=64, replicas=4, epochs=6)
        >>> write_report(start_run(config, file.with_name("run"))).name
        'report.html'
    """
    page = run.folder.report if html is None else Path(html)
    if page.suffix.lower() not in (".html", ".htm"):
        raise RunError(f"{str(page)!r} is no name for a page. Give one that ends in .html: --out report.html")
    found = collect(run) if data is None else data
    twin = page.with_suffix(".json")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {str(page.parent)!r}: {error.strerror or error}.") from error
    text = render(found, twin=twin.name)
    write_whole(twin, found.as_json())
    write_whole(page, text)
    return page
