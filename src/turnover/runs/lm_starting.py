"""From a text to a finished run of a language model."""

import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import torch

import turnover

from .config import RunConfig
from .corpus_kept import keep_corpus
from .feed_forward_lm import language_model_sites
from .fitting import Curves, Fitting, TrainingRows, fit, whole_network
from .folder import About, RunFolder, write_about, write_whole
from .lm_runs import MODELS, LmRun, language_model
from .reading.corpus import read_corpus
from .starting import begun, reading, timed, writing
from .watching import Watch, unwatched

_EPOCHS, _RATE = 3, 1e-3


def start_lm_run(config: RunConfig, out: str | os.PathLike[str], *, watch: Watch = unwatched) -> LmRun:
    """Read a text, train language models on it and score every position; resumed as `start_run` is.

    Args:
        config: what to do.
        out: folder of the run.
        watch: told how far it is.

    Raises:
        RunError: the folder holds something else.
        DataFileError: the text cannot be used; then no folder is made.
    """
    folder = RunFolder(Path(out))
    about = begun(config, folder) or _read(config, folder, watch)
    if about.state == "complete":
        return LmRun(folder.path)
    run = LmRun(folder.path)
    run.about = about
    if about.state == "begun":
        with timed(about, "training"):
            _train(run, watch)
        about.state = "trained"
        write_about(folder, about)
    with timed(about, "scoring"):
        watch("scoring", 0, 1, "self-influence")
        about.results = _results(run)
        watch("scoring", 1, 1)
    about.state = "complete"
    write_about(folder, about)
    return run


def _read(config: RunConfig, folder: RunFolder, watch: Watch) -> About:
    """Read the text and make the folder."""
    with reading(config, folder, watch) as about:
        corpus = read_corpus(config)
        with writing(folder):
            keep_corpus(corpus, folder.path)
        about.notes = list(corpus.notes)
    return about


def _train(run: LmRun, watch: Watch) -> None:
    """Train the models one after the other; those that are finished are not trained again."""
    config, models = run.config, run.config.replicas or MODELS
    rows = TrainingRows(*run.train_data, *run.data("validation"))
    every: list[Curves] = []
    for number in range(models):
        kept = run.folder.model / str(number)
        if not (kept / "curves.json").exists():
            seed = config.seed * 1000 + number
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model = turnover.wrap(
                    language_model(config, len(run.words)), at=language_model_sites(), keep=config.keep, seed=seed
                )
                rate = config.learning_rate or _RATE
                how = Fitting(config.epochs or _EPOCHS, config.batch_size, rate, config.weight_decay, seed)
                told = partial(_one_of_many, watch, number, models)
                curves = fit(model, rows, how, saved=run.folder.training, watch=told)
            turnover.save(model, kept)
            write_whole(kept / "curves.json", json.dumps(curves.as_dict()) + "\n")
            run.folder.training.unlink(missing_ok=True)
        every.append(Curves(**json.loads((kept / "curves.json").read_text(encoding="utf-8"))))
    mean = {name: np.mean([vars(curves)[name] for curves in every], axis=0).tolist() for name in vars(Curves())}
    write_whole(run.folder.curves, json.dumps(mean) + "\n")


def _one_of_many(watch: Watch, number: int, models: int, stage: str, done: int, total: int, note: str = "") -> None:
    """Tell a watcher of one model's training as a part of all."""
    watch(stage, number * total + done, models * total, f"model {number + 1} of {models}  {note}")


def _results(run: LmRun) -> dict[str, float]:
    """Return how good the models are, and how self-influence goes with the frequency of words."""
    found: dict[str, float] = {}
    for split in ("validation", "test"):
        x, y = run.data(split)
        if not len(y):
            continue
        losses = [whole_network(model, x, y)[0] for model in run.models]
        found[f"{split}_perplexity"] = float(np.exp(np.mean(losses)))
    values = run.self_influence.values
    found["positive_share"] = float((values > 0).mean())
    found["frequency_correlation"] = _rank_correlation(values, run.frequency)
    return found


def _rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])
