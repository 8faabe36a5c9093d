"""Wrong predictions of texts as a figure: the text, the rows behind it, shared subwords marked in both."""

from pathlib import Path
from typing import Any

_WIDTH, _SIZE, _LINE = 620.0, 8.0, 12.0  # points: of the page, of letters, from line to line
_LONGEST = 200  # letters of a text that are shown
_MARK, _QUERY, _GREY = "#f6d55c", "#b03a2e", "#5d6d7e"


def text_figure(shown: list[dict[str, Any]], file: Path, *, salt: str) -> None:
    """Write an SVG.

    Args:
        shown: errors with the rows behind them.
        file: to write.
        salt: makes names within the file the same every time.
    """
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = salt
    from matplotlib.figure import Figure

    indent = max(_width(note, "bold") for error in shown for note in _notes(error)) + 14
    lines = [line for number, error in enumerate(shown) for line in _block(error, indent, first=number == 0)]
    height = (len(lines) + 1) * _LINE
    figure = Figure(figsize=(_WIDTH / 72, height / 72))
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_xlim(0, _WIDTH)
    axis.set_ylim(height, 0)
    axis.axis("off")
    for number, (left, words, color, weight) in enumerate(lines):
        y = (number + 1) * _LINE
        axis.text(6, y, left, fontsize=_SIZE - 1, color=color, va="baseline", parse_math=False, weight=weight)
        for x, word, marked in words:
            if marked:
                box = _width(word, weight) + 1.0
                axis.add_patch(_box(x - 0.5, y - _SIZE * 0.86, box, _SIZE * 1.16))
            axis.text(x, y, word, fontsize=_SIZE, va="baseline", parse_math=False, weight=weight)
    figure.savefig(file, metadata={"Date": None})


Word = tuple[float, str, bool]
Line = tuple[str, list[Word], str, str]


def _notes(error: dict[str, Any]) -> list[str]:
    return [f"is {error['label']}", f"predicted {error['predicted']} ({error['probability']:.0%})"]


def _block(error: dict[str, Any], indent: float, *, first: bool) -> list[Line]:
    """Return the lines of one error: what is said of it at the left, its words with their places at the right."""
    lines: list[Line] = [] if first else [("", [], _GREY, "normal")]
    lines += _beside(_notes(error), error["text"], error["marks"], indent, _QUERY, "bold")
    lines.append((f"behind it, {error['predicted']}:", [], _GREY, "normal"))
    for row in error["behind"]:
        spread = "" if row["stderr"] is None else f" ± {row['stderr']:.2g}"
        notes = [f"{row['score']:+.2g}{spread}{' *' if row['stands_out'] else ''}"]
        lines += _beside(notes, row["text"], row["marks"], indent, _GREY, "normal")
    return lines


def _beside(
    notes: list[str], text: str, marks: list[tuple[int, int]], indent: float, color: str, weight: str
) -> list[Line]:
    rows = _broken(text, marks, indent, weight)
    return [
        (
            notes[place] if place < len(notes) else "",
            rows[place] if place < len(rows) else [],
            color,
            weight,
        )
        for place in range(max(len(notes), len(rows)))
    ]


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
    pieces: list[tuple[str, bool]] = []
    for sign, marked in zip(word, inside, strict=True):
        if pieces and pieces[-1][1] == marked:
            pieces[-1] = (pieces[-1][0] + sign, marked)
        else:
            pieces.append((sign, marked))
    return pieces


def _width(text: str, weight: str) -> float:
    """Return the width of letters in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=_SIZE, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


def _box(x: float, y: float, width: float, height: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, facecolor=_MARK, edgecolor="none", alpha=0.8)
