"""The page and its figure: every sentence is made of the numbers of a run, and those of the paper stand beside them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from turnover.scores import student_limit
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import Finding, agreements, graded, paragraphs, percents, spread

NAMES = {
    "random": "at random",
    "tod": "by one model, original estimator",
    "replicas": "by {replicas} replicas",
    "recommended": "by {replicas} replicas, the recommended estimator",
}
_STYLES = {
    "random": ("#888888", "v"),
    "tod": ("#1b7fa6", "o"),
    "replicas": ("#7b3fa0", "s"),
    "recommended": ("#c8102e", "P"),
}
_MEASURES = {"accuracy": ("accuracy gained (points)", 100.0), "loss": ("loss saved", -1.0)}


def gains(result: Mapping[str, Any], name: str, share: float, measure: str, *, rows: str = "test") -> np.ndarray:
    """Return by how much an arm ("random" or an estimate) is better than all rows, seed by seed.

    Positive: more accurate, or less loss, on "test", "validation" or "dev" rows.
    """
    sign = 1 if measure == "accuracy" else -1
    return np.array(
        [
            sign * (seed["arms"][name][str(share)][rows][measure] - seed["none"][rows][measure])
            for seed in result["seeds"]
        ]
    )


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def plot(result: Mapping[str, Any], file: Path) -> None:
    """Write the figure."""
    shares = result["setting"]["shares"]
    with drawn(file, (11, 4.2)) as figure:
        panels = figure.subplots(1, 2)
        for panel, (measure, (title, scale)) in zip(panels, _MEASURES.items(), strict=True):
            for place, name in enumerate(("random", *result["setting"]["estimates"])):
                each = [abs(scale) * gains(result, name, share, measure) for share in shares]
                color, marker = _STYLES[name]
                # Side by side, so that the bars can be distinguished.
                x = np.array(shares) * 100 * 1.05 ** (place - 1.5)
                means, errors = [one.mean() for one in each], [standard_error(one) for one in each]
                label = NAMES[name].format(**result["setting"])
                panel.errorbar(x, means, errors, color=color, marker=marker, markersize=5, capsize=2, label=label)
            panel.axhline(0, color="black", linewidth=0.8, linestyle=":")
            panel.set_xscale("log")
            panel.set_xticks([100 * share for share in shares], [f"{100 * share:g}" for share in shares], minor=False)
            panel.set_xticks([], minor=True)
            panel.set(xlabel="removed (% of the training rows)", ylabel=title)
            tidy(panel, grid=None)
        panels[1].legend(frameon=False, title="rows chosen", fontsize=9, loc="lower left", alignment="left")


# Table "The results of data cleansing" of the paper: mean and standard deviation of four runs.
PAPER = {
    "none": {"accuracy": (0.770, 0.009), "loss": (0.536, 0.063)},
    "random": {"accuracy": (0.768, 0.011), "loss": (0.521, 0.030)},
    "tod": {"accuracy": (0.783, 0.002), "loss": (0.484, 0.008)},
}
# Two seeds that share fewer than so many times the rows that chance gives do not agree.
_CHANCE = 2.0
_MANY = 1000  # seeds that nobody would train
_LEVEL, _MISSED = 0.05, 0.2  # of the paired test, two-sided; how often it may miss a gain


def agreement(name: str, measure: str, proof: Mapping[str, Any]) -> str:
    """Return in a sentence whether cleansing beats all rows and random removal, as in the paper."""
    each = [one for one in proof["differences"] if one["measure"] == measure]
    told = ", ".join(
        f"{gain_told(one['gain'], one['stderr'], measure)} over {one['against']}, p = {one['p_value']:.2g}"
        for one in each
    )
    start = f"In {measure}, rows chosen {name}"
    missing = [one for one in each if not (one["significant"] and one["gain"] > 0)]
    if not missing:
        return f"{start}: removing them is significantly better than both, as in the paper ({told})."
    needed = [one["seeds_needed"] for one in missing]
    if any(count is None for count in needed):
        why = "there is no gain that more seeds could confirm"
    else:
        why = f"a gain of this size would take {seeds_told(max(needed))} seeds to show"
    return f"{start}: removing them is not significantly better than both ({told}); {why}."


def power_sentence(result: Mapping[str, Any]) -> str:
    """Return in words whether gains as large as the paper's would have shown with these seeds."""
    proof = result["proofs"]["tod"][str(result["setting"]["shown"])]
    df = len(result["seeds"]) - 1
    limit = student_limit(_LEVEL, df) + student_limit(2 * _MISSED, df)
    told = []
    for against in ("none", "random"):
        for measure in ("accuracy", "loss"):
            gain = abs(PAPER["tod"][measure][0] - PAPER[against][measure][0])
            stderr = next(
                one["stderr"] for one in proof["differences"] if (one["measure"], one["against"]) == (measure, against)
            )
            would = "would" if gain > limit * stderr else "would not"
            told.append(f"over {against} {would} have shown in {measure} ({gain_told(gain, stderr, measure)[1:]})")
    return f"A gain as large as the paper's, with our standard error: {'; '.join(told)}."


