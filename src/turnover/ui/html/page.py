"""The report as files: one HTML page with its style and script in it, and beside it the same data as JSON."""

import base64
import hashlib
import os
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from turnover.errors import MissingExtraError, RunError
from turnover.ui import words

from .sections import ReportData, ShownRow, collect, context_of, lede_of, score_power, sections_of

if TYPE_CHECKING:
    import jinja2

    from turnover.runs import Run

_PACKAGE = "turnover.ui.html"
_TEMPLATES = files(_PACKAGE) / "templates"
# A number stays with its unit, and a sign with its number.
_UNBREAKABLE = re.compile(r"(?<=\d) (?=[%±×])|(?<=[<>±×]) (?=\d)")


def write_report(run: "Run", html: str | os.PathLike[str] | None = None, *, data: ReportData | None = None) -> Path:
    """Write the report of a finished run and its JSON twin, each whole or not at all; return its path."""
    page = run.folder.report if html is None else Path(html)
    if page.suffix.lower() not in (".html", ".htm"):
        raise RunError(f"the report must have a name that ends in .html, got {str(page)!r}. Give one: report.html")
    data = collect(run) if data is None else data
    twin = page.with_suffix(".json")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {str(page.parent)!r}: {error.strerror or error}.") from error
    text = render(data, twin=twin.name)
    with run.folder.lock(page, wait=True):
        run.folder.write(twin, data.as_json())
        run.folder.write(page, text)
    return page


def render(data: ReportData, *, twin: str = "report.json") -> str:
    """Return a report as one HTML page that needs no network.

    Everything from the data is escaped; the page's own policy lets no script run but the one written here, and loads
    nothing.
    """
    try:
        env = environment()
        from markupsafe import Markup
    except ImportError as error:
        raise MissingExtraError("reports need jinja2, which is not installed: pip install 'turnover[cli]'") from error
    css, script = asset("base.css") + asset("report.css"), asset("report.js")
    return env.get_template("report.html").render(
        data=data,
        sections=sections_of(data),
        lede=lede_of(data),
        twin=twin,
        css=Markup(css),
        script=Markup(script),
        policy=_policy(script),
        **context_of(data),
    )


@cache
def environment(package: str = _PACKAGE) -> "jinja2.Environment":
    """Return templates, those of `package` first, that escape everything and have the filters of `words`."""
    import jinja2

    env = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package), jinja2.PackageLoader(_PACKAGE)]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    formats = (
        words.count,
        words.percent,
        words.digits,
        words.unit,
        words.duration,
        words.score,
        words.label_words,
    )
    for function in formats:
        env.filters[function.__name__] = lambda *given, form=function: unbroken(form(*given))
    others = (words.pieces, words.shortened, unbroken, _label_numbers, _label_of)
    env.filters |= {function.__name__.lstrip("_"): function for function in others} | {"power": score_power}
    return env


def asset(name: str) -> str:
    """Return a style sheet or script."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def unbroken(text: str) -> str:
    """Return a sentence in which no line ends between a number and its unit."""
    return _UNBREAKABLE.sub("\xa0", text)


def _label_numbers(data: ReportData, row: ShownRow, also: Sequence[str | None] = ()) -> str:
    """Return the numbers of the labels by which a row is found, for the filter."""
    known = {name: number for number, name in enumerate(data.overview["labels"])}
    return " ".join(str(known[name]) for name in dict.fromkeys((row.label, *also)) if name in known)


def _label_of(number: int, data: ReportData) -> str | None:
    return data.by_number[number].label


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Styles may stand in attributes: lengths of bars, depths of colors. They are numbers, never words of the data.
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    )
