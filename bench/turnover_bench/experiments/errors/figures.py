"""Wrong predictions as a figure: each error with the supporting training rows, as texts or as images."""

import base64
import io
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

from turnover_bench.experiments.figures import drawn

_WIDTH, _SIZE, _LINE = 620.0, 8.0, 12.0  # points: of the page, of letters, from line to line
_LONGEST = 200  # letters of a text that are shown
_MARK, _QUERY, _GREY = "#f6d55c", "#b03a2e", "#5d6d7e"


def text_figure(shown: list[dict[str, Any]], file: Path) -> None:
    """Write an SVG of errors with their supporting texts, shared subwords marked in both."""
    indent = max(_width(note, "bold") for error in shown for note in _notes(error)) + 14
    lines = [line for number, error in enumerate(shown) for line in _block(error, indent, first=number == 0)]
    height = (len(lines) + 1) * _LINE
    with drawn(file, (_WIDTH / 72, height / 72), layout=None, letters="path") as figure:
        axis = figure.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH), ylim=(height, 0))
        axis.axis("off")
        for number, (left, words, color, weight) in enumerate(lines, start=1):
            look: dict[str, Any] = {"va": "baseline", "parse_math": False, "weight": weight}
            y = number * _LINE
            axis.text(6, y, left, fontsize=_SIZE - 1, color=color, **look)
            for x, word, marked in words:
                if marked:
                    axis.add_patch(_box(x - 0.5, y - _SIZE * 0.86, _width(word, weight) + 1.0, _SIZE * 1.16))
                axis.text(x, y, word, fontsize=_SIZE, **look)


def image_figure(shown: list[dict[str, Any]], file: Path) -> None:
    """Write an SVG of errors with their supporting images: one column per error, the wrongly predicted image on top."""
    rows = 1 + max(len(error["supporting"]) for error in shown)
    with drawn(file, (1.35 * len(shown), 1.5 * rows), letters="path") as figure:
        axes = figure.subplots(rows, len(shown), squeeze=False)
        for axis in axes.flat:
            axis.axis("off")
        for column, error in enumerate(shown):
            axis, title = axes[0, column], f"{error['label']},\npredicted {error['predicted']}"
            _draw(axis, error["png"])
            axis.set_title(title, fontsize=7, color=_QUERY, weight="bold", parse_math=False)
            for place, row in enumerate(error["supporting"], start=1):
                _draw(axes[place, column], row["png"])
                axes[place, column].set_title(f"{row['label']} {_score(row)}", fontsize=6, parse_math=False)


def _score(row: dict[str, Any]) -> str:
    """Return a score with its standard error, and a star where it is significant."""
    stderr = "" if row["stderr"] is None else f" ± {_two_digits(row['stderr'])}"
    return f"{_two_digits(row['score'], sign='+')}{stderr}{' *' if row['significant'] else ''}"


def _two_digits(value: float, sign: str = "") -> str:
    """Return two digits of a number, all of them before its point: 100, not 1e+02."""
    return f"{value:{sign}.{'0f' if abs(value) >= 99.5 else '2g'}}"


Word = tuple[float, str, bool]
Line = tuple[str, list[Word], str, str]


def _notes(error: dict[str, Any]) -> list[str]:
    return [f"is {error['label']}", f"predicted {error['predicted']} ({error['probability']:.0%})"]


def _block(error: dict[str, Any], indent: float, *, first: bool) -> list[Line]:
    """Return the lines of one error: what is said of it at the left, its words with their places at the right."""
    lines: list[Line] = [] if first else [("", [], _GREY, "normal")]
    lines += _beside(_notes(error), error["text"], error["marks"], indent, _QUERY, "bold")
    lines.append((f"supporting, {error['predicted']}:", [], _GREY, "normal"))
    for row in error["supporting"]:
        lines += _beside([_score(row)], row["text"], row["marks"], indent, _GREY, "normal")
    return lines


def _beside(
    notes: list[str], text: str, marks: list[tuple[int, int]], indent: float, color: str, weight: str
) -> list[Line]:
    lines = zip_longest(notes, _broken(text, marks, indent, weight))
    return [(note or "", words or [], color, weight) for note, words in lines]


def _broken(text: str, marks: list[tuple[int, int]], indent: float, weight: str) -> list[list[Word]]:
    """Return lines of pieces with their places; a piece is marked or not as a whole."""
    lines: list[list[Word]] = [[]]
    x, at = indent, 0
    for word in text[:_LONGEST].split():
        start = text.index(word, at)
        at = start + len(word)
        if x + _width(word, weight) > _WIDTH - 8 and lines[-1]:
            lines.append([])
            x = indent
        for piece, marked in _pieces(word, start, marks):
            lines[-1].append((x, piece, marked))
            x += _width(piece, weight)
        x += 0.32 * _SIZE
    if len(text) > _LONGEST:
        lines[-1].append((x, "…", False))
    return lines


def _pieces(word: str, start: int, marks: list[tuple[int, int]]) -> list[tuple[str, bool]]:
    """Return a word cut where marks begin and end."""
    inside = [any(low <= start + place < high for low, high in marks) for place in range(len(word))]
    runs = groupby(zip(word, inside, strict=True), key=lambda pair: pair[1])
    return [("".join(letter for letter, _ in letters), marked) for marked, letters in runs]


def _width(text: str, weight: str) -> float:
    """Return the width of letters in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=_SIZE, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


def _box(x: float, y: float, width: float, height: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, facecolor=_MARK, edgecolor="none", alpha=0.8)


def _draw(axis: Any, png: str) -> None:
    import numpy as np
    from PIL import Image

    axis.imshow(np.asarray(Image.open(io.BytesIO(base64.b64decode(png)))), interpolation="nearest", cmap="gray")
