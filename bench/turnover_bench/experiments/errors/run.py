"""Errors of a run, the training rows behind them, and whether errors are repaired without these rows."""

import base64
import io
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from turnover import Influence
from turnover.applications import Tokenizer, explain, shared_tokens
from turnover.evaluation import identity_of, query_predictions
from turnover.integrations import TextEncoder
from turnover.runs import REPLICAS, Run, RunConfig, run_recipe, start_run
from turnover.training import retrain
from turnover_bench.experiments.datasets.cifar10 import CLASSES, load_cifar10
from turnover_bench.experiments.datasets.minilm import minilm_folder
from turnover_bench.experiments.datasets.sst2 import load_sst2
from turnover_bench.experiments.datasets.yahoo import TOPICS, load_yahoo
from turnover_bench.experiments.runner import kept
from turnover_bench.experiments.timing import one_thread

from .config import Config

# Of the training rows, for the curves; the seed of everything.
_VALIDATION, _SEED = 0.02, 0


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return errors with their supporting rows, and how often they are repaired without these."""
    with one_thread():
        return kept(out / "measured.json", partial(_measured, config, out))


def _measured(config: Config, out: Path) -> dict[str, Any]:
    run = _finished_run(config, out)
    errors = _errors_of(run)
    orders: dict[str, np.ndarray] = {
        name: _most_supporting(run, errors, by=run.raw_influence if name == "tod" else run.influence)
        for name in ESTIMATES
    }
    return {
        "setting": asdict(config),
        "train_rows": len(run.places("train")),
        "test_rows": len(run.places("test")),
        "replicas": 1 if config.adapters else REPLICAS,
        "wrong": len(errors.rows),
        "accuracy": errors.accuracy,
        "shown": _shown_errors(run, config, errors),
        "shared": _shared_subwords(run, config, errors, orders["recommended"][:, : config.supporting]),
        "repair": _repair(run, config, errors, orders, out / "retrained"),
    }


def _finished_run(config: Config, out: Path) -> Run:
    """Return the finished run that is asked about its errors.

    Raises:
        MissingDataError: the data set is not there.
    """
    images = config.data == "cifar10"
    train, test = (_images if images else _texts)(config, out)
    settings = RunConfig(
        str(train),
        text=None if images else "text",
        label=None if images else "label",
        test_data=str(test),
        validation=_VALIDATION,
        model=None if images else config.model or str(minilm_folder()),
        adapters=config.adapters,
        epochs=config.epochs,
        hidden=config.hidden,
        image_size=config.image_size,
        balance=False,
        seed=_SEED,
    )
    return start_run(settings, out / "run")


def _texts(config: Config, out: Path) -> tuple[Path, Path]:
    if config.data == "sst2":
        names = ("negative", "positive")
        train, test = load_sst2("train", rows=config.rows, seed=_SEED), load_sst2("test", rows=config.test_rows)
        parts = [(train.texts, train.labels), (test.texts, test.labels)]
    else:
        names = TOPICS
        rows = load_yahoo(seed=_SEED)
        last = len(rows) if config.test_rows is None else config.rows + config.test_rows
        parts = [(rows.texts[part], rows.labels[part]) for part in (slice(config.rows), slice(config.rows, last))]
    files = out / "train.tsv", out / "test.tsv"
    for file, (texts, labels) in zip(files, parts, strict=True):
        lines = [f"{text}\t{names[label]}" for text, label in zip(texts, labels, strict=True)]
        # A run rejects data that changed; the same settings give the same file.
        if not file.exists():
            file.write_text("\n".join(["text\tlabel", *lines]) + "\n", encoding="utf-8")
    return files


def _images(config: Config, out: Path) -> tuple[Path, Path]:
    files = out / "train.npz", out / "test.npz"
    for file, split, rows in zip(files, ("train", "test"), (config.rows, config.test_rows), strict=True):
        images = load_cifar10(split, rows=rows)
        if not file.exists():
            np.savez(file, images=images.pixels, labels=np.array(CLASSES)[images.labels])
    return files


_SHORT = 140  # letters of a text that is shown


@dataclass(frozen=True)
class Errors:
    """Errors on test rows, in random order.

    Attributes:
        rows: their numbers in the run.
        predicted: class numbers.
        accuracy: of the whole network on all test rows.
    """

    rows: np.ndarray
    predicted: np.ndarray
    accuracy: float


def _errors_of(run: Run) -> Errors:
    """Return all errors on test rows, in random order, so that the first are a fair sample."""
    rows = run.places("test")
    predicted, given = run.probabilities(run.x[rows]).argmax(1), run.rows.labels[rows]
    wrong = np.random.default_rng(0).permutation(np.flatnonzero(predicted != given))
    return Errors(rows[wrong], predicted[wrong], float((predicted == given).mean()))


def _shown_errors(run: Run, config: Config, errors: Errors) -> list[dict[str, Any]]:
    """Return errors as a figure shows them, with their supporting rows: the first of the file that fit into it."""
    fitting = [row for row in np.sort(errors.rows) if run.kind == "image" or len(run.rows.values[row]) <= _SHORT]
    rows = np.array(fitting[: config.shown])
    found = explain(run.influence, (run.x[rows], run.y[rows]), k=config.supporting)
    train = run.places("train")
    tokenizer = None if run.kind == "image" else _subwords(config)
    shown: list[dict[str, Any]] = []
    for row, explanation in zip(rows, found, strict=True):
        query = _shown(run, int(row))
        supporting = []
        for reason in explanation.supporting:
            one = _shown(run, int(train[reason.position]))
            if tokenizer is not None:
                shared = shared_tokens(query["text"], one["text"], tokenizer=tokenizer)
                one["marks"] = [(span.start, span.end) for span in shared.example]
                query.setdefault("marks", []).extend((span.start, span.end) for span in shared.query)
            scored = {"score": reason.score, "stderr": reason.stderr, "significant": reason.significant}
            supporting.append({**one, **scored})
        query["marks"] = sorted(set(query.get("marks", [])))
        shown.append(
            {
                **query,
                "predicted": run.label_names[explanation.predicted],
                "probability": explanation.probability,
                "supporting": supporting,
            }
        )
    return shown


def _shared_subwords(run: Run, config: Config, errors: Errors, most: np.ndarray) -> dict[str, float] | None:
    """Return how many subwords errors share with their supporting rows, and with random rows of that label."""
    if run.kind != "text":
        return None
    tokenizer, train = _subwords(config), run.places("train")
    labels, rng = run.rows.labels[train], np.random.default_rng(1)
    counts: dict[str, list[int]] = {"supporting": [], "random": []}
    for row, label, supporting in zip(errors.rows, errors.predicted, most, strict=False):
        query = _shown(run, int(row))["text"]
        chance = rng.choice(np.flatnonzero(labels == label), len(supporting), replace=False)
        for name, places in (("supporting", supporting), ("random", chance)):
            texts = [_shown(run, int(train[place]))["text"] for place in places]
            counts[name] += [len(shared_tokens(query, text, tokenizer=tokenizer).tokens) for text in texts]
    return {name: float(np.mean(found)) for name, found in counts.items()}


def _shown(run: Run, row: int) -> dict[str, Any]:
    label, value = run.label_names[run.rows.labels[row]], run.rows.values[row]
    return {"label": label, "png": _png(value)} if run.kind == "image" else {"label": label, "text": value}


def _png(pixels: np.ndarray) -> str:
    """Return an image as PNG in base64, for JSON."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(file, "png")
    return base64.b64encode(file.getvalue()).decode()


