"""Opening a page in a browser, where there is one."""

import webbrowser
from pathlib import Path

from turnover.errors import RunError


def open_page(page: Path) -> None:
    """Open a file in the user's browser.

    Raises:
        RunError: there is no display or no browser.
    """
    address = page.resolve().as_uri()
    try:
        opened = webbrowser.get().open(address)
    except webbrowser.Error:
        opened = False
    if not opened:
        raise RunError(
            f"there is no browser to open here (no display?). The report is written: copy {str(page)!r} to a machine "
            f"with a browser and open it there, or read it over the network: turnover serve {page.parent}"
        )
