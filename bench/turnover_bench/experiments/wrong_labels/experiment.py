"""Do the likely label errors of a report contain as many changed labels as cleanlab finds with five folds?

And is the number of wrong labels among them the one that the report says?
"""

import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from turnover.applications import RowRecord, wrong_labels
from turnover.runs import DigitsConfig, Run, RunConfig, run_digits, run_recipe, start_run
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.datasets.images import change_labels
from turnover_bench.experiments.datasets.texts import load_sst2, minilm_folder
from turnover_bench.experiments.findings import Finding, paragraphs, spread
from turnover_bench.experiments.runner import Needs, kept


@dataclass(frozen=True)
class Config:
    """Settings of one size.

    Attributes:
        rows: training sentences of SST-2.
        validation: further sentences, with correct labels.
        changed: share of the training labels that is flipped.
        folds: of cleanlab.
        epochs: of every training; 0: as `turnover run` trains.
        hidden: width of the masked layer; 0: as `turnover run` has it.
        seeds: of sentences, changed labels, masks and trainings.
        rates: further shares of changed labels, at which only the said number of wrong labels is compared.
        digit_seeds: of runs on digits at all shares.
    """

    rows: int = 5000
    validation: int = 300
    changed: float = 0.1
    folds: int = 5
    epochs: int = 0
    hidden: int = 0
    seeds: tuple[int, ...] = (0, 1, 2)
    rates: tuple[float, ...] = (0.0, 0.05, 0.2)
    digit_seeds: tuple[int, ...] = (0, 1)


