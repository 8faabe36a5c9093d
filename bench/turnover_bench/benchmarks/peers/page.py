"""The page of benchmarks of other packages, each of which may be measured apart."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from turnover.storage import write_atomically
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.findings import Finding, paragraphs, spread
from turnover_bench.experiments.runner import machine, read_json, write_json

_FIGURES = {
    "dattri": {
        "lds": "LDS",
        "auc": "wrong labels, AUC by self-attribution",
        "seconds": "processor seconds",
    },
    "quanda": {
        "class": "class detection",
        "subclass": "subclass detection",
        "mislabeling": "mislabeling detection",
        "seconds": "processor seconds per benchmark",
    },
}


_LIKENESS = {"subclass": "subclass detection", "different": "rows that come first", "lds": "LDS"}


def write_page(package: str, found: dict[str, Any], folder: Path, *, size: str) -> Path:
    """Write numbers and page; what the other package measured earlier stays. Return the page's path."""
    kept = folder / "peers.json"
    parts = read_json(kept)["parts"] if kept.exists() else {}
    parts[package] = found | {"machine": machine()}
    record = {
        "experiment": "peers",
        "size": size,
        "seconds": sum(part["seconds"] for part in parts.values()),
        "parts": parts,
        "findings": [asdict(finding) for name in sorted(parts) for finding in findings(name, parts[name])],
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = page(parts)
    write_json(kept, record)
    write_atomically(folder / "peers.md", text + "\n")
    return folder / "peers.md"


def findings(package: str, part: dict[str, Any]) -> list[Finding]:
    """Return, figure by figure, our best and the best of the package's own."""
    found = []
    for figure, title in _FIGURES[package].items():
        if figure == "seconds":
            continue
        ours, theirs = (_best(part, figure, start) for start in ("turnover", package))
        if ours is None or theirs is None:
            continue
        verdict = "above" if ours[1] > theirs[1] else "below" if ours[1] < theirs[1] else "equal to"
        found.append(
            Finding(
                what=f"{package}, {title}: our best, the best of the package's own",
                paper="–",
                ours=f"{ours[0]} {ours[1]:.3f}; {theirs[0]} {theirs[1]:.3f}",
                setting=f"digits, {part['config']['rows']:,} rows, trainings: {len(part['config']['seeds'])}",
                agreement=f"{package}, {title}: our best is {verdict} the best of its own methods.",
            )
        )
    return found


def _best(part: dict[str, Any], figure: str, start: str) -> tuple[str, float] | None:
    means = {
        name.partition(": ")[2]: sum(values[figure]) / len(values[figure])
        for name, values in part["methods"].items()
        if name.startswith(start) and figure in values
    }
    best = max(means, key=lambda name: means[name], default=None)
    return None if best is None else (best, means[best])


def page(parts: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    lines = [
        "# Benchmarks of dattri and quanda on our scores",
        "Our scores in the benchmarks of two other packages, beside the packages' own methods. Their code does all the "
        "measuring; `DattriAttributor` and `QuandaExplainer` of `turnover_bench.benchmarks.peers` hand it our scores. "
        "Rows are digits of scikit-learn, because both packages download the data of their published settings. Mean ± "
        "standard deviation over trainings. `make bench-peers` measures again.",
    ]
    for package in sorted(parts):
        lines += _section(package, parts[package])
    return paragraphs(lines)


def _section(package: str, part: dict[str, Any]) -> list[str]:
    config, figures = part["config"], _FIGURES[package]
    count = f"{config['rows']:,} rows, {config['tests']} test rows, trainings: {len(config['seeds'])}"
    return [
        f"## {package} {part['version']}",
        _table("method", part["methods"], figures),
        *_NOTES[package](part, count),
        *(_likeness(part) if "likeness" in part else []),
        f"{part['seconds'] / 60:.0f} processor minutes.",
    ]


def _table(of: str, methods: dict[str, dict[str, list[float]]], figures: dict[str, str]) -> str:
    places = {"seconds": ".1f", "different": ".0f"}
    rows = [
        [
            name,
            *(spread(values[figure], places.get(figure, ".3f")) if figure in values else "–" for figure in figures),
        ]
        for name, values in methods.items()
    ]
    return markdown_table([of, *figures.values()], rows)


def _likeness(part: dict[str, Any]) -> list[str]:
    """Return why a method that looks at likeness alone wins subclass detection, with the figures that show it."""
    config = part["config"]
    return [
        "### Why similarity wins subclass detection",
        "The network learns even against odd, and the benchmark asks whether the first row has the query's digit. "
        "That is a question about likeness: what is most like a 4 is another 4. Influence is likeness times how much a "
        "row taught the network, and what teaches most are rows that are hard to fit, of any even digit: a few of them "
        "come first for many queries. Divide the scores of each row by their own root mean square over the queries, "
        "and likeness is what is left: subclass detection rises. But retraining on halves of the rows says that the "
        "size was right: LDS falls, and likeness alone has the lowest. So the gap is one of the question. For rows "
        "*like* a query take similarity; among rows that *made* a prediction, one of another even digit is not wrong.",
        _table("scores", part["likeness"], _LIKENESS),
        f"- Of {config['tests']} queries: how many different rows come first for one of them. LDS: "
        f"{config['halves']} random halves, retrained once each without masks, for the predicted label. Measured "
        "by our own code on the task above, not by quanda's.",
    ]


def _dattri_notes(part: dict[str, Any], count: str) -> list[str]:
    return [
        f"- {count}, enlarged to 28 × 28 pixels for the MLP of dattri's benchmark (`create_mlp_model`, "
        f"`train_mnist_mlp`, {part['epochs']} epochs); masks take the place of its dropout layers.",
        f"- LDS: `retrain_lds` on {part['config']['halves']} random halves, then `lds`; retrained "
        "are networks without masks, so that scores of networks with masks are judged by other networks than theirs.",
        "- Wrong labels: a tenth of the labels is changed, `mislabel_detection_auc` of self-attribution. –: the method "
        "would solve for every row, or says the same of all. `turnover memorized` ranks by more than self-influence.",
        "- Methods of dattri have the options of its examples; TRAK projects to 128 dimensions, as there are few rows. "
        "All pairs are attributed in one batch. Seconds are those of training, preparing and all pairs; a network that "
        "methods share is trained by the first of them (Grad-Dot one, TRAK four more).",
    ]


def _quanda_notes(part: dict[str, Any], count: str) -> list[str]:
    return [
        f"- {count}, {part['epochs']} epochs, one hidden layer of 256 units. Subclasses are digits, superclasses even "
        "and odd; a tenth of the labels is flipped by quanda for mislabeling detection.",
        "- Class and subclass detection ask whether the highest-ranked row has the query's class; a method that looks "
        "at likeness alone does well.",
        "- Mislabeling detection is the area under quanda's curve, ranked by self-influence; about 0.95 is the most "
        "that is possible here. quanda 0.5 adds 0.0001 × row number to break ties, which is not small beside scores in "
        "units of the loss.",
    ]


_NOTES = {"dattri": _dattri_notes, "quanda": _quanda_notes}
