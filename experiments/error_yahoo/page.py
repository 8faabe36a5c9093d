"""The results page."""

from pathlib import Path
from typing import Any

from experiments.errors.page import error_findings as findings
from experiments.errors.page import error_page

__all__ = ["findings", "page"]


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown and write its figure into `folder`."""
    return error_page(result, folder, name="error_yahoo")
