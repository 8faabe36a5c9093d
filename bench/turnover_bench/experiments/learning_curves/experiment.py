"""Learning curves: the loss of kept and flipped subnetworks beside the test loss while adapters learn."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from tqdm import tqdm

from turnover.batches import INSTANCE_ID
from turnover.influence import null_ids
from turnover.integrations import measure_curves
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.datasets.texts import load_sst2
from turnover_bench.experiments.encoders import (
    BATCH,
    DEV_ROWS,
    UNITS,
    Rows,
    adapter_network,
    by_length,
    encoder_words,
    load_rows,
    open_encoder,
    train,
)
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import Finding, Verdict, counted, graded, paragraphs, spread
from turnover_bench.experiments.runner import Needs, kept, spent
from turnover_bench.experiments.timing import one_thread


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        rows: of SST-2 that are trained.
        watched: of the trained rows, and as many held-out rows of the training file, whose loss is measured.
        test_rows: of the dev set; None: all 872, as in the paper.
        epochs: of the training.
        points: of every curve, besides the one before training.
        rate: at the start; it falls to zero.
        seeds: of rows, head, adapters, masks and order.
        encoder: a name on the hub, or a folder; None: MiniLM.
        blocks: of a tiny untrained encoder in its place; None: no such.
    """

    rows: int = 1_000
    watched: int = 200
    test_rows: int | None = None
    epochs: int = 5
    points: int = 7
    rate: float = 2e-3
    seeds: tuple[int, ...] = (0, 1)
    encoder: str | None = None
    blocks: int | None = None


SIZES = {
    "toy": Config(rows=64, watched=16, test_rows=16, epochs=2, points=2, blocks=2),
    "small": Config(test_rows=300),
    # The paper's rows, an encoder of half its depth.
    "medium": Config(rows=25_000, watched=1_000, epochs=5, points=20, seeds=(0, 1, 2)),
    # The paper's encoder, rows, epochs and rate.
    "full": Config(
        rows=25_000, watched=1_000, epochs=10, points=50, rate=5e-5, seeds=(0, 1, 2), encoder="bert-base-cased"
    ),
}

NEEDS = {"medium": Needs(disk=0.1, memory=2, hours=2), "full": Needs(disk=1, memory=4, hours=80)}


Curves = Sequence[Mapping[str, float]]

PAIRS = {
    "flip_test": ("flip", "test"),
    "keep_test": ("keep", "test"),
    "flip_test_half": ("flip", "test_half"),
    "keep_test_half": ("keep", "test_half"),
    "flip_held_out": ("flip", "held_out"),
    "keep_held_out": ("keep", "held_out"),
}


def areas(curves: Curves) -> dict[str, float]:
    """Return the areas between curves as mean distances over the training, and what of keep's remains for flip.

    `ratio` is the area between flip and test over that between keep and test: 0, the flipped curve is the test curve;
    1, it is no nearer than the kept one. `ratio_half` and `ratio_held_out` have other curves in the place of test.
    `flip_rise`, `test_rise` and `test_half_rise` are from the lowest point of a curve to its end.
    """
    found = {name: area(curves, *pair) for name, pair in PAIRS.items()}
    for ending in ("", "_half", "_held_out"):
        other = "held_out" if ending == "_held_out" else f"test{ending}"
        found[f"ratio{ending}"] = found[f"flip_{other}"] / found[f"keep_{other}"]
    last = curves[-1]
    found |= {f"{name}_end": last[name] for name in ("keep", "flip", "test")}
    rising = ("flip", "test", "test_half")
    return found | {f"{name}_rise": last[name] - min(point[name] for point in curves) for name in rising}


def area(curves: Curves, one: str, other: str) -> float:
    """Return the area between two curves by the rule of trapezoids, over the steps: their mean distance.

    Between two points the distance is taken for a straight line, also where the curves cross.

    Example:
        >>> area([{"step": 0, "a": 1.0, "b": 1.0}, {"step": 10, "a": 0.0, "b": 1.0}], "a", "b")
        0.5
    """
    apart = [(point["step"], abs(point[one] - point[other])) for point in curves]
    pieces = [(right - left) * (low + high) / 2 for (left, low), (right, high) in pairwise(apart)]
    return sum(pieces) / (apart[-1][0] - apart[0][0])


