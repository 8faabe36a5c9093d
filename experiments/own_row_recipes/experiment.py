"""Why a flipped subnetwork is worse on its own row, one thing varied at a time, and trainings that might cure it."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

import turnover
from experiments.datasets.changed_labels import change_labels
from experiments.datasets.numbers import Rows, digit_rows
from experiments.figures import drawn, tidy
from experiments.findings import Finding, agreements, graded, paragraphs, seeds_words, spread
from experiments.networks import masked_mlp, mlp
from experiments.runner import Needs, kept
from experiments.timing import one_thread
from turnover.evaluation import markdown_table, mislabel_detection


@dataclass(frozen=True)
class Recipe:
    """One way to train; the defaults are the training of `own_row` on digits.

    Attributes:
        rate: of SGD with momentum 0.9.
        epochs: over all rows; with fewer rows there are as many steps.
        rows: that are trained; None: all.
        keep: share of units that a row trains.
        full: share of the steps that train the full network, without masks.
        learned: rows whose loss in their kept subnetwork is below this have no gradient; 0: all have one.
        penalty: on what masks alone do: outputs for a blend of rows under all masks of a step must not differ.
        references: rows, beside those trained, that every step shows under the masks of its own rows.
        smoothing: share of the label that goes to all classes.
        decay: weight decay.
        frozen: train the first layer for the first fifth of the steps only.
    """

    rate: float = 0.1
    epochs: int = 25
    rows: int | None = None
    keep: float = 0.5
    full: float = 0.0
    learned: float = 0.0
    penalty: float = 0.0
    references: int = 0
    smoothing: float = 0.0
    decay: float = 0.0
    frozen: bool = False


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        rows: digits that are trained; the last of the others are references.
        hidden: widths of the masked layers.
        epochs: of the base recipe.
        left_out: share of the rows that the second training omits.
        seeds: of omitted rows, weights, masks and order.
        names: recipes that are tried; (): all.
    """

    rows: int = 1_300
    hidden: tuple[int, ...] = (512, 512)
    epochs: int = 25
    left_out: float = 0.1
    seeds: tuple[int, ...] = (0, 1, 2)
    names: tuple[str, ...] = ()


SIZES = {
    "toy": Config(rows=120, hidden=(32,), epochs=3, seeds=(0,), names=("base", "rate 0.02", "full steps 0.5")),
    "small": Config(),
    "medium": Config(seeds=tuple(range(10))),
    # The paper has no such measurement, so no setting either.
    "full": Config(hidden=(1024, 1024), seeds=tuple(range(20))),
}
NEEDS = {"medium": Needs(disk=0.1, memory=2, hours=0.6)}

