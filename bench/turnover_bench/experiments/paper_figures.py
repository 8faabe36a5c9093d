"""The paper's figures for your own results: self-influence, retraining checks, errors with examples, colored text.

Each function takes a result of `turnover.applications`, writes the figure to a file (SVG, PNG or PDF, by its name) and
returns it. No display is needed, and `$` in a text does not start a formula. The experiments draw from their records
in figures of their own; these are for results in memory.

Example:
    memorized_rows = turnover.applications.memorized(influence)
    self_influence_figure(memorized_rows, Path("self-influence.svg"))
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.applications import (
    ARMS,
    Explanation,
    Explanations,
    Memorized,
    RetrainingCheck,
    Span,
    Tokenizer,
    shared_tokens,
)
from turnover.errors import ApplicationError
from turnover_bench.experiments.colored_text import TINTS
from turnover_bench.experiments.figures import drawn, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _GRAY = "#0072b2", "#e69f00", "#666666"  # safe for color-blind readers (Okabe and Ito)
_LETTER_WIDTH, _LINE_HEIGHT, _LETTER_SIZE = 0.0775, 0.185, 9  # inches, inches, points


def self_influence_figure(memorized: Memorized, file: Path, *, bins: int = 50) -> "Figure":
    """Draw the histogram of self-influence, with the share of rows for which it is positive.

    Args:
        memorized: of `turnover.applications.memorized`.
        file: to write.
        bins: number of bars; the outermost hold the rows beyond, too.
    """
    histogram = memorized.histogram(bins)
    if histogram is None:
        raise ApplicationError("memorized must have at least one row with a finite self-influence, got none.")
    edges = np.asarray(histogram.edges)
    colors = [_BLUE if middle > 0 else _ORANGE for middle in (edges[:-1] + edges[1:]) / 2]
    with drawn(file, (5.5, 3.2)) as figure:
        panel = figure.add_subplot()
        panel.bar(edges[:-1], histogram.counts, np.diff(edges), align="edge", color=colors)
        panel.axvline(0, color="black", linewidth=0.8)
        panel.set(xlabel=f"self-influence ({memorized.self_influence.unit})", ylabel="training rows")
        panel.set_title(f"self-influence is positive for {memorized.share_positive:.0%} of {len(memorized):,} rows")
        tidy(panel, grid=None)
    return figure


def retraining_figure(check: RetrainingCheck, file: Path) -> "Figure":
    """Draw accuracy and loss of the three arms of a retraining check: each training, and means with standard errors."""
    arms = ["all rows", f"{check.removed} random\nremoved", f"{check.removed} cleansed"]
    with drawn(file, (6.5, 3.0)) as figure:
        for panel, (measure, values) in zip(
            figure.subplots(1, 2), (("accuracy", check.accuracy), ("loss", check.loss)), strict=True
        ):
            for arm in range(len(ARMS)):
                panel.plot([arm] * len(check.seeds), values[arm], ".", color=_GRAY, alpha=0.6)
                stderr = values[arm].std(ddof=1) / np.sqrt(len(check.seeds)) if len(check.seeds) > 1 else None
                panel.errorbar(
                    arm, values[arm].mean(), stderr, fmt="o", capsize=5, color=_ORANGE if arm == 2 else _BLUE
                )
            panel.set_xticks(range(len(ARMS)), arms)
            panel.set_ylabel(f"test {measure}")
            panel.margins(x=0.25)
            tidy(panel, grid=None)
    return figure


def image_figure(
    explanations: Explanations,
    queries: ArrayLike,
    train: ArrayLike,
    file: Path,
    *,
    names: Sequence[str] | None = None,
    k: int = 3,
) -> "Figure":
    """Draw query images in the upper row and, below each, its supporting training images; significant ones are framed.

    Args:
        explanations: one per column.
        queries: their images, [m, height, width], [m, height, width, channels] or [m, channels, height, width].
        train: the training images in the order of the data, in one of these shapes.
        file: to write.
        names: of the classes; None: as the explanations have them.
        k: images below each query.
    """
    query_images, train_images = _images(queries, "queries"), _images(train, "train")
    if len(query_images) != len(explanations):
        raise ApplicationError(
            f"queries must have one image per explanation, got {len(query_images)} images for {len(explanations)} "
            "explanations."
        )
    with drawn(file, (1.45 * max(1, len(explanations)), 1.75 * (k + 1))) as figure:
        panels = figure.subplots(k + 1, max(1, len(explanations)), squeeze=False)
        for panel in panels.flat:
            panel.set_axis_off()
        for column, explanation in enumerate(explanations):
            _draw_image(panels[0, column], query_images[column], _headline(explanation, names), framed=False)
            for place, example in enumerate(explanation.supporting[:k], start=1):
                title = f"{_name(example.label, names)}  {example.score:+.2g}"
                image = train_images[example.position]
                _draw_image(panels[place, column], image, title, framed=example.significant)
    return figure


def text_figure(
    explanations: Explanations,
    queries: Sequence[str],
    train: Sequence[str],
    file: Path,
    *,
    names: Sequence[str] | None = None,
    k: int = 2,
    tokenizer: Tokenizer | None = None,
    width: int = 88,
) -> "Figure":
    """Draw queries and their supporting training texts, with shared tokens marked in both.

    Args:
        explanations: one per query.
        queries: their texts.
        train: the training texts in the order of the data.
        file: to write.
        names: of the classes; None: as the explanations have them.
        k: texts below each query.
        tokenizer: as for `shared_tokens`; None: words.
        width: letters per line.
    """
    if len(queries) != len(explanations):
        raise ApplicationError(
            f"queries must have one text per explanation, got {len(queries)} texts for {len(explanations)} "
            "explanations."
        )
    page = _Page(width)
    for query, explanation in zip(queries, explanations, strict=True):
        examples = [(example, train[example.position]) for example in explanation.supporting[:k]]
        shared = [shared_tokens(query, text, tokenizer=tokenizer) for _, text in examples]
        page.add_line(_headline(explanation, names).replace("\n", ", "), bold=True)
        page.add_text(query, _marks([span for tokens in shared for span in tokens.query]))
        for (example, text), tokens in zip(examples, shared, strict=True):
            noise = "" if example.significant else ", not significant"
            page.add_line(f"  {_name(example.label, names)}, influence {example.score:+.2g}{noise}", gray=True)
            page.add_text(text, _marks(tokens.example), indent=2)
        page.add_line("")
    return page.draw(file)


@dataclass
class _Page:
    """Lines of fixed width with marked spans; drawn at the end, when the height is known."""

    width: int
    lines: list[tuple[str, dict[tuple[int, int], float], dict[str, Any]]] = field(default_factory=list)

    def add_line(self, text: str, *, bold: bool = False, gray: bool = False) -> None:
        style = {"fontweight": "bold" if bold else "normal", "color": _GRAY if gray else "black"}
        for start in range(0, max(1, len(text)), self.width):
            self.lines.append((text[start : start + self.width], {}, style))

    def add_text(self, text: str, marks: Mapping[tuple[int, int], float], indent: int = 0) -> None:
        """Add a text, broken between words, with marks from 0 to 1 on spans of it."""
        for start, end in _line_ranges(text, self.width - indent):
            line_marks = {
                (max(a, start) - start + indent, min(b, end) - start + indent): weight
                for (a, b), weight in marks.items()
                if a < end and b > start
            }
            letters = "".join(letter if letter.isprintable() else " " for letter in text[start:end])
            self.lines.append((" " * indent + letters, line_marks, {"color": "black"}))

    def draw(self, file: Path) -> "Figure":
        size = _LETTER_WIDTH * self.width + 0.3, _LINE_HEIGHT * (len(self.lines) + 1)
        with drawn(file, size, layout=None) as figure:
            panel = figure.add_axes((0, 0, 1, 1), xlim=(-2, self.width + 2), ylim=(len(self.lines) + 0.5, -0.5))
            panel.set_axis_off()
            for row, (text, marks, style) in enumerate(self.lines):
                _draw_line(panel, row, text, marks, style)
        return figure


def _draw_line(
    panel: "Axes", row: int, text: str, marks: Mapping[tuple[int, int], float], style: Mapping[str, Any]
) -> None:
    from matplotlib.patches import Rectangle

    for (start, end), weight in marks.items():
        tint = TINTS[min(int(np.ceil(weight * len(TINTS))), len(TINTS)) - 1]
        panel.add_patch(Rectangle((start, row + 0.06), end - start, 0.88, color=tint, linewidth=0))
    # Letter by letter, so that each stands on its mark in any font.
    look: dict[str, Any] = {"family": "monospace", "fontsize": _LETTER_SIZE, "ha": "center", "parse_math": False}
    for place, letter in enumerate(text):
        if not letter.isspace():
            panel.text(place + 0.5, row + 0.75, letter, **look, **style)


def _line_ranges(text: str, width: int) -> list[tuple[int, int]]:
    """Return start and end of each line of a text, broken at spaces where there are any."""
    ranges: list[tuple[int, int]] = []
    start = 0
    while len(text) - start > width:
        space = text.rfind(" ", start, start + width + 1)
        end = space if space > start else start + width
        ranges.append((start, end))
        start = end + 1 if space > start else end
    return [*ranges, (start, len(text))]


def _marks(spans: Sequence[Span]) -> dict[tuple[int, int], float]:
    return {(span.start, span.end): 1.0 for span in spans}


def _images(images: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return images as [n, height, width] or [n, height, width, 3], from 0 to 1."""
    array = np.asarray(images, np.float64)
    if array.ndim == 4 and array.shape[1] in (1, 3) and array.shape[3] not in (1, 3):
        array = array.transpose(0, 2, 3, 1)
    if array.ndim == 4 and array.shape[3] == 1:
        array = array[..., 0]
    if array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[3] != 3):
        raise ApplicationError(
            f"{name} must be images [n, height, width], or with 1 or 3 channels, got shape {list(array.shape)}."
        )
    low, high = float(array.min()), float(array.max())
    return (array - low) / (high - low) if high > low else array * 0


def _draw_image(panel: "Axes", image: NDArray[Any], title: str, *, framed: bool) -> None:
    panel.set_axis_on()
    panel.imshow(image, cmap="gray_r" if image.ndim == 2 else None)
    panel.set_title(title, fontsize=8, parse_math=False)
    panel.set_xticks([])
    panel.set_yticks([])
    for edge in panel.spines.values():
        edge.set_color(_ORANGE if framed else _GRAY)
        edge.set_linewidth(2.0 if framed else 0.6)


def _headline(explanation: Explanation, names: Sequence[str] | None) -> str:
    predicted = f"{_name(explanation.predicted, names)} ({explanation.probability:.0%})"
    return f"{predicted}\nlabel: {_name(explanation.label, names)}" if explanation.error else predicted


def _name(label: Any, names: Sequence[str] | None) -> str:
    return str(label) if names is None or not isinstance(label, int) else str(names[label])