_TOGETHER = 64


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return the curves of every seed and the areas between them."""
    load_sst2("dev", rows=1)
    with one_thread():
        encoder, parts = open_encoder(out, name=config.encoder, blocks=config.blocks), out / "parts"
        curves = [
            kept(parts / f"curves-{seed}.json", partial(_curves, config, seed, encoder))
            for seed in tqdm(config.seeds, desc="learning curves")
        ]
    return {
        "setting": asdict(config),
        "curves": curves,
        "areas": [areas(one) for one in curves],
        "spent": spent(parts),
    }


def _curves(config: Config, seed: int, encoder: str) -> list[dict[str, float]]:
    """Return the losses before training and at every point."""
    draw = partial(load_rows, encoder=encoder, seed=seed)
    rows = draw("train", rows=config.rows)
    test = draw("dev", rows=config.test_rows)
    model = adapter_network(encoder, masked=True, seed=seed)
    watched = range(0, config.rows, max(1, config.rows // config.watched))[: config.watched]
    never = null_ids(len(test))
    loaders = {
        "train": _loader(rows, watched, ids=torch.tensor(watched)),
        "test": _loader(test, range(len(test))),
        "held out": _loader(held := draw("train", start=config.rows, rows=config.watched), range(len(held))),
        # Every second row will do for the network's halves, which are two.
        "test under masks": _loader(test, range(0, len(test), 2), ids=never[::2]),
    }
    steps = config.epochs * -(-len(rows) // BATCH)
    point_steps = {round(point * steps / config.points) for point in range(1, config.points + 1)}
    history = _History()
    with tqdm(total=steps, desc=f"seed {seed}", leave=False) as bar:

        def tell() -> None:
            history.step += 1
            bar.update(history.step - bar.n)  # a resumed training goes on from its own step
            if history.step in point_steps:
                history.points.append(_point(model, loaders, step=history.step))

        history.points.append(_point(model, loaders, step=0))
        options: dict[str, Any] = {"rate": config.rate, "epochs": config.epochs, "seed": seed}
        train(model, rows, masked=True, **options, tell=tell, kept={"history": history})
    return history.points


class _History:
    """The points so far, kept with the state of the training."""

    def __init__(self) -> None:
        self.step, self.points = 0, list[dict[str, float]]()

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step, "points": self.points}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step, self.points[:] = state["step"], state["points"]


def _point(model: nn.Module, loaders: dict[str, Any], *, step: int) -> dict[str, float]:
    """Return all losses at one step, in eval mode."""
    full = measure_curves(model, train=loaders["train"], validation=loaders["test"])
    # No row has these ids: both their masks give networks that differ from the full one in size alone.
    halves = measure_curves(model, train=loaders["test under masks"], validation=loaders["held out"])
    return {
        "step": step,
        "keep": full["curve_keep"],
        "flip": full["curve_flip"],
        "test": full["curve_validation"],
        "test_half": (halves["curve_keep"] + halves["curve_flip"]) / 2,
        "held_out": halves["curve_validation"],
    }


def _loader(rows: Rows, places: Sequence[int], *, ids: Tensor | None = None) -> DataLoader[Any]:
    """Return batches of rows of like length, so that little padding is computed."""
    id_of = {} if ids is None else dict(zip(places, ids.tolist(), strict=True))
    batches: list[Any] = []
    for part in by_length(rows, places, _TOGETHER):
        batch = rows.batch(part) | {"labels": rows.labels[part]}
        batches.append(batch | ({INSTANCE_ID: torch.tensor([id_of[place] for place in part])} if id_of else {}))
    # A generator of its own: a loader draws a number for its workers, and the training must not notice.
    return DataLoader(batches, batch_size=None, generator=torch.Generator())  # pyright: ignore[reportArgumentType]


_LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "keep": ("training rows, kept subnetwork", {"color": "#c8102e", "linewidth": 2.0}),
    "flip": ("training rows, flipped subnetwork", {"color": "#1f4e9c", "linewidth": 2.0}),
    "test": ("test rows, full network", {"color": "#222222", "linewidth": 1.6, "linestyle": ":"}),
    "test_half": ("test rows, null masks", {"color": "#777777", "linewidth": 1.2, "linestyle": (0, (1, 3))}),
    "held_out": (
        "held-out training rows, full network",
        {"color": "#2e8b57", "linewidth": 1.2, "ls": "--"},
    ),
}


def _plot(runs: Sequence[Curves], file: Path) -> None:
    """Write the curves: means over seeds, with a band from the lowest seed to the highest."""
    with drawn(file, (7.2, 4.4)) as figure:
        panel = figure.subplots()
        steps = [point["step"] for point in runs[0]]
        for name, (label, style) in _LINES.items():
            values = list(zip(*([point[name] for point in curves] for curves in runs), strict=True))
            panel.plot(steps, [mean(by_seed) for by_seed in values], label=label, **style)
            if len(runs) > 1 and name in ("keep", "flip", "test"):
                low, high = [min(by_seed) for by_seed in values], [max(by_seed) for by_seed in values]
                panel.fill_between(steps, low, high, color=style["color"], alpha=0.13, linewidth=0)
        panel.set(xlabel="step", ylabel="loss", xlim=(0, steps[-1]), ylim=(0, None))
        tidy(panel)
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)


_FIGURE = "learning_curves.svg"
_NEAR = 0.5
_OTHERS = {
    "test": ("ratio", "test rows, full network (the paper's curves)"),
    "test_half": ("ratio_half", "test rows under masks of null ids: half the network"),
    "held_out": ("ratio_held_out", "rows of the training file that are not trained, full network"),
}


def page(result: Mapping[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the curves are drawn into the folder."""
    _plot(result["curves"], folder / _FIGURE)
    return paragraphs(
        ["# Learning curves: the flipped subnetwork beside the test set"], _setting(result), _areas(result)
    )


