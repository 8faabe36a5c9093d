"""Many trainings of one recipe on subsets of its rows, in worker processes, cached and resumable."""

import hashlib
import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from turnover.errors import TrainingError
from turnover.storage import ArraySpec, TileStore

from .recipe import TrainingRecipe

Measure = Callable[[nn.Module], np.ndarray]


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
    """Return what `measure` gives for a model trained on each subset, [subsets, ...] in float32.

    Args:
        recipe: how to train.
        subsets: bool [subsets, rows]: which rows each training uses.
        seeds: one a training.
        measure: asked of every trained model, in its worker; returns an array of the same shape each time.
        processes: worker processes, never more than there are cores; every worker has its share of the threads.
        cache: a folder; finished trainings are kept there and not run again.
        identity: what the cached numbers depend on besides subsets and seeds; needed with `cache`.
        progress: show a bar.
    """
    subsets = np.asarray(subsets)
    if subsets.dtype != np.bool_ or subsets.ndim != 2 or subsets.shape[1] != len(recipe):
        raise TrainingError(
            f"subsets are {subsets.dtype} of shape {list(subsets.shape)}; give bool [subsets, {len(recipe)}]."
        )
    if len(seeds) != len(subsets):
        raise TrainingError(f"{len(seeds)} seeds for {len(subsets)} subsets. Give one seed a training.")
    check_processes(processes)
    jobs = [(subsets[place], int(seeds[place])) for place in range(len(subsets))]
    with tqdm(total=len(jobs), unit=" trainings", disable=not progress) as bar:
        if cache is None:
            return np.stack([_counted(result, bar) for result in _run(recipe, jobs, measure, processes)])
        if identity is None:
            raise TrainingError("cache= needs identity=: a dict that says what the numbers depend on, model and data.")
        shape = _shape(recipe, measure)
        spec = ArraySpec(shape=(len(jobs), *shape), dtype="float32", tile=(1, *shape))
        whole = {**identity, "subsets": _digest(subsets), "seeds": [int(seed) for seed in seeds]}
        with TileStore.open_for_writing(cache, identity=whole, arrays={"measured": spec}) as store:
            pending = store.pending()
            bar.update(len(jobs) - len(pending))
            for place, result in zip(
                pending, _run(recipe, [jobs[p] for p in pending], measure, processes), strict=True
            ):
                store.write(place, {"measured": _counted(result, bar)[None]})
            if not store.complete:
                store.finish({"kind": "retrained"})
    return TileStore.open_for_reading(cache).read("measured")


def check_processes(processes: int) -> None:
    """Raise for a number of processes that this machine does not have cores for."""
    cores = os.cpu_count() or 1
    if isinstance(processes, bool) or not isinstance(processes, int) or not 1 <= processes <= cores:
        raise TrainingError(
            f"processes={processes!r}: this machine has {cores} cores. Give a number from 1 to {cores}."
        )


def _run(
    recipe: TrainingRecipe, jobs: Sequence[tuple[np.ndarray, int]], measure: Measure, processes: int
) -> Iterator[np.ndarray]:
    """Yield the measured arrays in the order of the jobs."""
    if processes == 1 or len(jobs) < 2:
        yield from (_train(recipe, rows, seed, measure) for rows, seed in jobs)
        return
    try:
        work = pickle.dumps((recipe, measure))
    except Exception as error:
        raise TrainingError(
            f"the recipe or measure cannot be sent to worker processes ({error}). Use functions of a module and "
            "functools.partial instead of lambdas, or processes=1."
        ) from error
    threads = max(1, torch.get_num_threads() // processes)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_start, initargs=(work, threads)) as pool:
        yield from pool.map(_train_in_worker, jobs)


_work: tuple[TrainingRecipe, Measure] | None = None


def _start(work: bytes, threads: int) -> None:
    """Make a worker ready: its share of the threads, the recipe and the measure."""
    global _work  # noqa: PLW0603 - a worker has one piece of work in its life
    torch.set_num_threads(threads)
    _work = pickle.loads(work)


def _train_in_worker(job: tuple[np.ndarray, int]) -> np.ndarray:
    assert _work is not None  # the pool's initializer ran
    return _train(_work[0], *job, _work[1])


def _train(recipe: TrainingRecipe, rows: np.ndarray, seed: int, measure: Measure) -> np.ndarray:
    model = recipe.fit(torch.from_numpy(rows), seed=seed)
    with torch.no_grad():
        return np.asarray(measure(model), dtype=np.float32)


def _shape(recipe: TrainingRecipe, measure: Measure) -> tuple[int, ...]:
    """Return the shape of what is measured, from an untrained model."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        return np.asarray(measure(recipe.build().eval())).shape


def _counted(result: np.ndarray, bar: Any) -> np.ndarray:
    bar.update(1)
    return result


def _digest(subsets: np.ndarray) -> str:
    return hashlib.sha256(np.packbits(subsets).tobytes() + str(subsets.shape).encode()).hexdigest()
