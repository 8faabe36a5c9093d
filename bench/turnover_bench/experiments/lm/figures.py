"""Colored text as an SVG that can be read, and the plots: self-influence by frequency, perplexity after removal."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from turnover_bench.experiments.colored_text import TINTS, ColoredText
from turnover_bench.experiments.figures import drawn, tidy

from .pattern import change, mean_and_error

_LETTER, _LINE, _SIZE = 8.4, 25.0, 14
_MARGIN, _WIDTH = 24.0, 960.0
_STRONGEST = len(TINTS)


def draw_text(text: ColoredText, file: Path, *, title: str) -> None:
    """Write the text as SVG; a line ends where the text has an end of line, and where it is full."""
    shapes: list[str] = []
    x, y = _MARGIN, _MARGIN + 2.6 * _LINE
    for word, step in zip(text.tokens, text.steps.tolist(), strict=True):
        shown = "[eos]" if word == "<eos>" else word
        width = _LETTER * _columns(shown)
        if x + width > _WIDTH - _MARGIN:
            x, y = _MARGIN, y + _LINE
        shapes += _word(shown, step, x, y, width)
        x += width + _LETTER
        if word == "<eos>":
            x, y = _MARGIN, y + _LINE
    # A passage that ends with a line has no empty line below.
    height = (y if x > _MARGIN else y - _LINE) + _MARGIN
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}" width="{_WIDTH:g}" '
        f'height="{height:g}" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{_SIZE}">',
        f'<rect width="{_WIDTH:g}" height="{height:g}" fill="#ffffff"/>',
        f'<text x="{_MARGIN:g}" y="{_MARGIN + 6:g}" font-family="DejaVu Sans, Arial, sans-serif" font-size="15" '
        f'font-weight="bold">{escape(title)}</text>',
        *_legend(text.limits),
    ]
    file.write_text("\n".join([*head, *shapes, "</svg>"]) + "\n", encoding="utf-8")


def _word(shown: str, step: int, x: float, y: float, width: float) -> list[str]:
    found = []
    if step:
        found.append(_box(x, y, width, TINTS[step - 1]))
    if step == _STRONGEST:  # for paper without color
        found.append(f'<line x1="{x:g}" x2="{x + width:g}" y1="{y + 4:g}" y2="{y + 4:g}" stroke="#000000"/>')
    color = "#8a8a8a" if shown == "[eos]" and not step else "#000000"
    # The length is given, so that words fit their boxes in any font.
    found.append(
        f'<text x="{x:g}" y="{y:g}" textLength="{width:g}" lengthAdjust="spacingAndGlyphs" fill="{color}">'
        f"{escape(shown)}</text>"
    )
    return found


def _box(x: float, y: float, width: float, tint: str) -> str:
    return f'<rect x="{x - 2:g}" y="{y - 14:g}" width="{width + 4:g}" height="20" rx="3" fill="{tint}"/>'


def _legend(limits: Sequence[float]) -> list[str]:
    low, high = limits
    y, x = _MARGIN + 1.25 * _LINE, _MARGIN
    sans = 'font-family="DejaVu Sans, Arial, sans-serif" font-size="12" fill="#444444"'
    shapes = [f'<text x="{x:g}" y="{y:g}" {sans}>self-influence, nats: below {low:.1f}</text>']
    x += 190
    for tint in TINTS:
        shapes.append(_box(x, y, 40, tint))
        x += 46
    return [*shapes, f'<text x="{x:g}" y="{y:g}" {sans}>{high:.1f} and above (underlined)</text>']


def _columns(text: str) -> int:
    from unicodedata import east_asian_width

    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


_COLORS = {"names": "#e7298a", "others": "#444444"}
_LABELS = {"names": "names (capital within a sentence)", "others": "other words"}
VARIANT_TITLES = {
    "removed": "highest self-influence\nremoved",
    "weighted": "highest self-influence\nweighted down",
    "matched": "random, as frequent,\nremoved",
    "random": "random, removed",
}
_FEW = 3  # different words below which a mean is not drawn


def plot(result: Mapping[str, Any], file: Path) -> None:
    """Write the panel on frequencies and, where positions were removed, the one on perplexity."""
    removal = result["removal"]
    panels = 2 if removal["shares"] else 1
    with drawn(file, (5 * panels, 4.2)) as figure:
        left, *right = figure.subplots(1, panels, squeeze=False)[0]
        for name, color in _COLORS.items():
            bins = [one for one in result["pattern"]["bins"] if one[name]["words"] >= _FEW]
            left.plot(
                [(one["from"] * one["to"]) ** 0.5 for one in bins],
                [one[name]["mean"] for one in bins],
                color=color,
                marker="o" if name == "names" else "s",
                label=_LABELS[name],
            )
        left.axhline(0, color="#999999", linewidth=0.8)
        left.set(
            title="self-influence by frequency",
            xlabel="frequency of the word in the training text",
            ylabel="mean self-influence, nats",
            xscale="log",
        )
        left.legend(frameon=False, loc="lower left")
        for panel in right:
            _changes(panel, removal)
        for panel in (left, *right):
            tidy(panel, box=True)


def _changes(panel: Any, removal: Mapping[str, Any]) -> None:
    """Draw by how much each variant changes test perplexity of known words, share by share."""
    names = list(VARIANT_TITLES)
    for place, one in enumerate(removal["shares"]):
        means, errors = zip(
            *(mean_and_error(change(one[name], removal["everything"], "known")) for name in names), strict=True
        )
        heights = [number + 0.16 * (place - (len(removal["shares"]) - 1) / 2) for number in range(len(names))]
        style = {"marker": "osD^"[place % 4], "color": ("#d95f02", "#7570b3", "#1b9e77", "#444444")[place % 4]}
        label = f"{100 * one['share']:g} %"
        panel.errorbar(means, heights, xerr=errors, linestyle="none", capsize=3, label=label, **style)
    panel.axvline(0, color="#999999", linewidth=0.8)
    panel.set_yticks(range(len(names)), labels=[VARIANT_TITLES[name] for name in names])
    panel.invert_yaxis()
    shares = [f"{100 * one['share']:g} %" for one in removal["shares"]]
    panel.set(
        title=f"test perplexity without {' or '.join(shares)} of the positions",
        xlabel="change in % ± standard error (words of the vocabulary)",
    )
    if len(shares) > 1:
        panel.legend(frameon=False)
