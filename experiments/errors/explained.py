"""Wrong predictions, and the training rows of the predicted label that pushed them there most."""

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.datasets.minilm import minilm_folder
from turnover.applications import Tokenizer, explain, shared_tokens
from turnover.integrations import TextEncoder
from turnover.runs import Run

from .config import Config

_SHORT = 140  # letters of a text that is shown


@dataclass(frozen=True)
class Errors:
    """Test rows that are predicted wrongly, in random order.

    Attributes:
        rows: their numbers in the run.
        predicted: class numbers.
        accuracy: of the whole network on all test rows.
    """

    rows: np.ndarray
    predicted: np.ndarray
    accuracy: float


def errors_of(run: Run) -> Errors:
    """Return all wrong predictions of test rows; in random order, so that the first are a fair sample."""
    rows = run.places("test")
    predicted, given = run.probabilities(run.x[rows]).argmax(1), run.rows.labels[rows]
    wrong = np.random.default_rng(0).permutation(np.flatnonzero(predicted != given))
    return Errors(rows[wrong], predicted[wrong], float((predicted == given).mean()))


def shown_errors(run: Run, config: Config, errors: Errors) -> list[dict[str, Any]]:
    """Return errors as a figure shows them, with the rows behind them: the first of the file that fit into it."""
    fitting = [row for row in np.sort(errors.rows) if run.kind == "image" or len(run.rows.values[row]) <= _SHORT]
    rows = np.array(fitting[: config.shown])
    found = explain(run.influence, (run.x[rows], run.y[rows]), k=config.behind)
    train = run.places("train")
    tokenizer = None if run.kind == "image" else _subwords(config)
    shown: list[dict[str, Any]] = []
    for row, explanation in zip(rows, found, strict=True):
        query = _shown(run, int(row))
        behind = []
        for reason in explanation.pushed:
            one = _shown(run, int(train[reason.position]))
            if tokenizer is not None:
                shared = shared_tokens(query["text"], one["text"], tokenizer=tokenizer)
                one["marks"] = [(span.start, span.end) for span in shared.example]
                query.setdefault("marks", []).extend((span.start, span.end) for span in shared.query)
            behind.append({**one, "score": reason.score, "stderr": reason.stderr, "stands_out": reason.stands_out})
        query["marks"] = sorted(set(query.get("marks", [])))
        shown.append(
            {
                **query,
                "predicted": run.label_names[explanation.predicted],
                "probability": explanation.probability,
                "behind": behind,
            }
        )
    return shown


def shared_with_query(run: Run, config: Config, errors: Errors, most: np.ndarray) -> dict[str, float] | None:
    """Return how many subwords errors share with the rows behind them, and with random rows of that label.

    Args:
        run: that is asked.
        config: how many rows stand behind each error.
        errors: wrong predictions.
        most: training rows in the order of their push [errors, rows behind].
    """
    if run.kind != "text":
        return None
    tokenizer, train = _subwords(config), run.places("train")
    labels, rng = run.rows.labels[train], np.random.default_rng(1)
    counts: dict[str, list[int]] = {"behind": [], "random": []}
    for row, label, behind in zip(errors.rows, errors.predicted, most, strict=False):
        query = _shown(run, int(row))["text"]
        chance = rng.choice(np.flatnonzero(labels == label), len(behind), replace=False)
        for name, places in (("behind", behind), ("random", chance)):
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