SIZES = {
    "toy": Config(rows=120, validation=20, folds=2, epochs=2, hidden=32, seeds=(0,), rates=(0.2,), digit_seeds=(0,)),
    "small": Config(),
    "medium": Config(seeds=tuple(range(10))),
    "full": Config(rows=20_000, seeds=tuple(range(10))),
}
NEEDS = {"medium": Needs(disk=0.5, memory=4, hours=0.3)}


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return how many changed labels each list has among its first, for every seed."""
    seeds = [
        kept(out / "parts" / f"seed-{seed}.json", partial(_measured, config, seed, out))
        for seed in tqdm(config.seeds, desc="wrong labels")
    ]
    said = [one for part in seeds for one in part["said"]]
    for rate in config.rates:
        file = out / "parts" / f"said-{rate}.json"
        said += kept(file, partial(_said_on_sst2, config, rate, config.seeds[0], out))["said"]
    for rate in sorted({*config.rates, config.changed}):
        for seed in config.digit_seeds:
            file = out / "parts" / f"digits-{rate}-{seed}.json"
            said += kept(file, partial(_said_on_digits, config, rate, seed, out))["said"]
    names = list(seeds[0]["found"])
    return {
        "rows": config.rows,
        "changed": seeds[0]["changed"],
        "folds": config.folds,
        "seeds": seeds,
        "said": said,
        "mean": {name: float(np.mean([one["found"][name] for one in seeds])) for name in names},
        "sd": {name: float(np.std([one["found"][name] for one in seeds], ddof=1)) for name in names}
        if len(seeds) > 1
        else dict.fromkeys(names),
        "seconds": {name: float(np.mean([one["seconds"][name] for one in seeds])) for name in names},
    }


def _trained(config: Config, seed: int, folder: Path, rate: float) -> tuple[Run, np.ndarray]:
    """Return a run on sentences of which a share has changed labels, and which training rows those are."""
    sentences = load_sst2("train", rows=config.rows + config.validation, seed=seed)
    labels = change_labels(sentences.labels[: config.rows], share=rate, classes=2, seed=seed)
    folder.mkdir(exist_ok=True, parents=True)
    _write(folder / "train.tsv", sentences.texts[: config.rows], labels.given)
    _write(folder / "validation.tsv", sentences.texts[config.rows :], sentences.labels[config.rows :])
    settings = RunConfig(
        str(folder / "train.tsv"),
        text="sentence",
        label="label",
        validation_data=str(folder / "validation.tsv"),
        test=0.0,
        model=str(minilm_folder()),
        epochs=config.epochs,
        hidden=config.hidden,
        seed=seed,
    )
    finished = start_run(settings, folder / "run")
    # By their numbers: a reader may skip rows.
    numbers = np.array(finished.rows.data.column("number").to_pylist(), int)[finished.places("train")]
    return finished, labels.changed[numbers]


def _measured(config: Config, seed: int, out: Path) -> dict[str, Any]:
    finished, wrong = _trained(config, seed, out / f"seed-{seed}", config.changed)
    first = int(wrong.sum())
    began = time.process_time()
    found = finished.wrong_labels
    assert found is not None
    report = found.order[:first]
    lists = {"turnover": (report, finished.about.seconds["training"] + time.process_time() - began)}
    lists |= {
        "cleanlab": _cleanlab(finished, config.folds, first, _folds_of_network),
        "cleanlab_logistic": _cleanlab(finished, config.folds, first, _folds_of_logistic_regression),
    }
    return {
        "seed": seed,
        "changed": first,
        "said": _said("SST-2", finished, wrong, config.changed, seed),
        "found": {name: int(wrong[rows].sum()) for name, (rows, _) in lists.items()},
        "seconds": {name: seconds for name, (_, seconds) in lists.items()},
        "accuracy": finished.about.results["validation_accuracy"],
    }


def _said_on_sst2(config: Config, rate: float, seed: int, out: Path) -> dict[str, Any]:
    finished, wrong = _trained(config, seed, out / f"rate-{rate}", rate)
    return {"said": _said("SST-2", finished, wrong, rate, seed)}


def _said_on_digits(config: Config, rate: float, seed: int, out: Path) -> dict[str, Any]:
    epochs = config.epochs or DigitsConfig().epochs
    result = run_digits(DigitsConfig(seed=seed, epochs=epochs, changed=rate), out / f"digits-{rate}-{seed}")
    return {"said": _said("digits", result.run, result.data.changed, rate, seed)}


def _said(data: str, run: Run, wrong: np.ndarray, rate: float, seed: int) -> list[dict[str, Any]]:
    """Return how many labels a run calls likely errors, how many of them it expects to be wrong, and how many are.

    Once as it is, with correct validation labels, and once with as many of them changed as of the training labels, as
    in a random split of the same data: a training does not see them.
    """
    record = RowRecord.open(run.folder.record)
    classes = record.full.shape[1]
    changed = change_labels(record.validation_labels, share=rate, classes=classes, seed=seed + 1).given
    rows = []
    for validation, labels in {"correct": record.validation_labels, "as noisy": changed}.items():
        found = wrong_labels(replace(record, validation_labels=labels))
        about = {"data": data, "rate": rate, "seed": seed, "validation": validation, "called": int(found.likely.sum())}
        said = {"expected": found.expected, "range": list(found.expected_range)}
        rows.append(about | said | {"wrong": int(wrong[found.likely].sum())})
    return rows if rate else rows[:1]


def _write(file: Path, texts: list[str], labels: np.ndarray) -> None:
    lines = [f"{number}\t{text}\t{label}" for number, (text, label) in enumerate(zip(texts, labels, strict=True))]
    file.write_text("\n".join(["number\tsentence\tlabel", *lines]) + "\n", encoding="utf-8")


def _cleanlab(run: Run, folds: int, first: int, held_out: Any) -> tuple[np.ndarray, float]:
    """Return the rows of lowest label quality by cleanlab, from held-out predictions, and the seconds."""
    from cleanlab.rank import get_label_quality_scores

    began = time.process_time()
    labels = run.y[run.places("train")].numpy()
    fold = np.random.default_rng(run.config.seed).permutation(len(labels)) % folds
    quality = get_label_quality_scores(labels, held_out(run, fold))
    return np.argsort(quality, kind="stable")[:first], time.process_time() - began


def _folds_of_network(run: Run, fold: np.ndarray) -> np.ndarray:
    """Return predictions by the run's own network without masks, trained without each fold in turn."""
    recipe = run_recipe(run)
    probs = np.zeros((len(fold), len(run.label_names)), np.float32)
    for number in range(fold.max() + 1):
        model = recipe.fit(torch.from_numpy(fold != number), seed=run.config.seed * 100 + number)
        with torch.no_grad():
            probs[fold == number] = model(run.train_data[0][torch.from_numpy(fold == number)]).softmax(1).numpy()
    return probs


def _folds_of_logistic_regression(run: Run, fold: np.ndarray) -> np.ndarray:
    """Return predictions by logistic regression, as cleanlab's tutorial has it."""
    from sklearn.linear_model import LogisticRegression

    x, y = run.train_data[0].numpy(), run.train_data[1].numpy()
    probs = np.zeros((len(fold), len(run.label_names)), np.float32)
    for number in range(fold.max() + 1):
        model = LogisticRegression(max_iter=400).fit(x[fold != number], y[fold != number])
        probs[fold == number] = model.predict_proba(x[fold == number])
    return probs


