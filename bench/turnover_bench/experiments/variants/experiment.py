"""Train every variant, score with it, and judge it by retraining; time and memory of the kinds of masks."""

import math
import warnings
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

import turnover
from turnover.errors import TurnOverWarning
from turnover.evaluation import Bootstrap, SubsetOutcomes, lds, mislabel_detection, retraining_ceiling, subset_outcomes
from turnover.layers import Mode
from turnover.masks import Stream, source_named
from turnover.training import TrainingRecipe
from turnover_bench.checks import PeakResident, markdown_table
from turnover_bench.experiments.datasets.images import change_labels
from turnover_bench.experiments.datasets.numbers import digit_rows
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import Finding, agreements, graded, paragraphs, spread
from turnover_bench.experiments.networks import mlp
from turnover_bench.experiments.runner import Needs, kept
from turnover_bench.experiments.timing import one_thread, seconds


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        rows: of digits that are trained, a tenth of them with a changed label.
        hidden: width of both hidden layers.
        epochs: of the training that all variants but one share.
        short: epochs of that one.
        queries: held-out rows that LDS and mean influence ask about.
        halves: random halves that are retrained for LDS.
        retrainings: of each half.
        seeds: of masks and trainings.
        ids: whose masks are made to compare the kinds of masks.
        repeats: of that comparison; the least counts.
    """

    rows: int = 1300
    hidden: int = 512
    epochs: int = 10
    short: int = 3
    queries: int = 100
    halves: int = 40
    retrainings: int = 2
    seeds: tuple[int, ...] = (0, 1, 2)
    ids: int = 10_000
    repeats: int = 3


SIZES = {
    "toy": Config(
        rows=120, hidden=32, epochs=6, short=3, queries=6, halves=4, retrainings=1, seeds=(0,), ids=512, repeats=1
    ),
    "small": Config(),
    "medium": Config(halves=100, retrainings=4, seeds=tuple(range(10)), ids=100_000),
    # The paper has no numbers for its footnotes, so no setting either: a wider network and more retrainings instead.
    "full": Config(hidden=1024, halves=200, retrainings=5, seeds=tuple(range(10)), ids=100_000),
}
NEEDS = {"medium": Needs(disk=0.2, memory=4.0, hours=0.4), "full": Needs(disk=0.5, memory=4.0, hours=8.0)}
MEASURES_MEMORY = True


@dataclass(frozen=True)
class Variant:
    """One way to mask, train or ask.

    Attributes:
        title: for the page.
        masks: the kind of masks; None: none at all.
        mode: what masks act on.
        against: what the flipped subnetwork is compared with.
        short: trained for fewer epochs.
    """

    title: str
    masks: str | None = "counter"
    mode: Mode = "forward"
    against: Literal["keep", "full"] = "keep"
    short: bool = False


VARIANTS = {
    "base": Variant("as in the text: flipped against kept subnetwork"),
    "full_network": Variant("flipped subnetwork against the full network", against="full"),
    "backward": Variant("masks in the backward pass alone", mode="backward"),
    "mixout": Variant("mixout: masks on the difference from the start", mode="mixout"),
    "codebook": Variant("hash-composed masks", masks="codebook"),
    "volatile": Variant("volatile masks", masks="volatile"),
    "short": Variant("fewer epochs", short=True),
    "unmasked": Variant("no masks", masks=None),
    "unmasked_short": Variant("no masks, fewer epochs", masks=None, short=True),
}


def network(hidden: int, variant: Variant, seed: int) -> nn.Module:
    """Return the network as a variant masks it."""
    if variant.masks is None:
        return mlp(64, (hidden, hidden), 10)
    at = ["1", "3"] if variant.mode == "forward" else None  # the other modes mask whatever learns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TurnOverWarning)  # what leaks in a mode is part of what is measured
        return turnover.wrap(mlp(64, (hidden, hidden), 10), at=at, mode=variant.mode, masks=variant.masks, seed=seed)


KINDS = ("counter", "volatile", "codebook")
_BATCH = 32


def mask_kinds(config: Config) -> dict[str, Any]:
    """Return seconds for the masks of all ids in batches, in order and shuffled, and growth of memory, by kind."""
    found: dict[str, Any] = {kind: {"in_order": math.inf, "shuffled": math.inf} for kind in KINDS}
    orders = {"in_order": torch.arange(config.ids), "shuffled": torch.randperm(config.ids)}
    # First of all, for what was made once may be kept in memory, a codebook for example.
    for kind in KINDS:
        with PeakResident() as peak:
            _seconds(kind, orders["shuffled"], config.hidden)
        found[kind]["peak_bytes"] = peak.bytes
    # They take turns, so that what else the machine does falls on all of them.
    for _ in range(config.repeats):
        for kind in KINDS:
            for name, ids in orders.items():
                found[kind][name] = min(found[kind][name], _seconds(kind, ids, config.hidden))
    # Both layers of every row, one bit per unit: what masks would take if they were drawn once and kept.
    return {"kinds": found, "kept_bytes": 2 * config.hidden * config.ids // 8, "ids": config.ids, "batch": _BATCH}


def _seconds(kind: str, ids: torch.Tensor, width: int) -> float:
    source = source_named(kind, seed=0)
    streams = [Stream("first", width), Stream("second", width)]

    def draw() -> None:
        for batch in ids.split(_BATCH):
            source.words(batch, streams)  # used and thrown away, as in training

    return seconds(draw)


_FIRST_SEED = 10  # none of the ground truth's


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return accuracy, wrong labels found and LDS of every variant and seed, and the costs of the kinds of masks."""
    with one_thread():
        recipe, wrong, held = _task(config)
        queries = (held[0][: config.queries], held[1][: config.queries])
        truths = {
            epochs: subset_outcomes(
                replace(recipe, epochs=epochs),
                queries,
                subsets=config.halves,
                seeds=config.retrainings,
                cache=out / f"truth-{epochs}",
                progress=True,
            )
            for epochs in (config.epochs, config.short)
        }
        cells = [(name, seed) for seed in config.seeds for name in VARIANTS]
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in VARIANTS}
        for name, seed in tqdm(cells, desc="variants"):
            variant = VARIANTS[name]
            truth = truths[config.short if variant.short else config.epochs]
            measure = partial(_measured, variant, config, recipe, seed, wrong=wrong, held=held, truth=truth)
            found[name].append(kept(out / "cells" / f"{name}-{seed}.json", measure))
        return {
            "setting": asdict(config),
            "ceiling": {
                str(epochs): retraining_ceiling(truth.outcomes).value if config.retrainings > 1 else None
                for epochs, truth in truths.items()
            },
            "variants": found,
            "masks": kept(out / "masks.json", partial(mask_kinds, config)),
        }


