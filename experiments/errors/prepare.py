"""The data as a user would have it, in files, and a run of the command line's own code on them."""

from pathlib import Path

import numpy as np

from experiments.datasets.cifar10 import CLASSES, load_cifar10
from experiments.datasets.minilm import minilm_folder
from experiments.datasets.sst2 import load_sst2
from experiments.datasets.yahoo import TOPICS, load_yahoo
from turnover.runs import Run, RunConfig, start_run

from .config import Config

# Of the training rows, for the curves; the seed of everything.
_VALIDATION, _SEED = 0.02, 0


def prepare(config: Config, out: Path) -> Run:
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
        _write_once(file, "\n".join(["text\tlabel", *lines]) + "\n")
    return files


def _images(config: Config, out: Path) -> tuple[Path, Path]:
    files = out / "train.npz", out / "test.npz"
    for file, split, rows in zip(files, ("train", "test"), (config.rows, config.test_rows), strict=True):
        images = load_cifar10(split, rows=rows)
        if not file.exists():
            np.savez(file, images=images.pixels, labels=np.array(CLASSES)[images.labels])
    return files


def _write_once(file: Path, text: str) -> None:
    # A run refuses data that changed; the same settings give the same file.
    if not file.exists():
        file.write_text(text, encoding="utf-8")
