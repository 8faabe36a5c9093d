"""The page: bias, accuracy and use of every training, for whom flipped subnetworks get worse, and when."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

from turnover_bench.checks import markdown_table
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import Finding, agreements, graded, paragraphs, seeds_words, spread

from .experiment import LDS, RECIPES, TITLES

_UNBIASED = 0.1
"""Of the loss where the rows were left out: a bias of less is none."""
_SAME = 0.005
"""Of accuracy: a difference of less is none."""
_LABEL = 2 / 3
"""Of the change for the row itself: a larger one for other rows of its label is due to the label."""
_BALANCE = (
    " Steps without masks train a row in its flipped subnetwork, too: there, no bias means that two of them cancel, "
    "not that the row is held out."
)
_OTHERS = {
    "own": "the row itself",
    "nearest": "the most similar held-out row of its label",
    "same_label": "a held-out row of its label",
    "other_label": "a held-out row of another label",
}
_PHASES = ("all other rows", "then these rows alone", "then the other rows again")
_SHARED = {
    "before": "all other rows",
    "after": "then these rows alone",
    "trained": "then the other rows again",
    "trained_frozen": "or so, with what these rows changed frozen",
    "without": "the other rows twice, these never",
    "without_frozen": "or so, with the same weights frozen",
}
_FIGURE = "own_row_recipes.svg"
_COLORS = {"digits": "#1f4e9c", "sst2": "#c8102e"}
Found = list[dict[str, float]]


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the figure is drawn into the folder."""
    _plot(result, folder / _FIGURE)
    lines = [
        "# Why a flipped subnetwork is worse on its own row, and what helps",
        "As in [own_row](own_row.md) every training is made twice, with all rows and without a tenth of them, under "
        "the same masks. *Bias* is how much higher the loss of flipped subnetworks on these rows is when the rows were "
        "trained: 0 for a held-out prediction. *Accuracy* is that of the full network on held-out rows. *Wrong "
        "labels*: how well the loss of flipped subnetworks finds them where a tenth of the labels is changed. "
        "*LDS*: how well scores of the one model, by the original and by the recommended estimator, rank the losses of "
        "networks without masks that are retrained on random halves of the rows. "
        f"{seeds_words(result['seeds']).capitalize()}.",
        f"![Bias and accuracy of every training, for whom flipped subnetworks get worse, and when]({_FIGURE})",
        *agreements(findings(result)),
    ]
    head = ["training", "accuracy", "loss, trained", "loss, left out", "bias", "wrong labels, AUC"]
    head += ["LDS, original", "LDS, recommended"]
    for task in result["tasks"].values():
        lines += [
            f"## {task['title']}",
            f"{task['rows']:,} rows, hidden layers of {', '.join(map(str, task['hidden']))}, all masked, "
            f"{task['epochs']} epochs at a rate of {task['rate']:g}; accuracy without masks {spread(task['plain'])}.",
            markdown_table(head, [_row(name, task) for name in task["recipes"]]),
            "By how much training on the rows raises the loss of their flipped subnetworks, shown other rows, as in "
            "own_row:",
            markdown_table(
                ["shown", "change of the loss"],
                [
                    [title, spread([one[f"change_{name}"] for one in task["recipes"]["base"]])]
                    for name, title in _OTHERS.items()
                ],
            ),
            "Trained in phases, each as long as the training above; loss on the rows:",
            markdown_table(
                ["trained on", "kept subnetwork", "flipped", "full network"],
                [
                    [name, *(spread([one[place][view] for one in task["phases"]]) for view in ("keep", "flip", "full"))]
                    for place, name in enumerate(_PHASES)
                ],
            ),
            "The same where these rows share one mask, so that their own steps cannot reach its flipped subnetwork:",
            markdown_table(
                ["trained on", "kept subnetwork", "flipped", "full network"],
                [
                    [title, *(spread([one[name][view] for one in task["shared"]]) for view in ("keep", "flip", "full"))]
                    for name, title in _SHARED.items()
                ],
            ),
        ]
    return paragraphs(lines)


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return what makes flipped subnetworks worse, and whether a training makes them unbiased at no cost."""
    tasks, seeds = result["tasks"], seeds_words(result["seeds"])
    found = []
    for task in tasks.values():
        base = task["recipes"]["base"]
        own, near, same = (_mean(base, f"change_{name}") for name in ("own", "nearest", "same_label"))
        free, frozen = (_made_worse(task, ending) for ending in ("", "_frozen"))
        found.append(
            Finding(
                f"{task['title']}: what training on a row adds to the loss of its flipped subnetwork, for the row, the "
                "most similar row and any row of its label",
                "–",
                f"{own:+.2f}, {near:+.2f}, {same:+.2f}",
                f"{task['rows']:,} rows, {seeds}",
                _cause_sentence(task),
            )
        )
        found.append(
            Finding(
                f"{task['title']}: what rows that share a mask add to the loss of its flipped subnetwork by their own "
                "steps, once other rows are trained again, and where what they changed is frozen meanwhile",
                "–",
                f"{_own_steps(task):+.2f}, {mean(free):+.2f}, {mean(frozen):+.2f}",
                f"{task['rows']:,} rows, {seeds}",
                _competition_sentence(task),
            )
        )
        told = _similar_sentence(task)
        if told:
            biases = ", ".join(f"{_bias(task, name):+.2f}" for name in _SIMILAR)
            found.append(
                Finding(
                    f"{task['title']}: bias as in own_row; with 1 and 5 copies of each row under other masks; without "
                    "the 5 most similar rows, without as many at random",
                    "–",
                    biases,
                    f"{task['rows']:,} rows, {seeds}",
                    told,
                )
            )
    names = list(next(iter(tasks.values()))["recipes"])
    cured = [name for name in names if all(_is_cure(task, name) for task in tasks.values())]
    some = [name for name in names if any(_is_cure(task, name) for task in tasks.values())]
    held_out = [name for name in names if not _balances(name)]
    accurate = [name for name in held_out if all(_is_accurate(task, name) for task in tasks.values())]
    least = min(accurate or held_out, key=lambda name: max(abs(_relative(task, name)) for task in tasks.values()))
    told = ", ".join(f"{_relative(task, least):+.0%}" for task in tasks.values())
    base = ", ".join(f"{_relative(task, 'base'):+.0%}" for task in tasks.values())
    return [
        *found,
        *(_lds_finding(task, seeds) for task in tasks.values()),
        Finding(
            "smallest bias of flipped subnetworks on their own rows, as a share of the loss, by a training at no cost "
            "in accuracy",
            "no bias is assumed (section 3)",
            f"bias {told} ({_title(least)}); trained as in the paper {base}",
            f"{' and '.join(task['title'] for task in tasks.values())}, {seeds}",
            f"{_cure_sentence(tasks, cured, some)} With masks in every step {_title(least)} comes nearest"
            f"{' at no loss of accuracy' if accurate else ''}: {told} of the loss instead of {base}.",
            "flipped subnetworks can be trained to predict as held-out models do, at no cost in accuracy",
            graded(bool(cured), in_part=bool(some)),
            f"bias below {_UNBIASED:.0%} of the loss, accuracy as without masks and AUC of wrong labels as before "
            f"(within {_SAME:g}) on both tasks, with masks in every step; in part: on one",
        ),
    ]


def _lds_finding(task: dict[str, Any], seeds: str) -> Finding:
    """Return whether a training whose flipped subnetworks are less biased follows retraining better, too."""
    judged = {name: found for name, found in task["recipes"].items() if "lds" in found[0]}
    best = max(judged, key=lambda name: _mean(judged[name], "lds"))
    original, recommended = ({name: f"{_mean(found, what):.3f}" for name, found in judged.items()} for what in LDS)
    gain = _mean(judged[best], "lds") - _mean(judged["base"], "lds")
    noise = max(pstdev(one["lds"] for one in judged[name]) for name in ("base", best))
    if gain > noise:
        told = (
            "LDS of the original and of the recommended estimator is "
            f"{original['base']} and {recommended['base']} as in own_row and highest, by the original one, with "
            f"{_title(best)}: {original[best]} and {recommended[best]}."
        )
    else:
        told = (
            "no other training raises the LDS of the original estimator by more than one sd; as in own_row it is "
            f"{original['base']}, that of the recommended one {recommended['base']}."
        )
    return Finding(
        f"{task['title']}: LDS of one model by the original and by the recommended estimator, trained as in own_row "
        "and by the best of the trainings that were tried",
        "–",
        f"{original['base']}, {recommended['base']}; {_title(best)} {original[best]}, {recommended[best]}",
        f"{task['rows']:,} rows, {seeds}",
        f"{task['title']}: {told}",
    )


def _is_cure(task: dict[str, Any], name: str) -> bool:
    """Tell whether a training is unbiased, as accurate as without masks, and finds wrong labels as before."""
    found, base = task["recipes"][name], task["recipes"]["base"]
    return (
        "wrong_labels" in found[0]
        and abs(_relative(task, name)) < _UNBIASED
        and _is_accurate(task, name)
        and _mean(found, "wrong_labels") >= _mean(base, "wrong_labels") - _SAME
        and not _balances(name)
    )


def _is_accurate(task: dict[str, Any], name: str) -> bool:
    return _mean(task["recipes"][name], "accuracy") >= mean(task["plain"]) - _SAME


def _balances(name: str) -> bool:
    return name in RECIPES and RECIPES[name].full > 0


def _cause_sentence(task: dict[str, Any]) -> str:
    base, phases = task["recipes"]["base"], task["phases"]
    own, same = (_mean(base, f"change_{name}") for name in ("own", "same_label"))
    if own <= 0:
        return f"{task['title']}: training on a row does not make its flipped subnetwork worse on it here."
    flips = [mean(one[place]["flip"] for one in phases) for place in range(len(_PHASES))]
    by_others = flips[2] - flips[1] > flips[1] - flips[0]
    where = "for any row of its label" if same > _LABEL * own else "in part for any row of its label"
    if same < (1 - _LABEL) * own:
        where = "for the row itself"
    return (
        f"{task['title']}: the change is there {where} ({same / own:z.0%} of it for a random row of the label). In "
        f"phases, the flipped loss goes from {flips[0]:.2f} to {flips[1]:.2f} while the rows are trained, and to "
        f"{flips[2]:.2f} while the others are trained again: "
        + (
            "the steps of other rows, which make up for what kept subnetworks learned, do it."
            if by_others
            else "steps on the other rows of this group cause the rise; a row's own steps cannot change its flipped "
            "subnetwork."
        )
    )


def _own_steps(task: dict[str, Any]) -> float:
    return mean(one["after"]["flip"] - one["before"]["flip"] for one in task["shared"])


def _made_worse(task: dict[str, Any], ending: str) -> list[float]:
    return [one[f"trained{ending}"]["flip"] - one[f"without{ending}"]["flip"] for one in task["shared"]]


def _with_range(by_seed: Sequence[float]) -> str:
    ends = f" (from {min(by_seed):.2f} to {max(by_seed):.2f} by seed)" if len(by_seed) > 1 else ""
    return f"{mean(by_seed):.2f}{ends}"


def _competition_sentence(task: dict[str, Any]) -> str:
    """Return whose steps make the flipped subnetwork worse where all rows asked about share one mask."""
    free, frozen = (_made_worse(task, ending) for ending in ("", "_frozen"))
    told = (
        f"{task['title']}: rows that share a mask change its flipped loss by {_own_steps(task):+.2f} with their own "
        "steps. After the other rows are trained again, it is higher than in a training that never saw these rows by "
        f"{_with_range(free)}, and by {_with_range(frozen)} with the weights that they changed frozen: "
    )
    if min(free) <= 0:
        return f"{told}so other rows do not do it in every seed."
    if min(frozen) > 0:
        return f"{told}the others make up in the flipped subnetwork for what the kept one has learned."
    return f"{told}the others do it, but not with the kept subnetwork as it is."


_SIMILAR = ("base", "1 copy", "5 copies", "no similar rows", "as many fewer")


def _similar_sentence(task: dict[str, Any]) -> str | None:
    """Return how the bias changes with the number of similar rows."""
    if not all(name in task["recipes"] for name in _SIMILAR):
        return None
    base, one, five, fewer, random = (f"{_bias(task, name):.2f} ({_relative(task, name):.0%})" for name in _SIMILAR)
    return (
        f"{task['title']}: with 1 and 5 copies of each row under other masks the bias (and its share of the loss) is "
        f"{one} and {five} instead of {base}; without the 5 rows most similar to each it is {fewer}, without as many "
        f"at random {random}{', more in every seed' if min(_similar_rows(task)) > 0 else '; seeds do not agree'}."
    )


def _similar_rows(task: dict[str, Any]) -> list[float]:
    """Return by seed how much more bias there is without the most similar rows than without as many at random."""
    fewer, random = (task["recipes"][name] for name in ("no similar rows", "as many fewer"))
    return [
        (one["trained"] - one["left_out"]) - (other["trained"] - other["left_out"])
        for one, other in zip(fewer, random, strict=True)
    ]


def _bias(task: dict[str, Any], name: str) -> float:
    return _mean(task["recipes"][name], "trained") - _mean(task["recipes"][name], "left_out")


def _cure_sentence(tasks: dict[str, Any], cured: list[str], some: list[str]) -> str:
    if cured:
        return f"Unbiased, accurate and as good at finding wrong labels: {'; '.join(map(_title, cured))}."
    if some:
        told = "; ".join(
            f"{_title(name)} ({', '.join(task['title'] for task in tasks.values() if _is_cure(task, name))})"
            for name in some
        )
        return f"No training is unbiased at no cost on all tasks; on one: {told}."
    unbiased = [
        (task, name)
        for task in tasks.values()
        for name, found in task["recipes"].items()
        if "wrong_labels" in found[0] and abs(_relative(task, name)) < _UNBIASED
    ]
    if not unbiased:
        return "No training tried makes flipped subnetworks unbiased on their own rows."
    costs = "; ".join(f"{_title(name)} ({_cost(task, name)})" for task, name in unbiased)
    return (
        "No training with masks in every step is unbiased at no cost. Unbiased ones, with accuracy beside no masks, "
        f"and AUC of wrong labels and recommended LDS beside those of own_row: {costs}."
    ) + (_BALANCE if any(_balances(one) for _, one in unbiased) else "")


def _cost(task: dict[str, Any], name: str) -> str:
    found, base = task["recipes"][name], task["recipes"]["base"]
    accuracy = _mean(found, "accuracy") - mean(task["plain"])
    wrong_labels = _mean(found, "wrong_labels") - _mean(base, "wrong_labels")
    told = f"{task['title']}: accuracy {accuracy:+.3f}, wrong labels {wrong_labels:+.3f}"
    if "lds_recommended" not in found[0]:
        return told
    return f"{told}, LDS {_mean(found, 'lds_recommended') - _mean(base, 'lds_recommended'):+.3f}"


def _relative(task: dict[str, Any], name: str) -> float:
    found = task["recipes"][name]
    return _bias(task, name) / _mean(found, "left_out")


def _mean(found: Found, what: str) -> float:
    return mean(one[what] for one in found)


def _title(name: str) -> str:
    return TITLES.get(name, name)


def _row(name: str, task: dict[str, Any]) -> list[str]:
    found = task["recipes"][name]
    cells = [spread([one[what] for one in found]) for what in ("accuracy", "trained", "left_out")]
    bias = spread([one["trained"] - one["left_out"] for one in found])
    judged = [spread([one[what] for one in found]) if what in found[0] else "–" for what in ("wrong_labels", *LDS)]
    return [_title(name), *cells, bias, *judged]


_MOST_SHOWN = 1.3
_LEAST_SHOWN = -0.08


def _plot(result: dict[str, Any], file: Path) -> None:
    tasks = result["tasks"]
    names = list(next(iter(tasks.values()))["recipes"])
    # Places are given: the solver of layouts ends at other last digits from time to time, with as many parts as here.
    with drawn(file, (11.5, 1.4 + 0.23 * len(names)), font=8.5, layout=None) as figure:
        figure.subplots_adjust(left=0.31, right=0.99, bottom=0.6 / figure.get_figheight(), top=0.97, wspace=0.12)
        bias, accuracy, space, right = figure.subplots(1, 4, width_ratios=(3, 2.4, 0.45, 2.6))
        space.remove()
        middle, phases = right.get_subplotspec().subgridspec(2, 1, hspace=0.35).subplots()
        right.remove()
        for shift, (name, task) in enumerate(tasks.items()):
            color = _COLORS[name]
            biases = [_relative(task, one) for one in names]
            gains = [_mean(task["recipes"][one], "accuracy") - mean(task["plain"]) for one in names]
            for panel, values, low, high in (
                (bias, biases, -1.0, _MOST_SHOWN),
                (accuracy, gains, _LEAST_SHOWN, 1.0),
            ):
                for row, value in enumerate(values):  # what lies beyond is an arrow at the edge
                    marker = ">" if value > high else "<" if value < low else "o"
                    panel.plot(min(max(value, low), high), row, marker, color=color, markersize=4.5, clip_on=False)
            bias.plot([], [], "o", color=color, markersize=4.5, label=task["title"])
            changes = [_mean(task["recipes"]["base"], f"change_{other}") for other in _OTHERS]
            places = [row + 0.4 * shift for row in range(len(changes))]
            middle.barh(places, changes, height=0.36, color=color)
            for view, style in (("flip", "-"), ("keep", ":")):
                values = [mean(one[phase][view] for one in task["phases"]) for phase in range(len(_PHASES))]
                phases.plot(range(3), values, style, marker="o", markersize=3, color=color)
        for panel in (bias, accuracy):
            panel.axvline(0, color="#222222", linewidth=0.9)
            panel.set_ylim(len(names) - 0.5, -0.5)
        bias.set_yticks(range(len(names)), [_title(name) for name in names], fontsize=7.5)
        bias.set_xlim(right=_MOST_SHOWN)
        accuracy.set_yticks(range(len(names)), [""] * len(names))
        accuracy.set_xlim(left=_LEAST_SHOWN)
        bias.set(xlabel="bias, as a share of the loss without the rows")
        figure.legend(frameon=False, fontsize=7.5, loc="lower left")
        accuracy.set(xlabel="accuracy, beside no masks")
        middle.set_yticks(range(len(_OTHERS)), ["the row", "most similar", "same label", "other label"])
        middle.invert_yaxis()
        middle.set(xlabel="as in own_row: change of the flipped loss")
        phases.set_xticks(range(3), ["others", "the rows", "others"])
        phases.set(xlabel="trained in phases on", ylabel="loss: flipped (–), kept (··)")
        for panel in (bias, accuracy, middle, phases):
            tidy(panel)