def findings(result: Mapping[str, Any]) -> list[Finding]:
    """Return the paper's statement beside our number."""
    setting = result["setting"]
    return [
        Finding(
            what="SST-2 with adapters: area between flipped and test curve over area between kept and test curve",
            paper="no number: flipped loss “close to the test losses”, without overfitting (§4.2, 25,000 rows, BERT)",
            ours=f"{spread(_values(result, 'ratio'), '.2f')} (1: no closer to it than the kept curve); beside held-out "
            f"rows of the training file {spread(_values(result, 'ratio_held_out'), '.2f')}",
            setting=f"{encoder_words(setting['encoder'], setting['blocks'])}, {setting['rows']:,} rows, "
            f"{setting['epochs']} epochs, {counted(len(setting['seeds']), 'seed')}",
            agreement=agreement(_all_areas(result)),
            claim="the loss of flipped subnetworks follows the test loss, without overfitting",
            verdict=_verdict(_all_areas(result)),
            rule=f"kept curve ends below the test curve, ratio below {_NEAR:g} in every seed, and the flipped curve "
            "rises from its lowest point no more than the test curve; in part: ratio below 1",
        )
    ]


def _verdict(areas: Sequence[Mapping[str, float]]) -> Verdict:
    worst = max(one["ratio"] for one in areas)
    keep, test = (mean(one[f"{name}_end"] for one in areas) for name in ("keep", "test"))
    flip_rise, test_rise, _ = _rises(areas)
    return graded(keep < test and worst < _NEAR and flip_rise <= test_rise, in_part=keep < test and worst < 1)


def _rises(areas: Sequence[Mapping[str, float]]) -> list[float]:
    return [mean(one[f"{name}_rise"] for one in areas) for name in ("flip", "test", "test_half")]


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
    flip_rise, test_rise, half_rise = _rises(areas)
    if flip_rise > test_rise:
        return (
            "Agrees in part: the flipped curve lies by the test curve and the kept one falls away from it, but the "
            f"flipped one rises more from its lowest point, by {flip_rise:.2f} where the test curve rises by "
            f"{test_rise:.2f}, and by {half_rise:.2f} in half the network, under masks of null ids ({ends})."
        )
    return f"Agrees: the flipped curve lies by the test curve and the kept one falls away from it ({ends})."


def _setting(result: Mapping[str, Any]) -> Iterable[str]:
    setting = result["setting"]
    yield (
        f"{encoder_words(setting['encoder'], setting['blocks'])} with adapters of {UNITS} units, "
        f"{setting['rows']:,} rows of SST-2, {setting['epochs']} epochs at a rate of "
        f"{setting['rate']:g} that falls to zero. Every point is the mean loss of {setting['watched']:,} trained rows, "
        f"as many held-out rows of the training file and {setting['test_rows'] or DEV_ROWS:,} rows of the dev set, "
        f"which stand for the test set as in the paper. Seeds: {len(setting['seeds'])}, with other rows, masks and "
        "order each."
    )
    yield f"![Loss of kept subnetwork, flipped subnetwork and test rows over the steps]({_FIGURE})"
    if len(setting["seeds"]) > 1:
        yield "Lines are means over seeds, bands reach from the lowest seed to the highest."


def _areas(result: Mapping[str, Any]) -> Iterable[str]:
    yield "Area between two curves, as mean distance in loss over all steps:"
    rows = [
        [
            title,
            *(spread(_values(result, name)) for name in (f"flip_{other}", f"keep_{other}")),
            spread(_values(result, ratio), ".2f"),
        ]
        for other, (ratio, title) in _OTHERS.items()
    ]
    yield markdown_table(["compared with", "flipped", "kept", "flipped / kept"], rows)
    yield agreement(_all_areas(result))
    yield (
        "The second row takes out that a flipped subnetwork is half a network and test rows are predicted by all of "
        "it, the third that the training file of SST-2 holds phrases and the dev set whole sentences."
    )


def _all_areas(result: Mapping[str, Any]) -> list[dict[str, float]]:
    return [areas(one) for one in result["curves"]]


def _values(result: Mapping[str, Any], name: str) -> list[float]:
    return [one[name] for one in _all_areas(result)]
