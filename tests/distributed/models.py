"""Small models of every kind, and the ways in which two processes train them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

import turnover
from tests.integrations.tiny_text import WORDS, bert
from turnover.integrations import lora_sites

WORLD, ROWS = 2, 8
IDS = [7, 2**61 + 5, 30, 31, 7, 9, 10, 11]  # one of them twice, as a sampler that fills up the last batch gives it


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 32), nn.ReLU(inplace=True), nn.Linear(32, 3, bias=False)]
    return nn.Sequential(*layers).double()


def text() -> nn.Module:
    return bert(labels=3).double()


def lora() -> nn.Module:
    import peft

    model = text()
    torch.manual_seed(1)
    model = peft.get_peft_model(
        model, peft.LoraConfig(r=8, target_modules=["query", "value"], modules_to_save=["classifier"])
    )
    for name, parameter in model.named_parameters():
        if "lora_B" in name:  # away from zero, as training would leave it
            nn.init.normal_(parameter, std=0.3)
    return model.double()


def table() -> Tensor:
    return torch.randn(ROWS, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def tokens() -> Tensor:
    return torch.randint(5, WORDS, (ROWS, 6), generator=torch.Generator().manual_seed(1))


def blocks(model: nn.Module) -> list[nn.Module]:
    """The layers of a BERT, with adapters or LoRA or without, one by one."""
    return [module for module in model.modules() if type(module).__name__ == "BertLayer"]


@dataclass(frozen=True)
class Kind:
    base: Callable[[], nn.Module]
    wrap: Callable[[nn.Module], nn.Module]
    inputs: Callable[[], Tensor] = table
    layers: Callable[[nn.Module], list[nn.Module]] = lambda model: [
        module for module in model.modules() if any(True for _ in module.parameters(recurse=False))
    ]

    def build(self) -> nn.Module:
        model = self.base()
        torch.manual_seed(2)
        return self.wrap(model).train()

    def batch(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.inputs(), torch.arange(ROWS) % 3, torch.tensor(IDS)


def _lora_masks(model: nn.Module) -> nn.Module:
    return turnover.wrap(model, at=[*lora_sites(model), "base_model.model.dropout"])


KINDS: dict[str, Kind] = {
    "plain": Kind(network, lambda model: turnover.wrap(model, at=["1", "3"])),
    "replicas": Kind(network, lambda model: turnover.wrap(model, at=["1", "3"], replicas=3)),
    "backward": Kind(network, lambda model: turnover.wrap(model, at=["0", "2", "4"], mode="backward")),
    "mixout": Kind(network, lambda model: turnover.wrap(model, at=["0", "2", "4"], mode="mixout")),
    "adapters": Kind(text, lambda model: turnover.wrap(model, adapters=8), tokens, blocks),
    "adapters, replicas": Kind(text, lambda model: turnover.wrap(model, adapters=8, replicas=2), tokens, blocks),
    "LoRA": Kind(lora, _lora_masks, tokens, blocks),
}


def _ddp(model: nn.Module, kind: Kind) -> nn.Module:
    return DistributedDataParallel(model)


def _whole(model: nn.Module, kind: Kind) -> nn.Module:
    return fully_shard(model, mesh=init_device_mesh("cpu", (WORLD,)))


def _per_layer(model: nn.Module, kind: Kind) -> nn.Module:
    mesh = init_device_mesh("cpu", (WORLD,))
    for layer in kind.layers(model):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _mesh_of_two_dimensions(model: nn.Module, kind: Kind) -> nn.Module:
    return fully_shard(model, mesh=init_device_mesh("cpu", (WORLD, 1), mesh_dim_names=("replicate", "shard")))


def _fsdp1(model: nn.Module, kind: Kind) -> nn.Module:
    layers = set(kind.layers(model))
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=lambda module, recurse, **_: recurse or module in layers,
        use_orig_params=True,
        device_id=torch.device("cpu"),
    )


STRATEGIES: dict[str, Callable[[nn.Module, Kind], nn.Module]] = {
    "DDP": _ddp,
    "FSDP2 whole": _whole,
    "FSDP2 per layer": _per_layer,
    "FSDP1": _fsdp1,
}
HYBRID = _mesh_of_two_dimensions
