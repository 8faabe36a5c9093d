"""From data to a finished run: read, train, score; taken up again where it was cut off."""

import json
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

import turnover
from turnover.errors import RunError, TurnOverWarning
from turnover.integrations import TextEncoder
from turnover.runs import corpus_kept, rows_kept

from .config import RunConfig
from .fitting import Fitting, TrainingRows, class_weights, fit
from .folder import About, RunFolder, read_about, versions, write_about, write_whole
from .inputs.features import fit_inputs
from .inputs.inputs import as_json
from .networks import masked_network
from .reading.reading import read_rows
from .runs import Run
from .splits import split_rows
from .watching import Watch, unwatched

# By the kind of inputs: enough to learn rows by heart a little, which is what influence is made of.
_EPOCHS = {"ngrams": 3, "encoder": 6, "tokens": 5, "columns": 30, "pixels": 12}
_RATES = {"ngrams": 1e-3, "encoder": 5e-4, "tokens": 2e-3, "columns": 2e-3, "pixels": 1e-3}


def start_run(config: RunConfig, out: str | os.PathLike[str], *, watch: Watch = unwatched) -> Run:
    """Read, train and score; take up again what an earlier call with the same settings left.

    Args:
        config: what to do.
        out: folder of the run; made, or one that the same settings began.
        watch: told how far it is.

    Raises:
        RunError: the folder holds something else.
        DataFileError: the data cannot be used; then no folder is made.
    """
    folder = RunFolder(Path(out))
    about = begun(config, folder) or _read(config, folder, watch)
    if about.state == "complete":
        return Run(folder.path)
    run = Run(folder.path)
    run.about = about
    if not folder.inputs.exists():
        with timed(about, "features"):
            write_whole(folder.inputs, as_json(fit_inputs(config, run.rows, run.places("train"), folder, watch)))
        write_about(folder, about)
    if about.state == "begun":
        with timed(about, "training"):
            _train(run, watch)
        _without_denoising(run)
        about.state = "trained"
        write_about(folder, about)
        folder.training.unlink(missing_ok=True)
    with timed(about, "scoring"), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", TurnOverWarning)
        for done, part in enumerate(("self_influence", "out_of_sample", "mean_influence")):
            watch("scoring", done, 3, part.replace("_", " "))
            getattr(run, part)
        watch("scoring", 3, 3)
    if any("cannot be told from that of ids that were never trained" in str(warning.message) for warning in told):
        about.notes.append(
            "Self-influence cannot be told from noise: rows were hardly learned. Train longer, with more --epochs."
        )
    about.results = _results(run)
    about.state = "complete"
    write_about(folder, about)
    return run


def fitting_of(config: RunConfig, kind: str) -> Fitting:
    """Return how a run is trained, with what its settings leave open filled in by the kind of inputs."""
    return Fitting(
        config.epochs or _EPOCHS[kind],
        config.batch_size,
        config.learning_rate or _RATES[kind],
        config.weight_decay,
        config.seed,
    )


def begun(config: RunConfig, folder: RunFolder) -> About | None:
    """Return how far a run with these settings came; None: there is no such folder yet.

    Raises:
        RunError: the folder holds something else.
    """
    if folder.about.exists():
        about = read_about(folder)
        former = RunConfig.read(folder.config)
        changed = [
            f"{name} {getattr(former, name)!r} there, {value!r} here"
            for name, value in vars(config).items()
            if getattr(former, name) != value
        ]
        if changed:
            raise RunError(
                f"{str(folder.path)!r} holds a run with other settings ({'; '.join(changed)}). Give another folder: "
                "--out NEW."
            )
        return about
    if folder.path.exists() and not (folder.path.is_dir() and _only_rows(folder.path)):
        raise RunError(f"{str(folder.path)!r} exists and is not a run. Give a new or empty folder: --out NEW.")
    return None


@contextmanager
def timed(about: About, stage: str) -> Iterator[None]:
    """Add the seconds of a stage to what is said about a run."""
    began = time.perf_counter()
    yield
    about.seconds[stage] = round(about.seconds.get(stage, 0.0) + time.perf_counter() - began, 3)


@contextmanager
def reading(config: RunConfig, folder: RunFolder, watch: Watch) -> Iterator[About]:
    """Time what is read and written inside, then make the folder a run: it has all of its data, or it is none.

    Args:
        config: of the run.
        folder: to make.
        watch: told when reading begins and ends.
    """
    about = About(versions=versions())
    with timed(about, "reading"):
        watch("reading", 0, 1)
        yield about
        watch("reading", 1, 1)
    write_whole(folder.config, config.as_toml())
    write_about(folder, about)


@contextmanager
def writing(folder: RunFolder) -> Iterator[None]:
    """Make the folder of a run for what is written inside; say so where that fails."""
    try:
        folder.scores.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise RunError(
            f"cannot write to {str(folder.path)!r}: {error.strerror or error}. Give a folder with room and write "
            "access: --out NEW."
        ) from error


def _read(config: RunConfig, folder: RunFolder, watch: Watch) -> About:
    """Read the data and make the folder."""
    with reading(config, folder, watch) as about:
        rows = read_rows(config, watch=watch)
        splits = split_rows(rows, config)
        if rows.kind == "text" and config.model is not None:
            _ = TextEncoder(config.model).width  # one that does not open must not leave a folder behind
        with writing(folder):
            np.save(folder.splits, splits)
            rows_kept.keep_rows(rows, folder.path)
        about.notes = list(rows.notes)
    return about


def _only_rows(path: Path) -> bool:
    """Tell whether a folder is empty or was cut off while its rows were written."""
    known = {*rows_kept.FILES, corpus_kept.FILE, "splits.npy", "scores", "config.toml"}
    return all(file.name in known or file.name.endswith(".part") for file in path.iterdir())


def _train(run: Run, watch: Watch) -> None:
    """Train the model of a run and keep it."""
    config = run.config
    x, y, ids = run.train_data
    weights = class_weights(y, len(run.label_names)) if config.balance else None
    model = masked_network(config, run.preparation, len(run.label_names))
    rows = TrainingRows(x, y, ids, *run.data("validation"), weights)
    how = fitting_of(config, run.preparation.kind)
    curves = fit(model, rows, how, saved=run.folder.training, watch=watch)
    turnover.save(model, run.folder.model)
    write_whole(run.folder.curves, json.dumps(curves.as_dict()) + "\n")


def _without_denoising(run: Run) -> None:
    """Do without denoising where all training rows are known to a loss of 0: then they have no gradients to go by."""
    x, y, _ = run.train_data
    if float(run.probabilities(x)[np.arange(len(y)), y].min()) == 1:
        run.about.denoised = False
        run.about.notes.append("All training rows are known by heart, to a loss of 0: scores are not denoised.")


def _results(run: Run) -> dict[str, float]:
    """Return how good the model is."""
    found: dict[str, float] = {}
    for split in ("validation", "test"):
        x, y = run.data(split)
        if len(y):
            probabilities = torch.from_numpy(run.probabilities(x))
            found[f"{split}_accuracy"] = float((probabilities.argmax(1) == y).float().mean())
            found[f"{split}_loss"] = float(functional.nll_loss(probabilities.clamp(min=1e-12).log(), y))
    train = run.y[run.places("train")]
    found["most_frequent_share"] = float(torch.bincount(train).max() / len(train))
    return found
