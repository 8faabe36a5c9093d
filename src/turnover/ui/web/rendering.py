"""Pages from templates in which everything that is filled in is escaped."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import jinja2
from starlette.responses import HTMLResponse


@cache
def templates() -> jinja2.Environment:
    """Return the templates; undefined names are errors."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__ or "turnover.ui.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    environment.filters["signed"] = signed
    return environment


def render(
    template: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any
) -> HTMLResponse:
    """Return a page.

    Args:
        template: its name.
        status: of the response.
        headers: of the response.
        **values: that the template names.
    """
    content = templates().get_template(template).render(**values)
    return HTMLResponse(content, status, headers=dict(headers or {}))


def percent(share: float) -> str:
    """Return a probability as people read it; what is nearly certain is not called certain.

    Example:
        >>> percent(0.934), percent(0.99996), percent(0.0)
        ('93 %', '> 99.9 %', '< 0.1 %')
    """
    if share > 0.999:
        return "> 99.9 %"
    if share < 0.001:
        return "< 0.1 %"
    return f"{100 * share:.1f} %" if share > 0.99 or share < 0.01 else f"{100 * share:.0f} %"


def signed(value: float) -> str:
    """Return a score with its sign, in three digits.

    Example:
        >>> signed(0.012345), signed(-1.5)
        ('+0.0123', '−1.50')
    """
    digits = f"{abs(value):#.3g}".rstrip(".")
    return f"{'−' if value < 0 else '+'}{digits}"
