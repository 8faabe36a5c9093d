"""One set-up for all figures: the same numbers give the same file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def drawn(
    file: Path,
    size: tuple[float, float],
    *,
    font: float = 10,
    layout: str | None = "constrained",
    letters: str = "none",
) -> Iterator[Any]:
    """Give an empty matplotlib figure, and write it as SVG when the block ends.

    The size is in inches, that of the font in points. Letters "none": text stays text; "path": outlines, where places
    depend on the width of letters.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Fixed ids and no date, so that a figure drawn anew from the same numbers does not differ.
    with mpl.rc_context({"svg.hashsalt": file.stem, "font.size": font, "svg.fonttype": letters}):
        figure = Figure(figsize=size, layout=layout)
        yield figure
        figure.savefig(file, metadata={"Date": None}, dpi=100)


def tidy(panel: Any, *, grid: str | None = "both", box: bool = False) -> None:
    """Give a panel a light grid, of one axis or both, and take away its upper and right edges unless it is a box."""
    if not box:
        panel.spines[["top", "right"]].set_visible(False)
    if grid is not None:
        panel.grid(axis=grid, color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
