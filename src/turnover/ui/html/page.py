"""The page: one HTML file with its style and script in it, made of the data alone."""

import base64
import hashlib
from importlib.resources import files

from turnover.errors import MissingExtraError
from turnover.ui.words import FILTERS

from .data import ReportData
from .sections import context_of, lede_of, sections_of

_PACKAGE = "turnover.ui.html"
_TEMPLATES = files(_PACKAGE) / "templates"


def render(data: ReportData, *, twin: str = "report.json") -> str:
    """Return a report as one HTML page that needs no network.

    Everything from the data is escaped; the page's own policy lets no script run but the one written here, and loads
    nothing.

    Args:
        data: what the report says.
        twin: name of the JSON file beside it.

    Raises:
        MissingExtraError: jinja2 is not installed.

    Example:
        >>> from .data import Counts, Making, Overview
        >>> overview = Overview("<b>.csv", "table", {"train": 9}, ("yes", "no"), facts=())
        >>> making = Making("today", "turnover run", "", versions={}, seconds={}, run="RUN")
        >>> "<h1>What &lt;b&gt;.csv taught the model</h1>" in render(ReportData(overview, (), Counts(), making))
        True
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise MissingExtraError("reports need jinja2, which is not installed: pip install 'turnover[cli]'") from error

    env = Environment(
        loader=PackageLoader(_PACKAGE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    env.filters |= FILTERS
    css, script = _own("report.css"), _own("report.js")
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


def _own(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Styles may stand in attributes: lengths of bars, depths of colors. They are numbers, never words of the data.
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    )
