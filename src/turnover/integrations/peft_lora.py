"""LoRA layers of PEFT: where masks go in them.

A LoRA layer adds `B(A(dropout(x)))` to the output of a frozen one. A mask on the rank dimension, between A and B,
leaves every row of A and every column of B to the instances that keep it, and neither has a bias: nothing leaks. A mask
in the place of `lora_dropout`, on the input of A, would leak: all of B learns every instance.
"""

import warnings
from collections.abc import Iterator
from typing import Any

from torch import nn

from turnover.errors import MissingExtraError, PlanError, TurnOverWarning

_MIN_RANK = 2
_SHOWN = 4


def lora_sites(model: nn.Module, *, adapter: str | None = None) -> list[str]:
    """Return the paths of the rank dimensions of all LoRA layers of a PEFT model, for `turnover.wrap(model, at=...)`.

    The output layer that PEFT trains beside them (`modules_to_save`) needs a site at its input too: docs/adapters.md.

    Args:
        model: with LoRA layers, as `peft.get_peft_model` returns it.
        adapter: name of the PEFT adapter; None: those that are active.

    Example:
        >>> import peft, torch, turnover
        >>> from turnover.integrations import lora_sites
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> net = peft.get_peft_model(net, peft.LoraConfig(r=4, target_modules=["0"]))
        >>> lora_sites(net)
        ['base_model.model.0.lora_A.default']
        >>> net = turnover.wrap(net, at=lora_sites(net))
    """
    try:
        from peft.tuners.lora import LoraLayer
    except ImportError as error:
        raise MissingExtraError("LoRA layers need PEFT. Install the extra: pip install 'turnover[text]'.") from error
    layers: dict[str, Any] = {path: module for path, module in model.named_modules() if isinstance(module, LoraLayer)}
    if not layers:
        raise PlanError(
            [
                f"this {type(model).__name__} has no LoRA layers. Add them first: "
                "peft.get_peft_model(model, peft.LoraConfig(r=8)); or use adapters: turnover.wrap(model, adapters=64)."
            ]
        )
    sites: list[str] = []
    narrow: list[str] = []
    biased: list[str] = []
    problems = [problem for path, layer in layers.items() for problem in _problems_of(path, layer)]
    for path, layer in layers.items():
        for name in layer.active_adapters if adapter is None else [adapter]:
            if not isinstance(layer.lora_A, nn.ModuleDict) or name not in layer.lora_A:
                continue
            sites.append(f"{path}.lora_A.{name}")
            if int(layer.r[name]) < _MIN_RANK:
                narrow.append(sites[-1])
            if getattr(layer.lora_B[name], "bias", None) is not None:
                biased.append(path)
    if narrow:
        problems.append(
            f"LoRA of rank 1 ({_listed(narrow)}): of one unit a mask keeps all or nothing. Use a larger rank: "
            "peft.LoraConfig(r=8)."
        )
    if not sites and not problems:
        known = sorted({name for layer in layers.values() for name in layer.lora_A})
        problems.append(
            f"`adapter` must be one of {_listed(known)}, got {adapter!r}; or set one active: model.set_adapter(name)."
        )
    if problems:
        raise PlanError(problems)
    if biased:
        warnings.warn(
            f"{_listed(biased)}: a bias behind B, which no mask covers, leaks every instance. Leave lora_bias out.",
            TurnOverWarning,
            stacklevel=2,
        )
    return sites


def _problems_of(path: str, layer: Any) -> Iterator[str]:
    if layer.merged:
        yield f"{path!r} has its LoRA weights merged, so they never run. Call model.unmerge_adapter() first."
    if len(layer.lora_magnitude_vector):
        yield (
            f"{path!r} uses DoRA, whose magnitudes see every instance and whose norm runs A on an identity matrix. Use "
            "plain LoRA: LoraConfig(use_dora=False)."
        )
    if len(layer.lora_embedding_A):
        yield (
            f"{path!r} has LoRA on an embedding, where no module makes the rank dimension. Leave embeddings out of "
            "LoraConfig(target_modules=...)."
        )
    elif not isinstance(layer.lora_A, nn.ModuleDict) or type(layer).__name__ in ("MultiheadAttention", "ParamWrapper"):
        yield (
            f"{path!r} ({type(layer).__name__}) never calls its LoRA weights as modules, so no mask can act there. "
            "Target linear layers: LoraConfig(target_modules=...)."
        )


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN]) or "none"
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
