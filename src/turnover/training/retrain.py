"""Many trainings of one recipe on subsets of its rows, in worker processes, cached and resumable; what to measure."""

import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from turnover.errors import TrainingError
from turnover.storage import ArraySpec, TileStore

from .recipe import TrainingRecipe, digest_of

Measure = Callable[[nn.Module], np.ndarray]

_ROWS_AT_ONCE = 1024


def retrain(
    recipe: TrainingRecipe,
    subsets: np.ndarray,
    *,
    seeds: Sequence[int],
    measure: Measure,
    processes: int = 1,
    cache: str | os.PathLike[str] | None = None,
    identity: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> np.ndarray:
    """Return what `measure` gives for a model trained on each subset (bool [subsets, rows]), [subsets, ...] in float32.

    The measure is called with every trained model, in its worker, and returns an array of the same shape each time.
    There are at most as many processes as cores; each has its share of the threads. Finished trainings are kept in the
    folder `cache`, so that an interrupted call resumes; `identity` is what the cached numbers depend on besides subsets
    and seeds, and is needed with `cache`.
    """
    subsets = np.asarray(subsets)
    if subsets.dtype != np.bool_ or subsets.ndim != 2 or subsets.shape[1] != len(recipe):
        raise TrainingError(
            f"subsets are {subsets.dtype} of shape {list(subsets.shape)}; give bool [subsets, {len(recipe)}]."
        )
    if len(seeds) != len(subsets):
        raise TrainingError(f"{len(seeds)} seeds for {len(subsets)} subsets. Give one seed per training.")
    check_processes(processes)
    jobs = [(subsets[place], int(seeds[place])) for place in range(len(subsets))]
    with tqdm(total=len(jobs), unit=" trainings", disable=not progress) as bar:
        if cache is None:
            return np.stack(list(_run(recipe, jobs, measure, processes, bar)))
        if identity is None:
            raise TrainingError("cache= needs identity=: a dict that says what the numbers depend on, model and data.")
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            shape = np.asarray(measure(recipe.build().eval())).shape
        spec = ArraySpec(shape=(len(jobs), *shape), dtype="float32", tile=(1, *shape))
        full_identity = {
            **identity,
            "subsets": digest_of(torch.from_numpy(subsets)),
            "seeds": [int(seed) for seed in seeds],
        }
        with TileStore.open_for_writing(cache, identity=full_identity, arrays={"measured": spec}) as store:
            pending = store.pending()
            bar.update(len(jobs) - len(pending))
            results = _run(recipe, [jobs[place] for place in pending], measure, processes, bar)
            for place, result in zip(pending, results, strict=True):
                store.write(place, {"measured": result[None]})
            if not store.complete:
                store.finish({"kind": "retrained"})
    return TileStore.open_for_reading(cache).read("measured")


@dataclass(frozen=True, eq=False)
class RowMeasure:
    """What a trained model says about rows of recipes; can be sent to a worker process."""

    parts: tuple[tuple[TrainingRecipe, Tensor | None], ...]  # recipes, and which rows of each; None: all
    measure: Callable[[Tensor, Tensor], Tensor] | None = None  # of outputs and targets, [rows]; None: the loss

    def __call__(self, model: nn.Module) -> np.ndarray:
        """Return the measure of all rows, [rows of all parts]."""
        return np.concatenate(
            [
                self._of(model, recipe, chunk).cpu().numpy()
                for recipe, rows in self.parts
                for chunk in (torch.arange(len(recipe)) if rows is None else rows).split(_ROWS_AT_ONCE)
            ]
        )

    def _of(self, model: nn.Module, recipe: TrainingRecipe, rows: Tensor) -> Tensor:
        if self.measure is None:
            return recipe.losses(model, rows).float()
        return self.measure(recipe.outputs(model, rows).cpu(), recipe.targets[rows].cpu())


def check_processes(processes: int) -> None:
    """Raise for a number of processes that this machine does not have cores for."""
    cores = os.cpu_count() or 1
    if isinstance(processes, bool) or not isinstance(processes, int) or not 1 <= processes <= cores:
        raise TrainingError(
            f"`processes` must be an integer from 1 to {cores}, the cores of this machine, got {processes!r}."
        )


def _run(
    recipe: TrainingRecipe, jobs: Sequence[tuple[np.ndarray, int]], measure: Measure, processes: int, bar: Any
) -> Iterator[np.ndarray]:
    """Yield the measured arrays in the order of the jobs."""
    with _pool(recipe, measure, processes) if processes > 1 and len(jobs) > 1 else nullcontext() as pool:
        train = partial(_train, recipe, measure)
        for result in map(train, jobs) if pool is None else pool.map(_train_in_worker, jobs):
            bar.update(1)
            yield result


def _pool(recipe: TrainingRecipe, measure: Measure, processes: int) -> ProcessPoolExecutor:
    try:
        pickled = pickle.dumps((recipe, measure))
    except Exception as error:
        raise TrainingError(
            f"the recipe or measure cannot be sent to worker processes ({error}). Use functions of a module and "
            "functools.partial instead of lambdas, or processes=1."
        ) from error
    threads = max(1, torch.get_num_threads() // processes)
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_start, initargs=(pickled, threads))


_worker_task: tuple[TrainingRecipe, Measure] | None = None


def _start(pickled: bytes, threads: int) -> None:
    """Make a worker ready: its share of the threads, the recipe and the measure."""
    global _worker_task  # noqa: PLW0603 - a worker has one task in its life
    torch.set_num_threads(threads)
    _worker_task = pickle.loads(pickled)


def _train_in_worker(job: tuple[np.ndarray, int]) -> np.ndarray:
    assert _worker_task is not None  # the pool's initializer ran
    return _train(*_worker_task, job)


def _train(recipe: TrainingRecipe, measure: Measure, job: tuple[np.ndarray, int]) -> np.ndarray:
    rows, seed = job
    model = recipe.fit(torch.from_numpy(rows), seed=seed)
    with torch.no_grad():
        return np.asarray(measure(model), dtype=np.float32)
