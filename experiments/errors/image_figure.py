"""Wrong predictions of images as a figure: each image above the training images that pushed its prediction there."""

import base64
import io
from pathlib import Path
from typing import Any


def image_figure(shown: list[dict[str, Any]], file: Path, *, salt: str) -> None:
    """Write an SVG: a column an error, the wrongly predicted image on top.

    Args:
        shown: errors with the rows behind them.
        file: to write.
        salt: makes names within the file the same every time.
    """
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = salt
    from matplotlib.figure import Figure

    rows = 1 + max(len(error["behind"]) for error in shown)
    figure = Figure(figsize=(1.35 * len(shown), 1.5 * rows), layout="constrained")
    axes = figure.subplots(rows, len(shown), squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for column, error in enumerate(shown):
        axis = axes[0, column]
        _draw(axis, error["png"])
        axis.set_title(f"{error['label']},\npredicted {error['predicted']}", fontsize=7, color="#b03a2e", weight="bold")
        for place, row in enumerate(error["behind"], start=1):
            _draw(axes[place, column], row["png"])
            spread = "" if row["stderr"] is None else f" ± {row['stderr']:.2g}"
            mark = " *" if row["stands_out"] else ""
            axes[place, column].set_title(f"{row['label']} {row['score']:+.2g}{spread}{mark}", fontsize=6)
    figure.savefig(file, metadata={"Date": None}, dpi=200)


def _draw(axis: Any, png: str) -> None:
    import numpy as np
    from PIL import Image

    axis.imshow(np.asarray(Image.open(io.BytesIO(base64.b64decode(png)))), interpolation="nearest", cmap="gray")