_TITLES = {
    "turnover": "**the report's list**, one training with masks",
    "cleanlab": "cleanlab, {folds} trainings of the same network without masks",
    "cleanlab_logistic": "cleanlab, {folds} logistic regressions",
}


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown."""
    lines = [
        "# Likely label errors, beside cleanlab",
        f"SST-2, {result['rows']:,} training sentences, features of MiniLM (frozen), {result['changed']:,} labels "
        f"flipped. `turnover run` trains once; its report lists likely label errors by the record of that "
        "training: the full view after every epoch, and heads on the untrained network. cleanlab gets "
        f"held-out predictions from {result['folds']} folds of the same rows and features. Counted are the changed "
        f"labels among the first {result['changed']:,} of each "
        "list.",
    ]
    rows = [
        [
            title.format(folds=result["folds"]),
            _count(result, name),
            f"{result['mean'][name] / result['changed']:.1%}",
            f"{result['seconds'][name]:.0f}",
        ]
        for name, title in _TITLES.items()
    ]
    lines.append(markdown_table(["list", "changed labels found", "share", "processor seconds"], rows))
    seeds = ", ".join(
        f"{one['found']['turnover']} against {one['found']['cleanlab']} and {one['found']['cleanlab_logistic']}"
        for one in result["seeds"]
    )
    lines.append(f"Seed by seed: {seeds}. {verdict(result)}")
    if "said" in result:  # those of an earlier estimator are not kept
        lines += ["## How many of the called labels are wrong", _SAID]
        heads = [
            "data",
            "changed",
            "validation labels",
            "seed",
            "called",
            "wrong, expected",
            "90 % interval",
            "wrong, actual",
        ]
        lines += [markdown_table(heads, _said_rows(result)), _how_often(result)]
    lines.append("Seconds of the report's list are those of its training (by the clock) and of the list itself.")
    return paragraphs(lines)


_SAID = (
    "A run calls labels likely errors that are more probably wrong than right, and says how many of these it expects "
    "to be wrong. Validation labels are correct, or as many of them are changed as of the training labels. SST-2 has "
    "wrong labels of its own, which count as correct here."
)


def _said_rows(result: dict[str, Any]) -> list[list[str]]:
    return [
        [
            one["data"],
            f"{one['rate']:.0%}",
            one["validation"],
            str(one["seed"]),
            f"{one['called']:,}",
            *(_shares(one) if one["called"] else ["–"] * 3),
        ]
        for one in sorted(result["said"], key=lambda one: (one["data"], one["rate"], one["validation"], one["seed"]))
    ]


def _shares(one: dict[str, Any]) -> list[str]:
    expected, low, high, wrong = (
        f"{number / one['called']:.0%}" for number in (one["expected"], *one["range"], one["wrong"])
    )
    return [expected, f"{low} to {high}", wrong]


def _how_often(result: dict[str, Any]) -> str:
    """Return in a sentence how often the true number is the one that is said, and lies in the interval."""
    lists = [one for one in result["said"] if one["called"]]
    near = sum(abs(one["expected"] - one["wrong"]) <= 0.05 * one["called"] for one in lists)
    covered = sum(one["range"][0] <= one["wrong"] <= one["range"][1] for one in lists)
    return (
        f"Lists that are not empty: {len(lists)}. Share of wrong labels within 5 points of what is said: {near}; "
        f"within the 90 % interval: {covered}."
    )


def verdict(result: dict[str, Any]) -> str:
    """Return in a sentence whether the report finds fewer, as many or more than the better of cleanlab's lists."""
    best = max(("cleanlab", "cleanlab_logistic"), key=lambda name: result["mean"][name])
    difference = result["mean"]["turnover"] - result["mean"][best]
    spread = max(result["sd"]["turnover"] or 0.0, result["sd"][best] or 0.0)
    if abs(difference) <= spread:
        return "That is as many as the better of cleanlab's lists, within one standard deviation."
    more = "more" if difference > 0 else "fewer"
    return f"The report finds {more} than the better of cleanlab's lists, by more than one standard deviation."


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return how many changed labels the report and cleanlab find."""
    best = max(("cleanlab", "cleanlab_logistic"), key=lambda name: result["mean"][name])
    return [
        Finding(
            what=f"Changed labels among the first {result['changed']:,} of a list: the report's and cleanlab's",
            paper="–",
            ours=f"{_count(result, 'turnover')} against {_count(result, best)}",
            setting=f"SST-2, {result['rows']:,} rows, features of MiniLM, seeds: {len(result['seeds'])}",
            agreement=verdict(result),
        )
    ]


def _count(result: dict[str, Any], name: str) -> str:
    return spread([one["found"][name] for one in result["seeds"]], ".0f")