def _task(config: Config) -> tuple[TrainingRecipe, np.ndarray, tuple[Tensor, Tensor]]:
    """Return the training without masks, which labels are wrong, and held-out rows."""
    x, labels, held, held_labels = digit_rows(config.rows)
    changed = change_labels(labels, share=0.1, classes=10)
    recipe = TrainingRecipe(
        partial(mlp, 64, (config.hidden, config.hidden), 10),
        x,
        torch.from_numpy(changed.given),
        optimizer=partial(torch.optim.SGD, lr=0.05, momentum=0.9),
        epochs=config.epochs,
        batch_size=32,
    )
    return recipe, changed.changed, (held, torch.from_numpy(held_labels))


def _measured(
    variant: Variant,
    config: Config,
    recipe: TrainingRecipe,
    seed: int,
    *,
    wrong: np.ndarray,
    held: tuple[Tensor, Tensor],
    truth: SubsetOutcomes,
) -> dict[str, Any]:
    recipe = replace(
        recipe,
        build=partial(network, config.hidden, variant, seed),
        epochs=config.short if variant.short else config.epochs,
    )
    model = recipe.fit(seed=_FIRST_SEED + seed).eval()
    accuracy = _accuracy(model, held)
    if variant.masks is None:
        return {"accuracy": accuracy}
    assert isinstance(recipe.inputs, Tensor)
    rows = turnover.with_instance_ids(torch.utils.data.TensorDataset(recipe.inputs, recipe.targets))
    influence = turnover.Influence(model, train=rows, estimator=turnover.influence.TurnOver(against=variant.against))
    queries = (held[0][: config.queries], held[1][: config.queries])
    pairs = np.asarray(influence.pairwise(queries, progress=False).values)
    with warnings.catch_warnings():
        # That self-influence is not significant is a finding here, not a mistake in the ids.
        warnings.simplefilter("ignore", TurnOverWarning)
        own = np.asarray(influence.self_influence(progress=False).values)
    by_self, by_mean = (mislabel_detection(one, wrong, share=0.1) for one in (own, -pairs.mean(1)))
    return {
        "accuracy": accuracy,
        "self_auc": by_self.auc,
        "self_found": by_self.found,
        "mean_auc": by_mean.auc,
        "mean_found": by_mean.found,
        "lds": lds(pairs, truth.subsets, truth.outcomes, bootstrap=Bootstrap(draws=2)).value,
    }