_BASE = Recipe()
CAUSES = {
    "rate 0.02": replace(_BASE, rate=0.02),
    "rate 0.05": replace(_BASE, rate=0.05),
    "epochs 3": replace(_BASE, epochs=3),
    "epochs 8": replace(_BASE, epochs=8),
    "epochs 75": replace(_BASE, epochs=75),
    "rows 160": replace(_BASE, rows=160),
    "rows 320": replace(_BASE, rows=320),
    "rows 650": replace(_BASE, rows=650),
    "first layer frozen": replace(_BASE, frozen=True),
}
CURES = {
    "keep 0.7": replace(_BASE, keep=0.7),
    "keep 0.9": replace(_BASE, keep=0.9),
    "full steps 0.1": replace(_BASE, full=0.1),
    "full steps 0.5": replace(_BASE, full=0.5),
    "full steps 0.9": replace(_BASE, full=0.9),
    "learned rows rest, 0.1": replace(_BASE, learned=0.1),
    "learned rows rest, 0.5": replace(_BASE, learned=0.5),
    "references 25": replace(_BASE, references=25),
    "references 100": replace(_BASE, references=100),
    "penalty 0.1": replace(_BASE, penalty=0.1),
    "penalty 1": replace(_BASE, penalty=1.0),
    "label smoothing 0.1": replace(_BASE, smoothing=0.1),
    "weight decay 0.001": replace(_BASE, decay=1e-3),
}
_TITLES = {
    "base": "as in own_row: rate 0.1, 25 epochs, 1,300 rows, keep 0.5",
    "first layer frozen": "first layer frozen after a fifth of the steps",
    **{f"full steps {share}": f"{float(share):.0%} of the steps without masks" for share in ("0.1", "0.5", "0.9")},
    **{f"learned rows rest, {loss}": f"no gradient for rows of a loss below {loss}" for loss in ("0.1", "0.5")},
    **{
        f"references {count}": f"{count} other rows in every step, under the masks of its rows"
        for count in ("25", "100")
    },
}
RECIPES = {"base": _BASE, **CAUSES, **CURES}
_BATCH, _BLENDED = 100, 8
_REFERENCES = 200
"""Of the held-out rows, those that recipes may show; none of them is asked about."""


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return for every recipe how flipped subnetworks do on their own rows, and what the training costs in accuracy."""
    x, labels, held, held_labels = digit_rows(config.rows)
    rows = (x, labels, held, held_labels)
    found: dict[str, list[dict[str, float]]] = {}
    with one_thread():
        plain = [
            kept(out / "parts" / f"plain-{seed}.json", partial(_plain, config, rows, seed)) for seed in config.seeds
        ]
        for name in tqdm(config.names or RECIPES, desc="recipes"):
            recipe = replace(RECIPES[name], epochs=max(1, round(RECIPES[name].epochs * config.epochs / _BASE.epochs)))
            found[name] = [
                kept(
                    out / "parts" / f"{name.replace(' ', '-')}-{seed}.json",
                    partial(_measured, config, recipe, rows, seed),
                )
                for seed in config.seeds
            ]
    return {"rows": config.rows, "hidden": config.hidden, "seeds": config.seeds, "plain": plain, "recipes": found}


def _measured(config: Config, recipe: Recipe, rows: Rows, seed: int) -> dict[str, float]:
    x, labels, held, held_labels = rows
    y = torch.from_numpy(labels)
    count = len(y) if recipe.rows is None else min(recipe.rows, len(y))
    draw = np.random.default_rng(seed)
    chosen = np.sort(draw.permutation(len(y))[:count])
    away = draw.permutation(count)[: max(1, round(config.left_out * count))]
    asked = torch.from_numpy(np.sort(chosen[away]))
    there = torch.from_numpy(np.setdiff1d(chosen, asked.numpy()))
    references = (held[-_REFERENCES:], torch.from_numpy(held_labels[-_REFERENCES:]))
    trained = _trained(config, recipe, x, y, torch.from_numpy(chosen), references, seed)
    without = _trained(config, recipe, x, y, there, references, seed)
    test, test_labels = held[:-_REFERENCES], torch.from_numpy(held_labels[:-_REFERENCES])
    found = {
        "accuracy": _right(trained, test, test_labels),
        "kept": _loss(trained, x[asked], y[asked], asked, "keep"),
        "trained": _loss(trained, x[asked], y[asked], asked, "flip"),
        "left_out": _loss(without, x[asked], y[asked], asked, "flip"),
        "whole_left_out": _loss(without, x[asked], y[asked], asked, "full"),
        "wrong_labels": _wrong_labels(config, recipe, x, y, torch.from_numpy(chosen), references, seed),
        "accuracy_trained": _right(trained, x[asked], y[asked], asked),
        "accuracy_left_out": _right(without, x[asked], y[asked], asked),
    }
    # Other images under the same flipped masks: what training on the rows changed for them.
    for name, places in _others(x[asked], y[asked], test, test_labels, seed).items():
        pairs = [_loss(model, test[places], test_labels[places], asked, "flip") for model in (trained, without)]
        found[f"change_{name}"] = pairs[0] - pairs[1]
    found["change_own"] = found["trained"] - found["left_out"]
    return found


def _wrong_labels(
    config: Config, recipe: Recipe, x: Tensor, y: Tensor, rows: Tensor, references: tuple[Tensor, Tensor], seed: int
) -> float:
    """Return how well the loss of flipped subnetworks tells changed labels, a tenth of all, from others: AUC."""
    changed = change_labels(y.numpy(), share=0.1, classes=10, seed=seed)
    given = torch.from_numpy(changed.given)
    model = _trained(config, recipe, x, given, rows, references, seed)
    with torch.no_grad(), turnover.instances(rows, view="flip"):
        losses = functional.cross_entropy(model(x[rows]), given[rows], reduction="none")
    return mislabel_detection(losses.numpy(), changed.changed[rows.numpy()]).auc


def _others(x: Tensor, y: Tensor, test: Tensor, labels: Tensor, seed: int) -> dict[str, Tensor]:
    """Return for every row a held-out one: the most similar of its label, one of its label, one of another label."""
    apart = torch.cdist(x, test)
    order = torch.Generator().manual_seed(seed)
    chance = torch.rand(apart.shape, generator=order)
    same = y[:, None] == labels
    return {
        "nearest": apart.masked_fill(~same, torch.inf).argmin(1),
        "same_label": chance.masked_fill(~same, 2.0).argmin(1),
        "other_label": chance.masked_fill(same, 2.0).argmin(1),
    }


def _trained(
    config: Config, recipe: Recipe, x: Tensor, y: Tensor, rows: Tensor, references: tuple[Tensor, Tensor], seed: int
) -> nn.Module:
    torch.manual_seed(seed)
    model = masked_mlp(x.shape[1], config.hidden, 10, seed=seed, keep=recipe.keep).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=recipe.rate, momentum=0.9, weight_decay=recipe.decay)
    order = torch.Generator().manual_seed(seed)
    steps = recipe.epochs * -(-config.rows // _BATCH)
    number = 0
    while number < steps:
        for batch in rows[torch.randperm(len(rows), generator=order)].split(_BATCH):
            if number == steps:
                break
            if recipe.frozen and number == steps // 5:
                model[0].requires_grad_(False)  # pyright: ignore[reportIndexIssue]
            view = "full" if float(torch.rand((), generator=order)) < recipe.full else "keep"
            optimizer.zero_grad()
            _objective(model, recipe, x[batch], y[batch], batch, view).backward()
            if recipe.references:
                shown = torch.randint(_REFERENCES, (recipe.references,), generator=order)
                masks = batch[torch.randint(len(batch), (recipe.references,), generator=order)]
                with turnover.instances(masks):
                    loss = functional.cross_entropy(model(references[0][shown]), references[1][shown])
                (loss * recipe.references / _BATCH).backward()
            optimizer.step()
            number += 1
    return model.eval()


def _objective(model: nn.Module, recipe: Recipe, x: Tensor, y: Tensor, ids: Tensor, view: Any) -> Tensor:
    with turnover.instances(ids, view=view):
        outputs = model(x)
    losses = functional.cross_entropy(outputs, y, reduction="none", label_smoothing=recipe.smoothing)
    counted = losses.detach() >= recipe.learned
    objective = (losses * counted).sum() / len(y)
    if recipe.penalty:
        blend = x[torch.randperm(len(x))[:_BLENDED]].mean(0, keepdim=True)
        with turnover.instances(ids):
            alone = model(blend.expand(len(ids), -1))
        objective = objective + recipe.penalty * (alone - alone.mean(0)).square().sum(1).mean()
    return objective


def _plain(config: Config, rows: Rows, seed: int) -> float:
    """Return the accuracy of the network without masks, trained alike."""
    x, labels, held, held_labels = rows
    torch.manual_seed(seed)
    model, order = mlp(x.shape[1], config.hidden, 10), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=_BASE.rate, momentum=0.9)
    for _ in range(config.epochs):
        for batch in torch.randperm(len(x), generator=order).split(_BATCH):
            optimizer.zero_grad()
            functional.cross_entropy(model(x[batch]), torch.from_numpy(labels)[batch]).backward()
            optimizer.step()
    return _right(model.eval(), held[:-_REFERENCES], torch.from_numpy(held_labels[:-_REFERENCES]))


@torch.no_grad()
def _loss(model: nn.Module, x: Tensor, y: Tensor, ids: Tensor, view: Any) -> float:
    with turnover.instances(ids, view=view):
        return float(functional.cross_entropy(model(x), y))


@torch.no_grad()
def _right(model: nn.Module, x: Tensor, y: Tensor, ids: Tensor | None = None) -> float:
    """Return the accuracy of the full network, or of the flipped subnetworks of ids."""
    if ids is None:
        return float((model(x).argmax(1) == y).float().mean())
    with turnover.instances(ids, view="flip"):
        return float((model(x).argmax(1) == y).float().mean())


_UNBIASED = 0.1
"""Of the loss where the rows were left out: a bias of less is none."""
_SAME = 0.005
"""Of accuracy: a difference of less is none."""
_OTHERS = {
    "own": "the row itself",
    "nearest": "the most similar held-out row of its label",
    "same_label": "a held-out row of its label",
    "other_label": "a held-out row of another label",
}
_FIGURE = "own_row_recipes.svg"


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the figure is drawn into the folder."""
    _plot(result, folder / _FIGURE)
    base = result["recipes"]["base"]
    head = ["training", "accuracy", "loss, trained", "loss, left out", "bias", "wrong labels, AUC"]
    lines = [
        "# Why a flipped subnetwork is worse on its own row, and what helps",
        f"{result['rows']:,} digits, hidden layers of {', '.join(map(str, result['hidden']))}, all masked, "
        f"{seeds_words(result['seeds'])}. As in [own_row](own_row.md) every training is made twice, with all rows and "
        "without a tenth of them, under the same masks. *Bias* is how much higher the loss of flipped subnetworks on "
        "these rows is when the rows were trained: 0 for a held-out prediction. *Accuracy* is that of the full network "
        f"on held-out rows (without masks: {spread(result['plain'])}). *Wrong labels*: how well the loss of flipped "
        "subnetworks finds them where a tenth of the labels is changed.",
        f"![Bias and accuracy of every training, and for whom flipped subnetworks get worse]({_FIGURE})",
        "## For whom do flipped subnetworks get worse?",
        "The change of the loss by training on the rows, under the same flipped masks, for other images:",
        markdown_table(
            ["flipped subnetwork of a row, shown", "change of its loss"],
            [[title, spread([one[f"change_{name}"] for one in base])] for name, title in _OTHERS.items()],
        ),
        _cause_sentence(base),
        "## What it depends on",
        markdown_table(head, [_row(name, result) for name in ("base", *CAUSES) if name in result["recipes"]]),
        "## Trainings that might cure it",
        markdown_table(head, [_row(name, result) for name in ("base", *CURES) if name in result["recipes"]]),
        *agreements(findings(result)),
    ]
    return paragraphs(lines)


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return what makes flipped subnetworks worse, and whether a training makes them unbiased at no cost."""
    recipes, setting = result["recipes"], f"{result['rows']:,} digits, {seeds_words(result['seeds'])}"
    base = recipes["base"]
    same, own = (mean(one[f"change_{name}"] for one in base) for name in ("same_label", "own"))
    least = min(recipes, key=lambda name: abs(_relative(recipes[name])))
    cured = _cured(result)
    return [
        Finding(
            "loss that training on a row adds in its flipped subnetwork: for the row, for other rows of its label",
            "–",
            f"{own:.2f}, {same:.2f}",
            setting,
            _cause_sentence(base),
        ),
        Finding(
            "smallest bias of flipped subnetworks on their own rows among the trainings tried",
            "taken to be none (section 3)",
            f"{_relative(recipes[least]):+.0%} of the loss ({_title(least)}), as in the paper {_relative(base):+.0%}",
            setting,
            _cure_sentence(result),
            "there is a training whose flipped subnetworks are held-out models, at no loss of accuracy",
            graded(bool(cured), in_part=any(_is_unbiased(found) for found in recipes.values())),
        ),
    ]


def _cured(result: dict[str, Any]) -> list[str]:
    """Return the trainings that are unbiased, as accurate as the network without masks, and still find wrong labels."""
    plain, base = mean(result["plain"]), result["recipes"]["base"]
    return [
        name
        for name, found in result["recipes"].items()
        if _is_unbiased(found)
        and _mean(found, "accuracy") >= plain - _SAME
        and _mean(found, "wrong_labels") >= _mean(base, "wrong_labels") - _SAME
    ]


def _cause_sentence(base: list[dict[str, float]]) -> str:
    own, same, other = (_mean(base, f"change_{name}") for name in ("own", "same_label", "other_label"))
    if own <= 0:
        return "Training on a row does not make its flipped subnetwork worse on it here."
    share = same / own
    told = f"{share:.0%} of the change is there for any row of the same label, {other / own:.0%} for rows of others"
    if share > 0.5:
        return (
            f"Masks carry labels: {told}. The units that a row does not keep learn to oppose its label, whatever they "
            "are shown; the rest is competition around similar rows."
        )
    return f"The change belongs to the row and those like it, not to its mask: {told}."


def _cure_sentence(result: dict[str, Any]) -> str:
    recipes, cured = result["recipes"], _cured(result)
    if cured:
        return f"Unbiased, accurate and as good at finding wrong labels: {'; '.join(map(_title, cured))}."
    unbiased = [name for name, found in recipes.items() if _is_unbiased(found)]
    if not unbiased:
        return "No training tried makes flipped subnetworks unbiased on their own rows."
    told = "; ".join(
        f"{_title(name)} (accuracy {_mean(recipes[name], 'accuracy'):.3f}, wrong labels "
        f"{_mean(recipes[name], 'wrong_labels'):.3f})"
        for name in unbiased
    )
    return (
        f"Unbiased, but at a cost: {told}; as in the paper accuracy {_mean(recipes['base'], 'accuracy'):.3f}, wrong "
        f"labels {_mean(recipes['base'], 'wrong_labels'):.3f}."
    )


def _bias(found: list[dict[str, float]]) -> float:
    return _mean(found, "trained") - _mean(found, "left_out")


def _relative(found: list[dict[str, float]]) -> float:
    return _bias(found) / _mean(found, "left_out")


def _is_unbiased(found: list[dict[str, float]]) -> bool:
    return abs(_relative(found)) < _UNBIASED


def _mean(found: list[dict[str, float]], what: str) -> float:
    return mean(one[what] for one in found)


def _title(name: str) -> str:
    return _TITLES.get(name, name)


def _row(name: str, result: dict[str, Any]) -> list[str]:
    found = result["recipes"][name]
    cells = [spread([one[what] for one in found]) for what in ("accuracy", "trained", "left_out")]
    bias = spread([one["trained"] - one["left_out"] for one in found])
    return [_title(name), *cells, bias, spread([one["wrong_labels"] for one in found])]


def _plot(result: dict[str, Any], file: Path) -> None:
    with drawn(file, (9.6, 4.2), font=9) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        for names, color, label in (
            (["base"], "#c8102e", "as in the paper"),
            (CAUSES, "#8c8c8c", "one thing varied"),
            (CURES, "#1f4e9c", "might cure it"),
        ):
            shown = [name for name in names if name in result["recipes"]]
            places = [(_mean(result["recipes"][name], "accuracy"), _bias(result["recipes"][name])) for name in shown]
            left.scatter(*zip(*places, strict=True) if places else ([], []), color=color, s=22, label=label)
            for name, place in zip(shown, places, strict=True):
                left.annotate(name, place, xytext=(4, 3), textcoords="offset points", fontsize=6.5)
        left.axhline(0, color="#222222", linewidth=0.9)
        left.axvline(mean(result["plain"]), color="#2e8b57", linestyle=":", linewidth=1.2, label="without masks")
        left.set(xlabel="accuracy of the full network", ylabel="bias: loss on own rows, trained − left out")
        left.legend(frameon=False, fontsize=8)
        base = result["recipes"]["base"]
        values = [[one[f"change_{name}"] for one in base] for name in _OTHERS]
        errors = [stdev(some) if len(some) > 1 else 0.0 for some in values]
        right.barh(range(len(values)), [mean(some) for some in values], xerr=errors, color="#c8102e")
        right.set_yticks(range(len(values)), [title.replace(" held-out", "\nheld-out") for title in _OTHERS.values()])
        right.invert_yaxis()
        right.set(xlabel="change of the loss in flipped subnetworks")
        for panel in (left, right):
            tidy(panel)
