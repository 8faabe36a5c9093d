"""A run of the command line's own code on sentences with changed labels, beside cleanlab on the same features."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from experiments.datasets.changed_labels import change_labels
from experiments.datasets.minilm import minilm_folder
from experiments.datasets.sst2 import load_sst2
from turnover.runs import Run, RunConfig, run_memorized, run_recipe, start_run

from .config import Config


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return how many changed labels each list has among its first, for every seed."""
    seeds = [_measured(config, seed, out) for seed in tqdm(config.seeds, desc="wrong labels")]
    names = list(seeds[0]["found"])
    return {
        "rows": config.rows,
        "changed": seeds[0]["changed"],
        "folds": config.folds,
        "seeds": seeds,
        "mean": {name: float(np.mean([one["found"][name] for one in seeds])) for name in names},
        "sd": {name: float(np.std([one["found"][name] for one in seeds], ddof=1)) for name in names}
        if len(seeds) > 1
        else dict.fromkeys(names),
        "seconds": {name: float(np.mean([one["seconds"][name] for one in seeds])) for name in names},
    }


def _measured(config: Config, seed: int, out: Path) -> dict[str, Any]:
    file = out / f"seed-{seed}.json"
    if file.exists():
        return json.loads(file.read_text(encoding="utf-8"))
    sentences = load_sst2("train", rows=config.rows + config.validation, seed=seed)
    right = sentences.labels[: config.rows]
    labels = change_labels(right, share=config.changed, classes=2, seed=seed)
    folder = out / f"seed-{seed}"
    folder.mkdir(exist_ok=True)
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
    # By their numbers: a reader may leave rows out.
    numbers = finished.rows.frame["number"].astype(int).to_numpy()[finished.places("train")]
    wrong = labels.changed[numbers]
    first = int(wrong.sum())
    began = time.process_time()
    report = run_memorized(finished).order[:first]
    lists = {"turnover": (report, finished.about.seconds["training"] + time.process_time() - began)}
    lists |= {
        "cleanlab": _cleanlab(finished, config.folds, first, _folds_of_network),
        "cleanlab_logistic": _cleanlab(finished, config.folds, first, _folds_of_logistic_regression),
    }
    measured = {
        "changed": first,
        "found": {name: int(wrong[rows].sum()) for name, (rows, _) in lists.items()},
        "seconds": {name: seconds for name, (_, seconds) in lists.items()},
        "accuracy": finished.about.results["validation_accuracy"],
    }
    file.write_text(json.dumps(measured), encoding="utf-8")
    return measured


def _write(file: Path, texts: list[str], labels: np.ndarray) -> None:
    lines = [f"{number}\t{text}\t{label}" for number, (text, label) in enumerate(zip(texts, labels, strict=True))]
    file.write_text("\n".join(["number\tsentence\tlabel", *lines]) + "\n", encoding="utf-8")


def _cleanlab(run: Run, folds: int, first: int, held_out: Any) -> tuple[np.ndarray, float]:
    """Return the rows that cleanlab trusts least, by predictions of models that did not see them, and the seconds."""
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