def best_sentence(result: Mapping[str, Any]) -> str:
    """Return for which estimates and shares cleansing beats both others, in words."""
    shares = result["setting"]["shares"]
    told = []
    for measure in ("accuracy", "loss"):
        won = [
            f"{name_of(name, result)} ({', '.join(percent(share) for share in wins)})"
            for name in result["setting"]["estimates"]
            if (wins := [share for share in shares if result["proofs"][name][str(share)]["helps"][measure]])
        ]
        told.append(f"In {measure}: {'; '.join(won) if won else 'none'}.")
    return f"Significantly better than none and than random. {' '.join(told)}"


def noise_sentence(result: Mapping[str, Any]) -> str:
    """Return in words whose choice is the same from seed to seed, and whose is mostly noise."""
    share = result["setting"]["shown"]
    known = {name: overlap for name, overlap in result["overlap"].items() if overlap is not None}
    noise = [name for name, overlap in known.items() if overlap < _CHANCE * share]
    steady = [name for name in known if name not in noise]
    told = []
    if noise:
        names = "; ".join(name_of(name, result) for name in noise)
        told.append(f"Which {percent(share)} of the rows go is mostly noise where they are chosen {names}.")
    if steady:
        names = "; ".join(f"{name_of(name, result)} ({known[name] / share:.0f} times)" for name in steady)
        told.append(f"Two seeds share more rows than chance would have it where they are chosen {names}.")
    return " ".join(told)


def network(result: Mapping[str, Any]) -> str:
    """Return which network is trained, in words."""
    setting = result["setting"]
    if setting["encoder"] is not None:
        encoder = "MiniLM" if setting["encoder"] == "minilm" else setting["encoder"]
        return f"{encoder}, masked adapters for the estimate, fine-tuned for the test"
    return f"features of a frozen MiniLM and a hidden layer of {setting['hidden']}"


def seeds_told(count: int) -> str:
    return f"about {count}" if count <= _MANY else f"more than {_MANY:,}"


def theirs(name: str, measure: str) -> str:
    """Return mean ± standard deviation of an arm in the paper."""
    if name not in PAPER:
        return "–"
    mean, deviation = PAPER[name][measure]
    return f"{100 * mean:.1f} ± {100 * deviation:.1f}" if measure == "accuracy" else f"{mean:.3f} ± {deviation:.3f}"


def name_of(name: str, result: Mapping[str, Any]) -> str:
    return NAMES[name].format(**result["setting"])


def percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def mean_and_sd(values: list[float], measure: str) -> str:
    return percents(values) if measure == "accuracy" else spread(values)


def gain_told(gain: float, stderr: float, measure: str) -> str:
    """Return a gain ± its standard error; accuracy in points."""
    scale, form = (100, "+z.2f") if measure == "accuracy" else (1, "+z.4f")
    return f"{scale * gain:{form}} ± {scale * stderr:{form[2:]}}"


_FIGURE = "cleansing.svg"
_OUTPUT_MASKS = "scored by the masks before the output layer alone"


def _by_output_masks(result: Mapping[str, Any]) -> list[str]:
    setting = result["setting"]
    return ["replicas"] if setting.get("scored_blocks") == 0 else []


def _scored(name: str, result: Mapping[str, Any]) -> str:
    """Return in words how an estimate differs from the paper's, which takes all masks and all reviews; "" if not."""
    if name in _by_output_masks(result):
        return _OUTPUT_MASKS
    setting = result["setting"]
    if name != "tod" or setting.get("asked") is None:
        return ""
    precision = ", in bfloat16" if setting["bfloat16"] else ""
    return f"scored by all masks on {setting['asked']} of {setting['validation']} validation reviews{precision}"