def _accuracy(model: nn.Module, held: tuple[Tensor, Tensor]) -> float:
    with torch.no_grad():
        return float((model(held[0]).argmax(1) == held[1]).float().mean())


_PANELS = {
    "accuracy": "accuracy on held-out rows",
    "self_auc": "wrong labels by self-influence (AUC)",
    "mean_auc": "wrong labels by mean influence (AUC)",
    "lds": "LDS",
}


def _plot(result: dict[str, Any], file: Path) -> None:
    """Write the figure: one panel per measure, one row per variant, one dot per seed, a line at the base variant."""
    names = list(VARIANTS)[::-1]
    with drawn(file, (11, 3.4), letters="path") as figure:
        for axis, (key, title) in zip(figure.subplots(1, len(_PANELS), sharey=True), _PANELS.items(), strict=True):
            for place, name in enumerate(names):
                values = _values(result, name, key)
                color = "#b03a2e" if name == "base" else "#34495e"
                axis.plot(values, [place] * len(values), "o", color=color, markersize=4, alpha=0.75)
                if values and name == "base":
                    axis.axvline(np.mean(values), color=color, linewidth=0.8, linestyle=":")
            axis.set_xlabel(title, fontsize=8)
            axis.set_yticks(range(len(names)), [VARIANTS[name].title for name in names], fontsize=7)
            axis.tick_params(axis="x", labelsize=7)
            tidy(axis, grid="y")


_SAME = 0.01  # of accuracy
_KINDS = {
    "counter": "plain: hashed by unit where needed",
    "volatile": "volatile: blocks drawn anew",
    "codebook": "hash-composed",
}


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown and write its figure into `folder`."""
    _plot(result, folder / "variants.svg")
    how, masks = result["setting"], result["masks"]
    return paragraphs(
        [
            "# Variants mentioned in the paper's footnotes",
            _setting(result),
            "![accuracy, wrong labels and LDS of every variant](variants.svg)",
            _table(result),
            *agreements(findings(result)),
            "## Time and memory of the kinds of masks",
            f"Masks of two layers of {how['hidden']} units for {masks['ids']:,} instances, in batches of "
            f"{masks['batch']}; processor seconds, the minimum of {how['repeats']} rounds in which the kinds took "
            f"turns. Kept as bits, these masks would take {masks['kept_bytes'] / 1e6:.1f} MB; none of the three "
            "stores any. Memory is the growth of the process.",
            markdown_table(["masks", "seconds, in order", "shuffled", "memory"], _mask_rows(masks)),
        ]
    )


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return what the paper says of each variant beside what we find."""
    how = result["setting"]
    about = f"digits, MLP {how['hidden']}-{how['hidden']}, {len(how['seeds'])} seeds"
    return [
        _full_network(result, about),
        _remedies(result, about),
        _mask_sources(result, about),
        _epochs(result, about),
        _memory(result, f"{result['masks']['ids']:,} instances, two layers of {how['hidden']}"),
    ]


