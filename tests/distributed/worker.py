"""One of two processes under torchrun: measures the cells that were asked for, each beside a model of one process.

Usage: worker.py FOLDER GROUP; writes FOLDER/GROUP.<rank>.json with the largest differences of each cell, or its error.
"""

import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.distributed.checkpoint import load as load_checkpoint
from torch.distributed.checkpoint import save as save_checkpoint
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.nn import functional
from torch.utils.data import TensorDataset

import turnover
from tests.distributed.models import KINDS, ROWS, STRATEGIES, WORLD, Kind
from turnover.batches import logits_of
from turnover.errors import ShardedModelError
from turnover.layers import whole_tensor

FULL = StateDictOptions(full_state_dict=True)
Differences = dict[str, float]


def step(model: nn.Module, x: Tensor, y: Tensor, ids: Tensor) -> None:
    """One step of gradient descent on a batch, with a second gradient left behind."""
    optimizer = torch.optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=0.1)
    for last in (False, True):
        optimizer.zero_grad()
        with turnover.instances(ids) as active:
            outputs = logits_of(model(x))
            functional.cross_entropy(outputs, active.repeat(y)).backward()
        if not last:
            optimizer.step()


def difference(one: Any, other: Any) -> float:
    return float((torch.as_tensor(one) - torch.as_tensor(other)).abs().max())


def largest(tensors: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The largest difference of tensors that must have the same names."""
    assert tensors.keys() == expected.keys(), tensors.keys() ^ expected.keys()
    return max(difference(tensors[name], expected[name]) for name in expected)


def gradients(model: nn.Module) -> dict[str, Tensor]:
    names = ((_plain(name), parameter.grad) for name, parameter in model.named_parameters())
    return {name: whole_tensor(gradient) for name, gradient in names if gradient is not None}


def weights(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a state dict, without the mask recipe."""
    return {_plain(name): value for name, value in state.items() if not name.endswith("turnover_recipe")}


def _plain(name: str) -> str:
    return name.removeprefix("_orig_mod.").removeprefix("module.").removeprefix("_orig_mod.")


def trained_alike(kind: Kind, parallel: nn.Module) -> tuple[nn.Module, Differences]:
    """Train a model of one process on the joint batch, the other on this process's part; return the first and more."""
    alone = kind.build()
    x, y, ids = kind.batch()
    size = ROWS // WORLD
    own = slice(size * torch.distributed.get_rank(), size * (torch.distributed.get_rank() + 1))
    step(alone, x, y, ids)
    step(parallel, x[own], y[own], ids[own])
    found = {"gradients": largest(gradients(parallel), gradients(alone))}
    alone.eval()
    parallel.eval()
    outputs = []
    for view in ("keep", "flip", "full"):
        with torch.no_grad(), turnover.instances(ids[own], view=view):
            mine = logits_of(parallel(x[own]))
        with torch.no_grad(), turnover.instances(ids, view=view) as active:
            joint = logits_of(alone(x))
        rows = active.repeat(torch.arange(ROWS))  # replicas come one after the other
        chosen = torch.isin(rows, torch.arange(ROWS)[own])
        outputs.append(difference(mine, joint[chosen]))
    found["masks"] = max(outputs)
    return alone, found


def kept_alike(kind: Kind, parallel: nn.Module, alone: nn.Module, shard: Callable[..., nn.Module], folder: Path) -> Any:
    """Yield the differences of what is saved, in all ways, and of what is asked afterwards."""
    expected = weights(alone.state_dict())
    sharded = not isinstance(parallel, nn.parallel.DistributedDataParallel)
    if sharded or torch.distributed.get_rank() == 0:  # whole models are saved by one process
        turnover.save(parallel, folder / "saved")
    torch.distributed.barrier()
    loaded = turnover.load(folder / "saved", model=kind.base())
    yield "saved", largest(weights(loaded.state_dict()), expected)

    state: Any = get_model_state_dict(parallel, options=FULL)
    fresh = kind.build()
    fresh.load_state_dict({_plain(name): value for name, value in state.items()})
    yield "state dict", largest(weights(fresh.state_dict()), expected)

    save_checkpoint({"model": get_model_state_dict(parallel)}, checkpoint_id=folder / "checkpoint")
    again = shard(kind.build(), kind)
    state = {"model": get_model_state_dict(again)}
    load_checkpoint(state, checkpoint_id=folder / "checkpoint")
    set_model_state_dict(again, state["model"])
    back: Any = get_model_state_dict(again, options=FULL)
    yield "checkpoint", largest(weights(back), expected)

    x, y, ids = kind.batch()
    reports = [turnover.audit(model, (x, y, ids)) for model in (parallel, alone)]
    assert [leak.name for leak in reports[0].leaks] == [leak.name for leak in reports[1].leaks]
    yield "audit", abs(reports[0].gradient_share - reports[1].gradient_share)

    data = turnover.with_instance_ids(TensorDataset(x, y))
    scores = []
    for estimator in ("tod", "curvature"):
        engines = [turnover.Influence(model, train=data, estimator=estimator) for model in (parallel, alone)]
        one, other = (engine.pairwise((x[:3], y[:3])).values for engine in engines)
        scores.append(difference(one, other))
    one, other = (turnover.Influence(model).self_influence(data).values for model in (parallel, alone))
    yield "scores", max(*scores, difference(one, other))


def models(folder: Path) -> Iterator[tuple[str, Callable[[], Differences]]]:
    """Every kind of model under every strategy, saved and asked afterwards."""
    for strategy, shard in STRATEGIES.items():
        for name, kind in KINDS.items():
            place = folder / f"{strategy} {name}"
            yield f"{strategy}, {name}", lambda kind=kind, shard=shard, place=place: _model(kind, shard, place)


def _model(kind: Kind, shard: Callable[..., nn.Module], folder: Path) -> Differences:
    parallel = shard(kind.build(), kind)
    alone, found = trained_alike(kind, parallel)
    return {**found, **dict(kept_alike(kind, parallel, alone, shard, folder))}


GROUPS = {"models": models}


def main(folder: Path, group: str) -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    results: dict[str, Any] = {}
    for name, run in GROUPS[group](folder):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results[name] = run()
        except Exception:  # noqa: BLE001 - the table shows it
            results[name] = traceback.format_exc()
        torch.distributed.barrier()
    (folder / f"{group}.{rank}.json").write_text(json.dumps(results))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
