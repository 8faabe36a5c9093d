"""The results page and its plot."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from turnover_bench.checks import markdown_table
from turnover_bench.experiments.encoders import DEV_ROWS, encoder_words
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import Finding, graded, noise, paragraphs, percents, seeds_words

_LINES = {
    "curve_keep": ("training rows, kept subnetwork", "#d95f02", "s"),
    "curve_flip": ("training rows, flipped subnetwork", "#e7298a", "o"),
    "curve_validation": ("validation rows", "#444444", "^"),
}


def _plot_curves(curves: Sequence[Mapping[str, float]], file: Path) -> None:
    """Write the loss curves of the kept and flipped subnetworks and of validation rows."""
    with drawn(file, (7, 4)) as figure:
        panel = figure.subplots()
        for name, (label, color, marker) in _LINES.items():
            steps, losses = [point["step"] for point in curves], [point[name] for point in curves]
            panel.plot(steps, losses, label=label, color=color, marker=marker, markersize=5)
        panel.set(xlabel="step", ylabel="loss")
        tidy(panel, box=True)
        panel.legend(frameon=False)


_POINTS = 100
_SEEN = 1.1  # deviation of trained over null ids from which on a signal is visible
_FIGURE = "real_models.svg"
_REMEDIES = {
    "unmasked": "no masks: ordinary fine-tuning",
    "plain": "plainly, in the place of all dropouts of the model",
    "backward": "backward only",
    "mixout": "mixout",
}


def page(result: Mapping[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the curves are drawn into the folder."""
    _plot_curves(result["adapters"][0]["curves"], folder / _FIGURE)
    return paragraphs(
        [
            "# Real models: adapters, whole networks under masks, VGG19, and the engine on a transformer",
            *_adapters(result),
            *_remedies(result),
            *_vgg(result),
            *_speed(result),
            *_rates(result),
            _spent(result["spent"]),
        ]
    )


def findings(result: Mapping[str, Any]) -> list[Finding]:
    """Return what masks on whole models cost."""
    setting, runs = result["setting"]["adapters"], result["adapters"]
    accuracy = {name: [run[name] for run in runs] for name in ("without", "with masks")}
    lost = _POINTS * (mean(accuracy["without"]) - mean(accuracy["with masks"]))
    remedies, small = result["remedies"], result["setting"]["remedies"]
    shares = {name: [one["accuracy"] for one in remedies[name]] for name in _REMEDIES}
    tested = (small["dev_rows"] or DEV_ROWS) * len(small["seeds"])
    left = _POINTS * (mean(shares["unmasked"]) - mean(shares["mixout"]))
    plain = _POINTS * (mean(shares["unmasked"]) - mean(shares["plain"]))
    return [
        Finding(
            what="SST-2, adapters: accuracy without and with masks",
            paper="90.0 → 88.3 (§4.1, BERT)",
            ours=f"{percents(accuracy['without'])} → {percents(accuracy['with masks'])}",
            setting=f"{_encoder(result)}, {setting['rows']:,} rows, {setting['epochs']} epochs, "
            f"{seeds_words(setting['seeds'])}",
            agreement=f"Masks on adapters cost {lost:.1f} points of accuracy, in the paper 1.7.",
        ),
        Finding(
            what="SST-2, all layers under masks: plainly, backward only, mixout",
            paper="no number: training unstable (§4.1)",
            ours=f"{percents(shares['plain'])} plainly, {percents(shares['backward'])} backward only, "
            f"{percents(shares['mixout'])} by mixout; no masks {percents(shares['unmasked'])}",
            setting=f"{_encoder(result)}, {small['rows']:,} rows, {small['epochs']} epochs, "
            f"{seeds_words(small['seeds'])}",
            agreement=f"Plain masks on all layers {'cost' if plain > 0 else 'gain'} {abs(plain):.1f} points; mixout "
            f"{'costs' if left > 0 else 'gains'} {abs(left):.1f}.{_baseline(result)}",
            claim="BERT trains badly with masks on all layers, without adapters",
            verdict=graded(plain > noise(_POINTS * mean(shares["unmasked"]), _POINTS * mean(shares["plain"]), tested)),
            rule="significantly worse than without masks",
        ),
    ]