def _full_network(result: dict[str, Any], about: str) -> Finding:
    base, full = (_values(result, name, "lds") for name in ("base", "full_network"))
    gain = np.mean(full) - np.mean(base)
    beyond = abs(gain) > max(_sd(base), _sd(full))
    way = "rises" if gain > 0 else "falls"
    told = (
        f"LDS {way} from {np.mean(base):.3f} to {np.mean(full):.3f}, {'more than' if beyond else 'within'} one "
        "standard deviation over seeds"
    )
    return Finding(
        "the full network in place of the kept subnetwork",
        "no large improvements (footnote to section 3.2)",
        f"LDS {spread(full)} against {spread(base)}",
        about,
        f"Comparing with the full network: {told}. "
        + ("The paper's “no large improvements” holds." if not beyond or gain < 0 else "The paper saw no such gain."),
        "comparing with the full network in place of the kept subnetwork brings no large improvement",
        graded(not beyond or bool(gain < 0)),
        "LDS no higher than by one standard deviation over seeds",
    )


def _remedies(result: dict[str, Any], about: str) -> Finding:
    base = _values(result, "base", "accuracy")
    found = {name: np.subtract(_values(result, name, "accuracy"), base) for name in ("backward", "mixout")}
    # Seeds are the same, so that differences are paired; what two standard errors hold may be chance.
    better = [
        name
        for name, gains in found.items()
        if gains.mean() > max(_SAME, 2 * _sd(gains.tolist()) / math.sqrt(len(gains)))
    ]
    lds = ", ".join(f"{name} {spread(_values(result, name, 'lds'))}" for name in found)
    return Finding(
        "remedies for masks on all layers: backward pass alone, mixout",
        "possible remedies, not tried (footnote to section 4.1)",
        ", ".join(f"{name} {spread(_values(result, name, 'accuracy'))}" for name in found)
        + f" against {spread(base)}; LDS: {lds}",
        about,
        f"Accuracy gains from {' and '.join(better)}; its cost in LDS is given beside it."
        if better
        else "Neither remedy clearly gains accuracy where plain masks train well already; what they do to a pretrained "
        "encoder, where plain masks do not, is in the results on real models.",
    )


def _mask_sources(result: dict[str, Any], about: str) -> Finding:
    base = _values(result, "base", "lds")
    others = {name: _values(result, name, "lds") for name in ("codebook", "volatile")}
    apart = [
        name for name, found in others.items() if abs(np.mean(found) - np.mean(base)) > 2 * max(_sd(base), _sd(found))
    ]
    return Finding(
        "hash-composed and volatile masks",
        "used in place of stored masks (section 3.3, appendix)",
        ", ".join(f"LDS {VARIANTS[name].title} {spread(found)}" for name, found in others.items())
        + f" against {spread(base)}",
        about,
        "All kinds of masks give estimates of the same quality, as the paper assumes."
        if not apart
        else f"{' and '.join(VARIANTS[name].title for name in apart)}: LDS differs from plain masks by more than two "
        "standard deviations over seeds.",
        "hash-composed and volatile masks work as well as stored ones",
        graded(not apart),
        "LDS within two standard deviations over seeds",
    )


def _epochs(result: dict[str, Any], about: str) -> Finding:
    how = result["setting"]
    short, long = (_values(result, name, "accuracy") for name in ("short", "base"))
    same = abs(np.mean(short) - np.mean(long)) <= _SAME
    finds = [np.mean(_values(result, name, "self_auc")) for name in ("short", "base")]
    return Finding(
        f"{how['short']} against {how['epochs']} epochs",
        "same accuracy; 10 a little more stable for estimation (appendix)",
        f"accuracy {spread(short)} against {spread(long)}; wrong labels by self-influence, AUC "
        f"{finds[0]:.3f} against {finds[1]:.3f}",
        about,
        f"{how['short']} epochs reach {'the same' if same else 'less'} accuracy here"
        + (", as in the paper, and " if same else ", where the network is not pretrained, and ")
        + (
            "the longer training gives better estimates."
            if finds[1] > finds[0]
            else "the longer training does not give better estimates."
        ),
        "3 epochs reach the accuracy of 10, and 10 give slightly better estimates",
        graded(bool(same and finds[1] > finds[0]), in_part=bool(same or finds[1] > finds[0])),
        f"accuracy within {100 * _SAME:g} points and a higher AUC; in part: one of them",
    )


