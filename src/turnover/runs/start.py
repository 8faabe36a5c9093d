"""From settings to a finished run: read, prepare, train, score; what was interrupted is resumed."""

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from turnover.applications import FEWEST_VALIDATION, TrainingRecord
from turnover.errors import RunError
from turnover.influence import Executor
from turnover.layers import preferred_device
from turnover.wrapping import save

from .config import RunConfig, Watch, unusable_path, unwatched
from .folder import About, RunFolder, changed_data, digests_of
from .run import Run, run_in
from .training import Curves, TrainingRows, fit


def start_run(
    config: RunConfig,
    out: str | os.PathLike[str],
    *,
    watch: Watch = unwatched,
    executor: Executor | None = None,
) -> Run[Any]:
    """Read, train and score; resume what an earlier call with the same settings left.

    `watch` is called as a stage makes progress. The executor computes scores.
    """
    if problem := unusable_path(os.fspath(out)):
        raise RunError(f"the folder {problem}. Give another: --out NEW.")
    folder = RunFolder(Path(out))
    run = _begun(config, folder)
    if run is not None and run.complete and not folder.damaged(run.about):
        run.executor = executor
        return run
    with folder.lock():
        run = _begun(config, folder)  # another process may have written to it meanwhile
        if run is None:
            run = run_in(folder, config, About.of_new_run())
            with run.about.timed("reading"):
                watch("reading", 0, 1)
                run.about.data = digests_of((config.data, config.validation_data, config.test_data))
                run.about.notes = list(run.task.read(watch))
                watch("reading", 1, 1)
            run.task.keep()
            folder.write(folder.config, config.as_toml())
            folder.write_about(run.about)
        else:
            folder.repair(run.about, settings=config.as_toml())
        with run.about.timed("features"):
            run.task.prepare(watch)
        if run.about.state == "begun":
            with run.about.timed("training"):
                _train(run, watch)
            run.about.state = "trained"
            folder.write_about(run.about)
        run.executor = executor
        if not run.complete:
            run.score_locked(watch=watch)
    return run


def _setting(name: str, value: object) -> str:
    """Return a setting as a message shows it: None, and 0 where it means so, as the default that it stands for."""
    chosen_by_data = {"hidden", "replicas", "epochs", "learning_rate"}
    return "default" if value is None or (value == 0 and name in chosen_by_data) else repr(value)


def _begun(config: RunConfig, folder: RunFolder) -> Run[Any] | None:
    """Return the run that settings began in a folder; None: there is no such folder yet."""
    if not folder.about.exists():
        if folder.is_new():
            return None
        raise RunError(f"{str(folder.path)!r} exists and is not a run. Give a new or empty folder: --out NEW.")
    run = run_in(folder, config, folder.read_about())
    former = config if folder.holds_settings(run.about, config.as_toml()) else RunConfig.read(folder.config)
    changed = [
        f"{name} {_setting(name, getattr(former, name))} there, {_setting(name, value)} here"
        for name, value in vars(config).items()
        if getattr(former, name) != value
    ]
    if changed:
        raise RunError(
            f"{str(folder.path)!r} holds a run with other settings ({'; '.join(changed)}). Give another folder: "
            "--out NEW."
        )
    if files := changed_data(run.about):
        raise RunError(
            f"{' and '.join(map(repr, files))} changed since the run in {str(folder.path)!r} was made, which knows the "
            "former content only. Run on the new one in another folder: --out NEW."
        )
    return run


def _train(run: Run[Any], watch: Watch) -> None:
    """Train the models one after the other and keep them; those that are finished are not trained again."""
    task, folder = run.task, run.folder
    watch("preparing the training", 0, 1)
    rows = TrainingRows(*run.train_data, *run.data("validation"), task.loss_weights)
    models, members = [], []
    for number, kept in enumerate(task.model_folders):
        file = kept / "curves.json"
        if file.exists():
            with folder.reading(file):
                members.append(Curves.read(file))
            models.append(run.load_model(kept))
            continue
        seed = task.seed_of(number)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = task.masked_network(number).to(preferred_device())
            watch_member = partial(_watch_member, watch, number, len(task.model_folders))
            settings = replace(task.settings, seed=seed)
            record = _record(run, model, rows)
            members.append(fit(model, rows, settings, record=record, saved=folder.training, watch=watch_member))
        with folder.writing(kept):
            save(model, kept)
        if record is not None:
            with folder.writing(folder.record):
                record.finish().save(folder.record)
        folder.write(file, json.dumps(members[-1].as_dict()) + "\n")
        folder.write_about(run.about)
        folder.training.unlink(missing_ok=True)
        models.append(model)
    run.models, run.curves = models, Curves.mean(members)
    folder.write(folder.curves, json.dumps(run.curves.as_dict()) + "\n")


def _record(run: Run[Any], model: nn.Module, rows: TrainingRows) -> TrainingRecord | None:
    """Return what records the training of an untrained classifier; None: there are too few validation rows."""
    if not run.task.recorded or len(rows.validation_y) < FEWEST_VALIDATION:
        return None
    return TrainingRecord(model, train=(rows.x, rows.y, rows.ids), validation=(rows.validation_x, rows.validation_y))


def _watch_member(watch: Watch, number: int, members: int, stage: str, done: int, total: int, note: str = "") -> None:
    """Report the training of one model as a part of all."""
    which = f"model {number + 1} of {members}  " if members > 1 else ""
    watch(stage, number * total + done, members * total, f"{which}{note}")