def page(result: Mapping[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the figure is drawn into the folder where there are several shares."""
    share, shares = result["setting"]["shown"], []
    if len(result["setting"]["shares"]) > 1:
        plot(result, folder / _FIGURE)
        shares = ["## Other shares", f"![Gain by the share that is removed]({_FIGURE})", *_shares(result)]
    return paragraphs(
        ["# Data cleansing: SST-2 without rows that are harmful to reviews of electronics", *_settings(result)],
        [f"## {percent(share)} removed", *_table(result), *_verdicts(result)],
        shares,
        ["## What is removed", *_why(result), *_examples(result)],
        ["## Settings", *_chosen(result)],
    )


def findings(result: Mapping[str, Any]) -> list[Finding]:
    """Return the paper's table beside ours."""
    share, found = result["setting"]["shown"], []
    for name in result["setting"]["estimates"]:
        proof = result["proofs"][name][str(share)]
        for measure in ("accuracy", "loss"):
            arms = ("none", "random", "cleansed")
            ours = ", ".join(f"{arm} {mean_and_sd(proof['arms'][arm][measure]['values'], measure)}" for arm in arms)
            their_arms = ", ".join(f"{arm} {theirs(key, measure)}" for arm, key in zip(arms, PAPER, strict=True))
            found.append(
                Finding(
                    what=f"Electronics, {percent(share)} of SST-2 removed, {name_of(name, result)}: {measure}",
                    paper=their_arms if name == "tod" else "–",
                    ours=ours,
                    setting=f"{network(result)}, {result['rows']:,} rows, {len(result['seeds'])} seeds"
                    + "".join(f", {words}" for words in (_scored(name, result),) if words),
                    agreement=agreement(name_of(name, result), measure, proof),
                    **_claimed(name, measure, proof, result),
                )
            )
    return found


def _claimed(name: str, measure: str, proof: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the paper's claim with the verdict: by its own estimator, and in accuracy by the last of ours."""
    if name != "tod" and (measure, name) != ("accuracy", result["setting"]["estimates"][-1]):
        return {}
    beyond_error = [one["gain"] > one["stderr"] for one in proof["differences"] if one["measure"] == measure]
    how = "" if name == "tod" else f", chosen {name_of(name, result)},"
    share, gain = percent(result["setting"]["shown"]), {"accuracy": "improves accuracy", "loss": "lowers the loss"}
    claim = f"removing the most harmful {share} of SST-2{how} {gain[measure]} on reviews of electronics"
    rule = "significantly better than none and than random; in part: by more than a standard error"
    return {"claim": claim, "verdict": graded(proof["helps"][measure], in_part=all(beyond_error)), "rule": rule}


def _settings(result: Mapping[str, Any]) -> Iterable[str]:
    setting = result["setting"]
    yield (
        f"A model with masks is trained on {result['rows']:,} rows of SST-2 ({network(result)}). The rows with the "
        f"lowest mean influence on {setting['validation']} reviews of electronics are removed, and a model without "
        f"masks is retrained; it is tested on the other {result['test_rows']:,} reviews. For each of "
        f"{len(result['seeds'])} seeds the reviews are split anew, masks, parameters and batches are others, and all "
        "arms start from the same parameters. Reviews are written as SST-2 is (small letters, Penn Treebank tokens); "
        "reviews that are the same or nearly so are on one side of the split."
    )
    if told := _scored("tod", result):
        yield f"The original estimator, of one model, is {told}, for time."
    if few := _by_output_masks(result):
        names = "; ".join(name_of(name, result) for name in few)
        yield (
            f"What is chosen {names} is {_OUTPUT_MASKS}, for time, on all of these reviews; all masks are trained. "
            "Such scores need not rank rows as scores by all masks do ([runtime](runtime.md)), so this is not quite "
            "what the paper did."
        )


def _table(result: Mapping[str, Any]) -> Iterable[str]:
    share = result["setting"]["shown"]
    head = ["removed", "accuracy", "loss", "the paper's accuracy", "the paper's loss", "accuracy on SST-2's dev rows"]
    rows = []
    arms = {"none": [seed["none"] for seed in result["seeds"]]}
    arms |= {
        name: [seed["arms"][name][str(share)] for seed in result["seeds"]]
        for name in ("random", *result["setting"]["estimates"])
    }
    for name, runs in arms.items():
        cells = [mean_and_sd([one["test"][measure] for one in runs], measure) for measure in ("accuracy", "loss")]
        cells += [theirs(name, measure) for measure in ("accuracy", "loss")]
        cells.append(mean_and_sd([one["dev"]["accuracy"] for one in runs], "accuracy"))
        title = "none" if name == "none" else f"{percent(share)} {name_of(name, result)}"
        rows.append([title, *cells])
    yield markdown_table(head, rows)
    yield "Mean ± sd over seeds. Arms are compared seed by seed, which removes most of this variation:"


def _verdicts(result: Mapping[str, Any]) -> Iterable[str]:
    rows = []
    for name in result["setting"]["estimates"]:
        proof = result["proofs"][name][str(result["setting"]["shown"])]
        for measure in ("accuracy", "loss"):
            none, random = (one for one in proof["differences"] if one["measure"] == measure)
            cells = [gain_told(one["gain"], one["stderr"], measure) for one in (none, random)]
            needed = [one["seeds_needed"] for one in (none, random)]
            cells.append("no gain" if None in needed else seeds_told(max(needed)))
            rows.append([name_of(name, result), measure, *cells])
    head = ["removed", "measure", "gain over none", "gain over random", "seeds needed to show them"]
    yield markdown_table(head, rows)
    yield (
        "Gains are means ± standard errors; accuracy in points. A gain is significant by a paired test over seeds at "
        "5 % (two-sided, Student's distribution). Seeds needed: with so many, a gain of this size is significant in "
        "80 % of cases. The standard error is that of seeds, splits among them; the "
        f"{result['test_rows']:,} test reviews of two seeds are mostly the same, which the test does not know."
    )
    yield from agreements(findings(result))
    yield power_sentence(result)


def _shares(result: Mapping[str, Any]) -> Iterable[str]:
    shares = result["setting"]["shares"]
    for measure in ("accuracy", "loss"):
        rows = [
            [name_of(name, result), *(_mean_gain(gains(result, name, share, measure), measure) for share in shares)]
            for name in ("random", *result["setting"]["estimates"])
        ]
        yield markdown_table([f"gain over none in {measure}", *map(percent, shares)], rows)
    yield best_sentence(result)


def _why(result: Mapping[str, Any]) -> Iterable[str]:
    share = result["setting"]["shown"]
    yield (
        "How far the choice is more than chance: rows that two seeds both remove, with other masks and other "
        f"validation reviews (by chance {percent(share)}); what the removal does to the loss on the validation "
        "reviews, which it was chosen for; and how many of the removed rows are positive."
    )
    rows = []
    for name in ("random", *result["setting"]["estimates"]):
        overlap = result["overlap"].get(name)
        cells = [percent(share if overlap is None else overlap)]
        cells += [
            _mean_gain(gains(result, name, share, "loss", rows=split), "loss") for split in ("validation", "test")
        ]
        # Nothing is removed where no row has a negative mean.
        known = [seed["arms"][name][str(share)]["positive"] for seed in result["seeds"]]
        positive = [one for one in known if one is not None]
        cells.append(percent(float(np.mean(positive))) if positive else "–")
        rows.append([name_of(name, result), *cells])
    head = ["removed", "rows that two seeds share", "validation loss saved", "test loss saved", "positive among them"]
    yield markdown_table(head, rows)
    yield noise_sentence(result)


def _examples(result: Mapping[str, Any]) -> Iterable[str]:
    name = result["setting"]["estimates"][-1]
    yield f"Rows that most seeds remove ({name_of(name, result)}):"
    rows = [
        [
            one["text"].replace("`", "'"),
            "positive" if one["label"] else "negative",
            f"{one['seeds']} of {len(result['seeds'])} seeds",
        ]
        for one in result["examples"][name]
    ]
    yield markdown_table(["row of SST-2", "label", "removed by"], rows, padded=False)


def _chosen(result: Mapping[str, Any]) -> Iterable[str]:
    several = any(len(chosen["tried"]) > 1 for chosen in result["chosen"].values())
    how = "Rate and epochs have the least loss on dev rows of SST-2" if several else "One rate and number of epochs"
    yield f"{how}; no review was looked at."
    rows = []
    for name, title in (("plain", "without masks"), ("masked", "with masks")):
        chosen = result["chosen"][name]
        tried = ", ".join(
            f"{one['rate']:g} × {one['epochs']}: {one['loss']:.3f}" for one in chosen["tried"] if "loss" in one
        )
        rows.append([title, f"{chosen['rate']:g}", str(chosen["epochs"]), tried or "nothing else"])
    yield markdown_table(["training", "rate", "epochs", "tried: loss"], rows)


def _mean_gain(each: np.ndarray, measure: str) -> str:
    return gain_told(float(each.mean()), standard_error(each), measure)