def _memory(result: dict[str, Any], about: str) -> Finding:
    kinds, kept = result["masks"]["kinds"], result["masks"]["kept_bytes"]
    known = {name: found["peak_bytes"] for name, found in kinds.items() if found["peak_bytes"] is not None}
    less = [name for name, size in known.items() if size < kept]
    slow = kinds["volatile"]["shuffled"] / kinds["counter"]["shuffled"]
    return Finding(
        "memory of masks",
        "no storage by volatile masks, less working memory by hash composition, for some computation (appendix)",
        ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in known.items())
        + f" against {kept / 1e6:.1f} MB of stored bits; volatile takes {slow:.1f} times as long as plain",
        about,
        (
            "All kinds need less memory than stored masks, as the paper says"
            if len(less) == len(known)
            else "At this size stored masks would be as small, but they grow with the data, and the three kinds "
            "do not, as the paper says"
        )
        + "; plain masks, which hash only the units of the batch, need neither blocks nor a codebook.",
        "volatile and hash-composed masks need less memory than stored ones",
        graded(len(less) == len(known), in_part=bool(less)),
        "all three need less; in part: one does",
    )


def _setting(result: dict[str, Any]) -> str:
    how = result["setting"]
    ceilings = " and ".join(
        f"{value:.3f} ({epochs} epochs)" for epochs, value in result["ceiling"].items() if value is not None
    )
    return (
        f"{how['rows']:,} digits, a tenth of their labels changed; a ReLU network with two hidden layers of "
        f"{how['hidden']} and no output bias, SGD, {how['epochs']} epochs ({how['short']} where it says fewer). "
        "Masks on both hidden layers; the other modes mask whatever learns, mixout between the weights at the start "
        "and now (here the start is random, nothing is pretrained). Accuracy is that of the full network on all other "
        f"digits; LDS against the network without masks, retrained {how['retrainings']} times on each of "
        f"{how['halves']} random halves for as many epochs"
        + (f" (ceiling by retraining noise: {ceilings})" if ceilings else "")
        + f"; mean ± standard deviation over {len(how['seeds'])} seeds."
    )


def _table(result: dict[str, Any]) -> str:
    head = ["variant", "accuracy", "wrong labels by self-influence: AUC / found at 10 %", "by mean influence", "LDS"]
    rows = [
        [
            variant.title,
            spread(_values(result, name, "accuracy")),
            _pair(result, name, "self"),
            _pair(result, name, "mean"),
            spread(_values(result, name, "lds")) if _values(result, name, "lds") else "–",
        ]
        for name, variant in VARIANTS.items()
    ]
    return markdown_table(head, rows)


def _pair(result: dict[str, Any], name: str, kind: str) -> str:
    auc, found = (_values(result, name, f"{kind}_{figure}") for figure in ("auc", "found"))
    return f"{spread(auc)} / {np.mean(found):.0%}" if auc else "–"


def _mask_rows(masks: dict[str, Any]) -> list[list[str]]:
    return [
        [
            title,
            f"{found['in_order']:.2f}",
            f"{found['shuffled']:.2f}",
            "–" if found["peak_bytes"] is None else f"{found['peak_bytes'] / 1e6:.1f} MB",
        ]
        for kind, title in _KINDS.items()
        for found in [masks["kinds"][kind]]
    ]


def _values(result: dict[str, Any], name: str, key: str) -> list[float]:
    return [cell[key] for cell in result["variants"][name] if key in cell]


def _sd(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
