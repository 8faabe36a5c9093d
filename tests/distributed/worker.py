"""One of two processes under torchrun: measures the cells that were asked for, each beside a model of one process.

Usage: worker.py FOLDER [GROUP ...]; writes FOLDER/<rank>.json: of each group and cell the largest differences, the
seconds, and the error if there was one.
"""

import json
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.distributed.checkpoint import load as load_checkpoint
from torch.distributed.checkpoint import save as save_checkpoint
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel, fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import turnover
from tests.distributed.models import HYBRID, KINDS, ROWS, STRATEGIES, WORLD, Kind
from turnover.batches import logits_of
from turnover.errors import ModelError, PlanError, SavedModelError
from turnover.layers import active_instances, exchange_values, whole_tensor

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
    assert tensors.keys() == expected.keys(), tensors.keys() ^ expected.keys()
    return max(difference(tensors[name], expected[name]) for name in expected)


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {
        _plain(name): whole_tensor(parameter.grad)
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


def weights(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {_plain(name): value for name, value in state.items() if not name.endswith("turnover_recipe")}


def _plain(name: str) -> str:
    for part in ("_orig_mod.", "module.", "_orig_mod.", "_fsdp_wrapped_module."):
        name = name.removeprefix(part)
    return name


def trained_alike(kind: Kind, parallel: nn.Module) -> tuple[nn.Module, Differences]:
    """Train a model of one process on the joint batch, the other on this process's part; return the first and more."""
    alone = kind.build()
    x, y, ids = kind.batch()
    size = ROWS // WORLD
    own = slice(size * torch.distributed.get_rank(), size * (torch.distributed.get_rank() + 1))
    step(alone, x, y, ids)
    step(parallel, x[own], y[own], ids[own])
    found: Differences = {}
    if not isinstance(parallel, FullyShardedDataParallel):  # its gradients are flat; the weights are compared later
        found["gradients"] = largest(gradients(parallel), gradients(alone))
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
    found["outputs"] = max(outputs)
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
        assert abs(other).max() > 0
        scores.append(difference(one, other))
    one, other = (turnover.Influence(model).self_influence(data).values for model in (parallel, alone))
    yield "scores", max(*scores, difference(one, other))


def models(folder: Path) -> Iterator[tuple[str, Callable[[], Differences]]]:
    """Every kind of model under every strategy, saved and asked afterwards."""
    for strategy, shard in STRATEGIES.items():
        for name, kind in KINDS.items():
            place = folder / f"{strategy} {name}"
            yield f"{strategy}, {name}", lambda kind=kind, shard=shard, place=place: _model(kind, shard, place)
    yield "FSDP2 on a mesh of two dimensions, plain", lambda: _model(KINDS["plain"], HYBRID, folder / "hybrid")


def _model(kind: Kind, shard: Callable[..., nn.Module], folder: Path) -> Differences:
    parallel = shard(kind.build(), kind)
    alone, found = trained_alike(kind, parallel)
    return {**found, **dict(kept_alike(kind, parallel, alone, shard, folder))}


def compiled(folder: Path) -> Iterator[tuple[str, Callable[[], Differences]]]:
    backend = "aot_eager"  # what is traced and differentiated; inductor would only make it faster, after a minute
    cells = [("DDP", "plain"), ("FSDP2 whole", "plain"), ("FSDP2 per layer", "replicas"), ("FSDP2 per layer", "LoRA")]
    for strategy, name in cells:
        kind, shard = KINDS[name], STRATEGIES[strategy]
        yield (
            f"{strategy}, then compiled, {name}",
            lambda kind=kind, shard=shard: trained_alike(
                kind, torch.compile(shard(kind.build(), kind), backend=backend)
            )[1],
        )
    kind = KINDS["replicas"]
    yield (
        "compiled, then DDP, replicas",
        lambda: trained_alike(kind, STRATEGIES["DDP"](torch.compile(kind.build(), backend=backend), kind))[1],
    )


def trainers(folder: Path) -> Iterator[tuple[str, Callable[[], Differences]]]:
    """The trainers: which rows they train under which ids, and the weights after some steps."""
    yield "DistributedSampler and DDP", lambda: _loop(_sampled)
    yield "accelerate", lambda: _loop(_accelerated)
    yield "Hugging Face Trainer, adapters", lambda: _hugging_face(folder / "ddp", "adapters")
    yield "Lightning, ddp", lambda: _lightning(folder, "ddp")
    yield "Lightning, ModelParallelStrategy (FSDP2)", lambda: _lightning(folder, "fsdp2")
    # Last: they leave settings behind in the environment of the process.
    yield "accelerate, FSDP2", lambda: _loop(_accelerated_shards)
    yield "Hugging Face Trainer, FSDP2, LoRA", lambda: _hugging_face(folder / "fsdp2", "LoRA", **_FSDP2)


UNEVEN = 11  # two processes with batches of three: a row is trained twice


def data() -> TensorDataset:
    x = torch.randn(UNEVEN, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return TensorDataset(x, torch.arange(UNEVEN) % 3)


def _sampled(model: nn.Module, rows: Any) -> tuple[nn.Module, Any, Any]:
    loader = DataLoader(rows, batch_size=3, sampler=DistributedSampler(rows, shuffle=True, seed=3))
    return DistributedDataParallel(model), loader, Tensor.backward


def _accelerated(model: nn.Module, rows: Any) -> tuple[nn.Module, Any, Any]:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model, loader = accelerator.prepare(model, DataLoader(rows, batch_size=3, shuffle=True))
    return model, loader, accelerator.backward


def _accelerated_shards(model: nn.Module, rows: Any) -> tuple[nn.Module, Any, Any]:
    from accelerate import Accelerator
    from accelerate.utils import FullyShardedDataParallelPlugin

    with _sharding_on_the_cpu():
        plugin = FullyShardedDataParallelPlugin(fsdp_version=2, cpu_ram_efficient_loading=False)
        accelerator = Accelerator(cpu=True, fsdp_plugin=plugin)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, _, loader = accelerator.prepare(model, optimizer, DataLoader(rows, batch_size=3, shuffle=True))
    assert isinstance(model, FSDPModule)
    return model, loader, accelerator.backward


@contextmanager
def _sharding_on_the_cpu() -> Iterator[None]:
    """Let accelerate take processes on the CPU for such that shard, which it keeps for accelerators."""
    from accelerate.state import AcceleratorState, DistributedType

    def begin(self: Any, *args: Any, **options: Any) -> None:
        given(self, *args, **options)
        if options.get("fsdp_plugin") is not None:
            self.fsdp_plugin, self.distributed_type = options["fsdp_plugin"], DistributedType.FSDP

    AcceleratorState._reset_state()
    given, AcceleratorState.__init__ = AcceleratorState.__init__, begin
    try:
        yield
    finally:
        AcceleratorState.__init__ = given


def _loop(prepare: Callable[[nn.Module, Any], Any]) -> Differences:
    torch.manual_seed(9)
    kind = KINDS["replicas"]
    model, loader, backward = prepare(kind.build(), turnover.with_instance_ids(data()))
    seen = []
    for x, y, ids in loader:
        assert difference(x, data().tensors[0][ids]) == 0
        assert difference(y, data().tensors[1][ids]) == 0
        seen.append(ids)
        _descend(model, x, y, ids, backward)
    return _as_alone(kind, model, seen, data().tensors)


def _descend(model: nn.Module, x: Tensor, y: Tensor, ids: Tensor, backward: Callable[[Tensor], Any]) -> None:
    model.zero_grad()
    with turnover.instances(ids) as active:
        outputs = logits_of(model(x))
        backward(functional.cross_entropy(outputs, active.repeat(y)))
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    torch.optim.SGD(learning, lr=0.1).step()


def _as_alone(kind: Kind, model: nn.Module, seen: list[Tensor], rows: Any, **names: Any) -> Differences:
    """Return how far the weights are from those of one process that trains the joint batches."""
    batches = [torch.cat(parts) for parts in zip(*exchange_values(seen, [torch.distributed.group.WORLD]), strict=True)]
    trained = torch.cat(batches)
    assert sorted(trained.unique().tolist()) == list(range(UNEVEN)), trained
    assert len(trained) == UNEVEN + 1, trained  # one row fills the last batch up, under its own id
    alone = kind.build()
    for ids in batches:
        _descend(alone, *(values[ids] for values in rows), ids, Tensor.backward)
    found: Any = get_model_state_dict(model, options=FULL)
    return {"weights": largest(weights(found), weights(alone.state_dict()))}


_FSDP2 = {
    "fsdp": True,
    "fsdp_config": {
        "version": 2,
        "transformer_layer_cls_to_wrap": ["BertLayer"],
        "state_dict_type": "SHARDED_STATE_DICT",
    },
    "save_strategy": "steps",
    "save_steps": 1,
}


def _hugging_face(folder: Path, name: str, **settings: Any) -> Differences:
    import datasets

    from tests.integrations.tiny_text import WORDS, arguments
    from turnover.integrations import HFLearningCurves, TurnOverTrainer

    seen: list[Tensor] = []

    class Watching(TurnOverTrainer):
        def compute_loss(self, *args: Any, **options: Any) -> Any:
            seen.append(active_instances().ids.clone())
            return super().compute_loss(*args, **options)

    kind = KINDS[name]
    x = torch.randint(5, WORDS, (UNEVEN, 6), generator=torch.Generator().manual_seed(1))
    y = torch.arange(UNEVEN) % 3
    rows = datasets.Dataset.from_dict({"input_ids": x.tolist(), "label": y.tolist()})
    # The loss of BERT is a mean of its batch; without this setting the Trainer would multiply it by the processes.
    options = {"num_train_epochs": 1, "per_device_train_batch_size": 3, "average_tokens_across_devices": False}
    args = arguments(folder, optim="sgd", weight_decay=0, learning_rate=0.1, **options, **settings)
    with _sharding_on_the_cpu() if settings else nullcontext():
        trainer = Watching(kind.build(), args, train_dataset=turnover.with_instance_ids(rows))
    curves = HFLearningCurves(trainer, rows=4, every=1)
    trainer.add_callback(curves)
    trainer.train()
    assert len(curves.history) == (3 if torch.distributed.get_rank() == 0 else 0)
    assert isinstance(trainer.model, FSDPModule) == ("fsdp" in settings)
    found = _as_alone(kind, trainer.model, seen, (x, y))
    if settings:
        with _sharding_on_the_cpu():
            resumed = TurnOverTrainer(kind.build(), args, train_dataset=turnover.with_instance_ids(rows))
        resumed.train(resume_from_checkpoint=str(folder / "checkpoint-1"))
        states: Any = [get_model_state_dict(one.model, options=FULL) for one in (trainer, resumed)]
        found["checkpoint"] = largest(*map(weights, states))
    return found


def _lightning(folder: Path, strategy: str) -> Differences:
    import lightning
    from lightning.pytorch.strategies import ModelParallelStrategy

    from turnover.integrations import LightningLearningCurves, TurnOverModule, repeat

    kind = KINDS["replicas"]
    seen: list[Tensor] = []

    class Module(TurnOverModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = kind.build()

        def configure_model(self) -> None:
            if strategy == "fsdp2" and not isinstance(self.net, FSDPModule):
                for layer in kind.layers(self.net):
                    fully_shard(layer, mesh=self.device_mesh["data_parallel"])
                fully_shard(self.net, mesh=self.device_mesh["data_parallel"])

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            x, y = batch
            seen.append(active_instances().ids.clone())
            outputs = self.net(x)
            return functional.cross_entropy(outputs, repeat(y))

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    chosen = "ddp" if strategy == "ddp" else ModelParallelStrategy(data_parallel_size=WORLD, tensor_parallel_size=1)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    curves = LightningLearningCurves((*data().tensors, torch.arange(UNEVEN)), every=1, model="net")
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=WORLD,
        strategy=chosen,
        max_epochs=1,
        default_root_dir=folder,
        callbacks=[curves],
        **quiet,
    )
    module = Module()
    trainer.fit(module, DataLoader(turnover.with_instance_ids(data()), batch_size=3, shuffle=True))
    assert [point["step"] for point in curves.history] == [0, 1, 2]
    return _as_alone(kind, module.net, seen, data().tensors)


def rejected(folder: Path) -> Iterator[tuple[str, Callable[[], Differences]]]:
    """What every process must reject, before anything is trained or written."""
    kind = KINDS["plain"]

    def seeds_differ(distribute: Callable[[nn.Module], nn.Module]) -> Differences:
        torch.manual_seed(0)
        model = distribute(turnover.wrap(kind.base(), at=["1", "3"], seed=torch.distributed.get_rank()))
        x, y, ids = kind.batch()
        _expect(ModelError, "process 1: counter masks, seed 1", lambda: step(model, x, y, ids))
        assert all(parameter.grad is None for parameter in model.parameters())
        return {}

    for name, shard in STRATEGIES.items():
        yield f"other seeds, {name}", lambda shard=shard: seeds_differ(lambda model: shard(model, kind))
    for name in ("DDP", "FSDP2 whole"):
        yield (
            f"other seeds, {name}, compiled",
            lambda shard=STRATEGIES[name]: seeds_differ(
                lambda model: torch.compile(shard(model, kind), backend="aot_eager")
            ),
        )

    def seeds_of_their_own() -> Differences:
        model = turnover.wrap(kind.base(), at=["1", "3"], seed=torch.distributed.get_rank())
        step(model.train(), *kind.batch())
        return {}

    yield "other seeds of separate models (trains)", seeds_of_their_own

    sharded = STRATEGIES["FSDP2 per layer"]

    def wrapped_last() -> Differences:
        _expect(PlanError, "Wrap it first", lambda: turnover.wrap(sharded(kind.base(), kind), at=["1"]))
        return {}

    yield "wrap of a sharded model", wrapped_last

    def part() -> Differences:
        inside = kind.build()
        FullyShardedDataParallel(inside, use_orig_params=True, device_id=torch.device("cpu"))
        _expect(ModelError, "part of a sharded model", lambda: turnover.save(inside, folder / "part"))
        assert not (folder / "part").exists()
        return {}

    yield "save of what FSDP1 is around", part

    def no_folder() -> Differences:
        (folder / "file").touch()
        torch.distributed.barrier()
        model = sharded(kind.build(), kind)
        _expect(SavedModelError, "cannot write to", lambda: turnover.save(model, folder / "file"))
        return {}

    yield "save that cannot write", no_folder

    def other_checkpoint() -> Differences:
        model = sharded(kind.build(), kind)
        save_checkpoint({"model": get_model_state_dict(model)}, checkpoint_id=folder / "seed 0")
        other = sharded(turnover.wrap(kind.base(), at=["1", "3"], seed=5), kind)
        state: Any = {"model": get_model_state_dict(other)}
        load_checkpoint(state, checkpoint_id=folder / "seed 0")
        _expect(ModelError, "seed 0", lambda: set_model_state_dict(other, state["model"]))
        return {}

    yield "checkpoint of another seed", other_checkpoint


def _expect(kind: type[Exception], words: str, action: Callable[[], Any]) -> None:
    """Raise unless the action fails with these words, in every process."""
    try:
        action()
        message = "nothing was raised"
    except kind as error:
        message = str(error)
    for other in exchange_values(message, [torch.distributed.group.WORLD]):
        assert words in other, other


GROUPS = {"models": models, "compiled": compiled, "trainers": trainers, "rejected": rejected}


def main(folder: Path, groups: list[str]) -> None:
    torch.distributed.init_process_group("gloo")
    results: dict[str, dict[str, Any]] = {}
    for group in groups or GROUPS:
        results[group] = {}
        for name, run in GROUPS[group](folder):
            start, error, differences = time.perf_counter(), None, {}
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    # What follows in place would be left out of the backward pass.
                    warnings.filterwarnings("error", message=".*returned a view tensor")
                    differences = run()
            except Exception:  # noqa: BLE001 - the table shows it
                error = traceback.format_exc()
            torch.distributed.barrier()
            torch.compiler.reset()
            seconds = time.perf_counter() - start
            results[group][name] = {"differences": differences, "seconds": seconds, "error": error}
    (folder / f"{torch.distributed.get_rank()}.json").write_text(json.dumps(results))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
