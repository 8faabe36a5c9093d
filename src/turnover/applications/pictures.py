"""Pictures of results, as the paper has them: errors with the examples behind them, histograms, colored text.

Every function returns a matplotlib Figure, made without a display; save it with `figure.savefig(path)`. Nothing in a
text is read as a formula. Needs matplotlib: pip install 'turnover[cli]'.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.errors import ApplicationError, MissingExtraError

from .colored_text import TINTS, ColoredText
from .explanations import Explanation, Explanations
from .memorized import Memorized
from .proof import ARMS, Proof
from .shared_tokens import Span, shared_tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _GREY = "#0072b2", "#e69f00", "#666666"  # told apart by everybody (Okabe and Ito)
_SIZE = 9


def self_influence_picture(found: Memorized, *, bins: int = 50) -> "Figure":
    """Return the histogram of self-influence with the share that is positive.

    Args:
        found: of `memorized`.
        bins: how many bars.
    """
    histogram = found.histogram(bins)
    figure = _figure(5.5, 3.2)
    axes = figure.add_subplot()
    widths = np.diff(histogram.edges)
    colors = [_BLUE if middle > 0 else _ORANGE for middle in histogram.edges[:-1] + widths / 2]
    axes.bar(histogram.edges[:-1], histogram.counts, widths, align="edge", color=colors)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel(f"self-influence ({found.self_influence.unit}); right of 0 having seen the row helps on it")
    axes.set_ylabel("training rows")
    axes.set_title(f"{found.share_positive:.0%} of {len(found):,} rows have a positive self-influence", fontsize=10)
    return figure


def proof_picture(proof: Proof) -> "Figure":
    """Return accuracy and loss of the three arms: every training a dot, and their means with standard errors."""
    figure = _figure(6.5, 3.0)
    for place, (name, values) in enumerate((("accuracy", proof.accuracy), ("loss", proof.loss))):
        axes = figure.add_subplot(1, 2, place + 1)
        for arm in range(len(ARMS)):
            axes.plot([arm] * len(proof.seeds), values[arm], ".", color=_GREY, alpha=0.6)
            error = values[arm].std(ddof=1) / np.sqrt(len(proof.seeds))
            axes.errorbar(arm, values[arm].mean(), error, fmt="o", capsize=5, color=_ORANGE if arm == 2 else _BLUE)
        axes.set_xticks(range(len(ARMS)), ["all rows", f"{proof.removed} random\nremoved", f"{proof.removed} cleansed"])
        axes.set_ylabel(f"test {name}")
        axes.margins(x=0.25)
    return figure


def images_picture(
    found: Explanations,
    queries: ArrayLike,
    train: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    k: int = 3,
) -> "Figure":
    """Return queries in the upper row and, below each, the training images that pushed its prediction most.

    Args:
        found: what made each prediction; one column an item.
        queries: their images, [m, height, width], [m, height, width, channels] or [m, channels, height, width].
        train: the training images in the order of the data, alike.
        names: of the classes; None: numbers.
        k: images below each query.
    """
    above, below = _images(queries, "queries"), _images(train, "train")
    if len(above) != len(found):
        raise ApplicationError(f"{len(above)} images for {len(found)} explanations. Give one image an explanation.")
    figure = _figure(1.45 * max(1, len(found)), 1.75 * (k + 1))
    for column, one in enumerate(found):
        shown: list[tuple[NDArray[Any], str, float | None]] = [(above[column], _headline(one, names), None)]
        shown += [
            (
                below[reason.position],
                f"{_name(reason.label, names)}  {reason.score:+.2g}",
                1.0 if reason.stands_out else 0.0,
            )
            for reason in one.pushed[:k]
        ]
        for row, (image, title, frame) in enumerate(shown):
            axes = figure.add_subplot(k + 1, max(1, len(found)), row * len(found) + column + 1)
            axes.imshow(image, cmap="gray_r" if image.ndim == 2 else None)
            axes.set_title(_plain(title), fontsize=8)
            axes.set_xticks([])
            axes.set_yticks([])
            for side in axes.spines.values():
                side.set_color(_ORANGE if frame else _GREY)
                side.set_linewidth(2.0 if frame else 0.6)
    return figure


def texts_picture(
    found: Explanations,
    queries: Sequence[str],
    train: Sequence[str],
    *,
    names: Sequence[str] | None = None,
    k: int = 2,
    tokenizer: Any = None,
    width: int = 88,
) -> "Figure":
    """Return queries and the training texts that pushed their predictions most, shared tokens marked.

    Args:
        found: what made each prediction.
        queries: their texts.
        train: the training texts in the order of the data.
        names: of the classes; None: numbers.
        k: texts below each query.
        tokenizer: as for `shared_tokens`; None: words.
        width: letters a line.
    """
    if len(queries) != len(found):
        raise ApplicationError(f"{len(queries)} texts for {len(found)} explanations. Give one text an explanation.")
    page = _Page(width)
    for text, one in zip(queries, found, strict=True):
        examples = [(reason, train[reason.position]) for reason in one.pushed[:k]]
        shared = [shared_tokens(text, example, tokenizer=tokenizer) for _, example in examples]
        page.line(_headline(one, names).replace("\n", ", "), bold=True)
        page.text(text, {(span.start, span.end): span.weight for found in shared for span in found.query})
        for (reason, example), marks in zip(examples, shared, strict=True):
            out = "" if reason.stands_out else ", could be noise"
            page.line(f"  {_name(reason.label, names)}, influence {reason.score:+.2g}{out}", gray=True)
            page.text(example, _weights(marks.example), indent=2)
        page.line("")
    return page.figure()


def colored_picture(text: ColoredText, *, width: int = 88) -> "Figure":
    """Return text colored by its values, with the scale below.

    Args:
        text: of `colored_text`.
        width: letters a line.
    """
    page = _Page(width)
    whole, marks = "", {}
    for place, (token, step) in enumerate(zip(text.tokens, text.steps, strict=True)):
        whole += text.joiner if place else ""
        if step:
            marks[len(whole), len(whole) + len(token)] = step / len(TINTS)
        whole += token
    page.text(whole, marks)
    page.line(f"{text.unit or 'value'} from {text.limits[0]:.2g} (white) to {text.limits[1]:.2g} (orange)", gray=True)
    return page.figure()


@dataclass
class _Page:
    """Lines of fixed width with marked spans; drawn at the end, when the height is known."""

    width: int
    lines: list[tuple[str, dict[tuple[int, int], float], dict[str, Any]]] = field(default_factory=list)

    def line(self, text: str, *, bold: bool = False, gray: bool = False) -> None:
        style = {"fontweight": "bold" if bold else "normal", "color": _GREY if gray else "black"}
        for start in range(0, max(1, len(text)), self.width):
            self.lines.append((text[start : start + self.width], {}, style))

    def text(self, text: str, marks: Mapping[tuple[int, int], float], indent: int = 0) -> None:
        """Add a text, broken between words, with marks from 0 to 1 on spans of it."""
        for start, end in _broken(text, self.width - indent):
            inside = {
                (max(a, start) - start + indent, min(b, end) - start + indent): weight
                for (a, b), weight in marks.items()
                if a < end and b > start
            }
            shown = "".join(sign if sign.isprintable() else " " for sign in text[start:end])
            self.lines.append((" " * indent + shown, inside, {"color": "black"}))

    def figure(self) -> "Figure":
        across, down = 0.0775 * _SIZE / 9, 0.185 * _SIZE / 9  # inches a letter and a line take
        figure = _figure(across * self.width + 0.3, down * (len(self.lines) + 1), tight=False)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(-2, self.width + 2)
        axes.set_ylim(len(self.lines) + 0.5, -0.5)
        for row, (text, marks, style) in enumerate(self.lines):
            self._draw(axes, row, text, marks, style)
        return figure

    @staticmethod
    def _draw(
        axes: "Axes", row: int, text: str, marks: Mapping[tuple[int, int], float], style: Mapping[str, Any]
    ) -> None:
        from matplotlib.patches import Rectangle

        for (start, end), weight in marks.items():
            tint = TINTS[min(int(np.ceil(weight * len(TINTS))), len(TINTS)) - 1]
            axes.add_patch(Rectangle((start, row + 0.06), end - start, 0.88, color=tint, linewidth=0))
        # A letter at a time: every one then stands on its mark, whatever the font.
        for place, sign in enumerate(text):
            if not sign.isspace():
                axes.text(
                    place + 0.5, row + 0.75, _plain(sign), family="monospace", fontsize=_SIZE, ha="center", **style
                )


def _broken(text: str, width: int) -> list[tuple[int, int]]:
    """Return the ranges of the lines of a text, broken at spaces where there are any."""
    ranges: list[tuple[int, int]] = []
    start = 0
    while len(text) - start > width:
        space = text.rfind(" ", start, start + width + 1)
        end = space if space > start else start + width
        ranges.append((start, end))
        start = end + 1 if space > start else end
    return [*ranges, (start, len(text))]


def _weights(spans: Sequence[Span]) -> dict[tuple[int, int], float]:
    return {(span.start, span.end): span.weight for span in spans}


def _images(images: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return images as [n, height, width] or [n, height, width, 3], from 0 to 1."""
    array = np.asarray(images, np.float64)
    if array.ndim == 4 and array.shape[1] in (1, 3) and array.shape[3] not in (1, 3):
        array = array.transpose(0, 2, 3, 1)
    if array.ndim == 4 and array.shape[3] == 1:
        array = array[..., 0]
    if array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[3] != 3):
        raise ApplicationError(
            f"{name} have shape {list(array.shape)}. Give images [n, height, width], or with 1 or 3 channels."
        )
    low, high = float(array.min()), float(array.max())
    return (array - low) / (high - low) if high > low else array * 0


def _headline(one: Explanation, names: Sequence[str] | None) -> str:
    said = f"{_name(one.predicted, names)} ({one.probability:.0%})"
    return said if one.given is None or not one.wrong else f"{said}\ntrue: {_name(one.given, names)}"


def _name(label: Any, names: Sequence[str] | None) -> str:
    return str(label) if names is None or not isinstance(label, int) else str(names[label])


def _plain(text: str) -> str:
    """Return a text in which matplotlib sees no formula."""
    return text.replace("$", r"\$")


def _figure(width: float, height: float, *, tight: bool = True) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("pictures need matplotlib: pip install 'turnover[cli]'.") from error
    return Figure(figsize=(width, height), dpi=150, layout="constrained" if tight else None)
