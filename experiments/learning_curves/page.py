"""The results page."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from experiments.findings import Finding, spread
from experiments.side_effects.adapters import encoder_title, told_setting

from .plot import plot

_FIGURE = "learning_curves.svg"
_NEAR = 0.5
_DEV_ROWS = 872
_OTHERS = {
    "test": ("ratio", "test rows, full network (the paper's curves)"),
    "test_half": ("ratio_half", "test rows under masks of ids that were never trained: half the network"),
    "held_out": ("ratio_held_out", "rows of the training file that are not trained, full network"),
}


def page(result: Mapping[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the curves are drawn into the folder."""
    plot(result["curves"], folder / _FIGURE)
    return "\n".join(
        ["# Learning curves: the flipped part beside the test set", "", *_setting(result), *_areas(result)]
    )


def findings(result: Mapping[str, Any]) -> list[Finding]:
    """Return the paper's statement beside our number."""
    setting = result["setting"]
    seeds = len(setting["seeds"])
    return [
        Finding(
            what="SST-2 with adapters: area between flipped and test curve over area between kept and test curve",
            paper="no number: flipped loss “close to the test losses”, without overfitting (§4.2, 25,000 rows, BERT)",
            ours=f"{spread(_values(result, 'ratio'), '.2f')} (1: no nearer than the kept curve)",
            setting=f"{encoder_title(setting['encoder'], setting['blocks'])}, {setting['rows']:,} rows, "
            f"{setting['epochs']} epochs, {seeds} seed{'s' if seeds > 1 else ''}",
            agreement=agreement(result["areas"]),
        )
    ]


def agreement(areas: Sequence[Mapping[str, float]]) -> str:
    """Return in a sentence whether flipped loss follows the test loss while kept loss falls below it, in every seed."""
    worst = max(one["ratio"] for one in areas)
    keep, flip, test = (mean(one[f"{name}_end"] for one in areas) for name in ("keep", "flip", "test"))
    ends = f"at the end the loss is {keep:.2f} kept, {flip:.2f} flipped and {test:.2f} on test rows"
    if keep >= test:
        return f"Does not agree: rows are not memorized, the kept curve ends no lower than the test curve ({ends})."
    if worst >= 1:
        return f"Does not agree: the flipped curve is no nearer to the test curve than the kept one ({ends})."
    if worst >= _NEAR:
        return (
            "Agrees in part: in every seed the flipped curve is nearer to the test curve than the kept one, but its "
            f"area is up to {worst:.2f} of the kept one's ({ends})."
        )
    return f"Agrees: the flipped curve lies by the test curve and the kept one falls away from it ({ends})."


def _setting(result: Mapping[str, Any]) -> Iterable[str]:
    setting = result["setting"]
    yield (
        f"{told_setting(setting)}, {setting['rows']:,} rows of SST-2, {setting['epochs']} epochs at a rate of "
        f"{setting['rate']:g} that falls to zero. Every point is the mean loss of {setting['watched']:,} trained rows, "
        f"as many held-out rows of the training file and {setting['test_rows'] or _DEV_ROWS:,} rows of the dev set, "
        f"which stand for the test set as in the paper. Seeds: {len(setting['seeds'])}, with other rows, masks and "
        "order each."
    )
    yield from ["", f"![Loss of kept, flipped and test rows over the steps]({_FIGURE})", ""]
    if len(setting["seeds"]) > 1:
        yield "Lines are means over seeds, bands reach from the lowest seed to the highest."
        yield ""


def _areas(result: Mapping[str, Any]) -> Iterable[str]:
    yield "Area between two curves, as mean distance in loss over all steps:"
    yield ""
    yield "| compared with | flipped rows | kept rows | flipped / kept |"
    yield "| --- | ---: | ---: | ---: |"
    for other, (ratio, title) in _OTHERS.items():
        cells = (spread(_values(result, name)) for name in (f"flip_{other}", f"keep_{other}"))
        yield f"| {title} | {' | '.join(cells)} | {spread(_values(result, ratio), '.2f')} |"
    yield ""
    yield agreement(result["areas"])
    yield ""
    yield (
        "The second row takes out that flipped rows are seen by half a network and test rows by all of it, the third "
        "that the training file of SST-2 holds phrases and the dev set whole sentences, which are other data."
    )
    yield ""
    yield f"Measured in {result['spent']['seconds'] / 60:.1f} processor minutes."


def _values(result: Mapping[str, Any], name: str) -> list[float]:
    return [one[name] for one in result["areas"]]