def _subwords(config: Config) -> Tokenizer:
    """Return the encoder's own subwords with their places."""
    tokenizer = TextEncoder(config.model or minilm_folder()).tokenizer

    def subwords(text: str) -> list[tuple[str, int, int]]:
        found = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False, truncation=True)
        tokens = tokenizer.convert_ids_to_tokens(found["input_ids"])
        return [(token, start, end) for token, (start, end) in zip(tokens, found["offset_mapping"], strict=True)]

    return subwords


# By which scores rows are removed: raw, averaged over the run's replicas, and as the run explains.
ESTIMATES = {"tod": "the original estimator", "recommended": "the recommended estimator"}


def _most_supporting(run: Run, errors: Errors, *, by: Influence) -> np.ndarray:
    """Return the training rows of the predicted label by how much they support each error [errors, rows].

    Rows of other labels come last.
    """
    queries = run.x[errors.rows], run.y[errors.rows]
    scores = np.array(by.pairwise(queries, at_label="predicted", progress=False).values)
    labels = run.rows.labels[run.places("train")]
    scores[labels[:, None] != errors.predicted[None]] = -np.inf
    return np.argsort(-scores, axis=0, kind="stable").T


def _repair(run: Run, config: Config, errors: Errors, orders: dict[str, np.ndarray], cache: Path) -> dict[str, Any]:
    """Return how many errors are gone after retraining the network without masks, by what was removed.

    Errors that a retraining on all rows does not make count for nothing: there is nothing to repair.
    """
    recipe = run_recipe(run)
    count = min(config.errors, len(errors.rows))
    removed = max(1, round(config.share * len(recipe)))
    labels, rng = run.rows.labels[run.places("train")], np.random.default_rng(2)
    chance = np.array(
        [rng.permutation(np.flatnonzero(labels == label))[:removed] for label in errors.predicted[:count]]
    )
    ways = {**{name: order[:count, :removed] for name, order in orders.items()}, "random": chance}
    chosen = np.ones((1 + len(ways) * count, len(recipe)), bool)
    for number, rows in enumerate(rows for way in ways.values() for rows in way):
        chosen[1 + number, rows] = False
    queries = run.x[errors.rows[:count]], run.y[errors.rows[:count]]
    predictions = retrain(
        recipe,
        np.concatenate([chosen] * len(config.seeds)),
        seeds=[1000 + seed for seed in config.seeds for _ in chosen],
        measure=partial(query_predictions, recipe.over(queries)),
        cache=cache,
        identity=identity_of(recipe, queries, "plain"),
        progress=True,
    ).reshape(len(config.seeds), len(chosen), -1)
    given = run.rows.labels[errors.rows[:count]]
    right = predictions.reshape(len(config.seeds), len(chosen), count) == given
    still = ~right[:, 0]  # [seeds, errors]: made again by a training on all rows
    by_way = right[:, 1:].reshape(len(config.seeds), len(ways), count, count)
    own = np.diagonal(by_way, axis1=2, axis2=3)  # of the model retrained for an error, that error counts
    return {
        "removed": removed,
        "tried": int(still.sum()),
        "errors": count,
        "repaired": {name: int((own[:, place] & still).sum()) for place, name in enumerate(ways)},
        # Error by error, for an interval: means over the seeds in which it was made again.
        "by_error": {
            name: [
                float(own[still[:, error], place, error].mean()) if still[:, error].any() else None
                for error in range(count)
            ]
            for place, name in enumerate(ways)
        },
    }