def _baseline(result: Mapping[str, Any]) -> str:
    """Return how far the network without masks can be relied on: its rate may be the largest that was tried."""
    rates = result["rates"]["unmasked"]
    tried = [float(rate) for rate in rates["accuracy"]]
    if rates["best"] < max(tried):
        return ""
    return (
        f" The network without masks has the largest rate that was tried, {max(tried):g}: a better one may lie beyond."
    )


def follows(curves: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean distance of the flipped and of the kept curve from the validation curve, once training began."""
    later = [point for point in curves if point["step"] > 0]
    return {name: mean(abs(p[f"curve_{name}"] - p["curve_validation"]) for p in later) for name in ("flip", "keep")}


def _adapters(result: Mapping[str, Any]) -> Iterable[str]:
    setting, runs = result["setting"]["adapters"], result["adapters"]
    accuracy = {name: [run[name] for run in runs] for name in ("without", "with masks")}
    difference = _POINTS * abs(mean(accuracy["with masks"]) - mean(accuracy["without"]))
    distance = follows(runs[0]["curves"])
    nearer = "nearer to" if distance["flip"] < distance["keep"] else "farther from"
    yield "## Adapters on SST-2"
    yield (
        f"{_encoder(result)} with adapters of 64 units, {setting['rows']:,} training rows, {setting['epochs']} epochs, "
        f"{_tested(setting)}, by `examples/hf_trainer_sst2.py`; {seeds_words(setting['seeds'])}."
    )
    rows = [[name, percents(values)] for name, values in accuracy.items()]
    yield markdown_table(["adapters", "accuracy"], rows)
    yield (
        f"They differ by {difference:.1f} points (wanted: at most 2.5; the paper: 90.0 without and 88.3 with, for "
        "BERT). "
        f"The flipped curve is {nearer} the validation curve than the kept one: {distance['flip']:.3f} against "
        f"{distance['keep']:.3f} on average."
    )
    yield f"![Loss of kept subnetwork, flipped subnetwork and validation rows]({_FIGURE})"


def _remedies(result: Mapping[str, Any]) -> Iterable[str]:
    setting, runs = result["setting"]["remedies"], result["remedies"]
    yield "## All layers under masks"
    yield (
        f"{_encoder(result)} fine-tuned as a whole, {setting['rows']:,} training rows of SST-2, {setting['epochs']} "
        f"epochs, {_tested(setting)}; {seeds_words(setting['seeds'])}."
    )
    rows = []
    base = mean(one["accuracy"] for one in runs["unmasked"])
    for name, title in _REMEDIES.items():
        found = [one["accuracy"] for one in runs[name]]
        loss = mean(one["loss"] for one in runs[name])
        change = "" if name == "unmasked" else f"{_POINTS * (mean(found) - base):+.1f}"
        rows.append([title, f"{runs[name][0]['rate']:g}", percents(found), f"{loss:.3f}", change])
    yield markdown_table(["masks", "learning rate", "accuracy", "loss", "difference"], rows)
    lost = _POINTS * (base - mean(one["accuracy"] for one in runs["mixout"]))
    yield (
        f"Mixout loses {'no more' if lost <= 3 else 'more'} than 3 points against ordinary fine-tuning. The paper "
        "found plain masks on all layers of BERT unstable and reports no number."
    )


def _vgg(result: Mapping[str, Any]) -> Iterable[str]:
    setting, found = result["vgg"]["settings"], result["vgg"]["accuracy"]
    yield "## VGG19 on CIFAR-10"
    sites = "convolutions 12 to 16" + (" and the classifier's input" if setting["twice"] else "")
    yield (
        f"Width {setting['width']:g} of the usual, {result['setting']['vgg']['images']:,} images, {setting['epochs']} "
        f"epochs, rate {setting['rate']:g}, falling tenfold after epochs {_listed(setting['milestones'])}; channel "
        f"masks on the ReLU of {sites}; ordinary dropout of {setting['dropout']:g} there. By "
        "`examples/vgg_cifar10.py`, accuracy on at most 2,000 test images, one seed."
    )
    paper = {"plain": "92.0", "masks": "86.2", "masks and dropout": "91.3"}
    rows = [[name, f"{_POINTS * value:.1f}", paper[name]] for name, value in found.items()]
    yield markdown_table(["network", "accuracy", "the paper"], rows)
    order = sorted(found, key=lambda name: -found[name])
    same = order == sorted(found, key=lambda name: -float(paper[name]))
    yield f"From best to worst: {', '.join(order)}. The paper's order is {'the same' if same else 'another'}."


def _speed(result: Mapping[str, Any]) -> Iterable[str]:
    setting, found = result["setting"]["speed"], result["speed"]
    loop = found["loop"]
    yield "## The engine on the adapter model"
    yield (
        f"{setting['instances']:,} instances on one sentence of {found['tokens']} tokens, processor seconds of one "
        "thread. The authors' loop (100 repeated inputs per batch, two passes of the model without masks) takes "
        f"{loop['seconds']:.1f} s, extrapolated from {loop['timed_batches']} batches. The engine scores "
        f"{found['null_ids']:,} null ids besides, for offset and standard error; they are within its "
        "seconds."
    )
    rows = [
        [
            "all" if name == "all" else _top(int(name)),
            f"{one['seconds']:.1f}",
            f"{one['ratio']:.1f}",
            f"{one['rank_correlation']:.3f}",
            one["path"],
        ]
        for name, one in found["networks"].items()
    ]
    head = ["masks used", "seconds", "times faster than the loop", "rank correlation with all", "path"]
    yield markdown_table(head, rows)
    yield (
        f"Rank correlations (Spearman) are {_sentences(setting['sentences'])}. Masks below the top blocks are skipped "
        "when scoring only: `only_at(model, top_sites(model, 1))` of `turnover.wrapping`."
    )
    yield from _origin(result)


def _origin(result: Mapping[str, Any]) -> Iterable[str]:
    found = result["origin"]
    count = result["setting"]["speed"]["origin"]
    yield (
        f"A high rank correlation alone says little. Below are the standard deviation of scores on the same sentence "
        f"and the rank correlation with all masks, for {count} trained and for {count} null ids. As far as both rows "
        "are alike, the numbers come from the masks and not from training."
    )
    rows = [
        [kind, *(f"{part['spread']:.4f}, correlation {part['rank_correlation']:.2f}" for part in one.values())]
        for kind, one in found.items()
    ]
    yield markdown_table(["ids", *(f"masks: {name}" for name in found["trained"])], rows)
    trained, null = (found[kind]["all"]["spread"] for kind in ("trained", "null"))
    if trained < _SEEN * null:
        yield (
            "With all masks both deviate alike: single scores on this sentence are hardly more than noise, so that "
            "their rank correlation compares noise with itself. Whether the top blocks keep the signal is not shown."
        )


def _rates(result: Mapping[str, Any]) -> Iterable[str]:
    yield "## Learning rates"
    yield "Chosen by accuracy on held-out rows of the training data; no dev or test row was looked at."
    rows = [
        [name, ", ".join(f"{rate}: {_POINTS * value:.1f}" for rate, value in one["accuracy"].items())]
        for name, one in result["rates"].items()
    ]
    yield markdown_table(["training", "accuracy by rate"], rows)
    yield (
        "Adapters have 2e-3 with masks and without, as in the example. All layers under masks have the rate of none. "
        "Few rates were tried, on few rows; where the best is the largest or smallest of them, a better one may lie "
        "beyond."
    )


def _spent(spent: Mapping[str, float]) -> str:
    text = f"All {spent['parts']:.0f} parts together took {spent['seconds'] / 60:.0f} processor minutes"
    if spent["not_timed"]:
        text += f", not counting {spent['not_timed']:.0f} that were not timed"
    return f"{text}; finished parts are not measured again when a run is resumed."


def _sentences(count: int) -> str:
    if count == 1:
        return "of this sentence alone"
    return f"means over {count} sentences, all but the first of them with a tenth of the instances"


def _encoder(result: Mapping[str, Any]) -> str:
    return encoder_words(None, result["setting"]["blocks"])


def _tested(setting: Mapping[str, Any]) -> str:
    return f"{setting['dev_rows'] or DEV_ROWS} dev rows"


def _top(blocks: int) -> str:
    return "output layer" if blocks == 0 else f"top {blocks} block{'s' if blocks > 1 else ''} and output layer"


def _listed(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))
