"""Train adapters under masks and measure the curves on the way; a finished seed is not trained again."""

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from tqdm import tqdm

from experiments.datasets.sst2 import load_sst2
from experiments.real_models.text import BATCH, Rows, train
from experiments.runner import kept, spent
from experiments.side_effects.adapters import adapter_network, load_rows, open_encoder
from experiments.timing import one_thread
from turnover.batches import INSTANCE_ID
from turnover.influence import null_ids
from turnover.integrations import measure_curves

from .areas import areas
from .config import Config

_TOGETHER = 64


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return the curves of every seed and the areas between them.

    Args:
        config: how large.
        out: folder of the run.

    Raises:
        MissingDataError: SST-2 is not there.
    """
    load_sst2("dev", rows=1)
    with one_thread():
        encoder, parts = open_encoder(config.encoder, blocks=config.blocks, out=out), out / "parts"
        curves = [
            kept(parts / f"curves-{seed}.json", partial(_curves, config, seed, encoder))
            for seed in tqdm(config.seeds, desc="learning curves")
        ]
    return {
        "setting": asdict(config),
        "curves": curves,
        "areas": [areas(one) for one in curves],
        "spent": spent(parts),
    }


def _curves(config: Config, seed: int, encoder: str) -> list[dict[str, float]]:
    """Return the losses before training and at every point."""
    draw = partial(load_rows, encoder=encoder, seed=seed)
    rows = draw("train", rows=config.rows)
    test = draw("dev", rows=config.test_rows)
    model = adapter_network(encoder, masked=True, seed=seed)
    watched = range(0, config.rows, max(1, config.rows // config.watched))[: config.watched]
    never = null_ids(len(test))
    loaders = {
        "train": _loader(rows, watched, ids=torch.tensor(watched)),
        "test": _loader(test, range(len(test))),
        "held out": _loader(held := draw("train", start=config.rows, rows=config.watched), range(len(held))),
        # Every second row will do for the network's halves, which are two.
        "test under masks": _loader(test, range(0, len(test), 2), ids=never[::2]),
    }
    steps = config.epochs * -(-len(rows) // BATCH)
    wanted = {round(point * steps / config.points) for point in range(1, config.points + 1)}
    history = [_point(model, loaders, step=0)]
    with tqdm(total=steps, desc=f"seed {seed}", leave=False) as bar:

        def tell() -> None:
            bar.update()
            if bar.n in wanted:
                history.append(_point(model, loaders, step=int(bar.n)))

        train(model, rows, masked=True, rate=config.rate, epochs=config.epochs, seed=seed, tell=tell)
    return history


def _point(model: nn.Module, loaders: dict[str, Any], *, step: int) -> dict[str, float]:
    """Return all losses at one step, in eval mode."""
    full = measure_curves(model, train=loaders["train"], validation=loaders["test"])
    # No row has these ids: both their masks give networks that differ from the full one in size alone.
    halves = measure_curves(model, train=loaders["test under masks"], validation=loaders["held out"])
    return {
        "step": step,
        "keep": full["curve_keep"],
        "flip": full["curve_flip"],
        "test": full["curve_validation"],
        "test_half": (halves["curve_keep"] + halves["curve_flip"]) / 2,
        "held_out": halves["curve_validation"],
    }


def _loader(rows: Rows, places: Iterable[int], *, ids: Tensor | None = None) -> DataLoader[Any]:
    """Return batches of rows of like length, so that little padding is computed."""
    chosen = list(places)
    order = sorted(range(len(chosen)), key=lambda number: len(rows.tokens[chosen[number]]))
    batches: list[Any] = []
    for start in range(0, len(order), _TOGETHER):
        numbers = order[start : start + _TOGETHER]
        batch = rows.batch(some := [chosen[number] for number in numbers]) | {"labels": rows.labels[some]}
        batches.append(batch if ids is None else batch | {INSTANCE_ID: ids[numbers]})
    # A generator of its own: a loader draws a number for its workers, and the training must not notice.
    return DataLoader(batches, batch_size=None, generator=torch.Generator())  # pyright: ignore[reportArgumentType]
