"""Replicas of adapters: each has its own adapters and output layers, all share the frozen model's weights.

Residual connections lead around every adapter, so that rows of one replica and rows of none must never meet: the rows
grow before the model, and all of it runs once for each replica. In a transformer whose first block has adapters hardly
anything would be saved by growing later.
"""

from collections.abc import Iterator
from dataclasses import replace

from torch import nn

from turnover.layers import AdapterRecipe, Expansion, Masking, Replicated, SiteRecipe, attach_replicas
from turnover.wrapping.exchange import exchange
from turnover.wrapping.replicas.fresh import drawn_anew
from turnover.wrapping.replicas.replicate import ReplicaPlan

from .find import output_layers
from .module import NAME, Adapter, mask_input, take_input


def plan_adapter_replicas(
    model: nn.Module, recipe: AdapterRecipe, sites: tuple[SiteRecipe, ...], replicas: int, split: str | None
) -> ReplicaPlan:
    """Return what `replicas` asks for in a model with adapters in place; problems are collected, none is raised."""
    layers = output_layers(model, recipe.head)
    parts = [f"{path}.{NAME}.{part}" for path in recipe.after for part in ("down", "up")]
    replicated = (*parts, *layers.paths)
    marked = tuple(replace(site, replicated=True) for site in sites)
    problems = list(_problems(model, recipe, marked, replicated, split))
    note = (
        f"{replicas} replicas of the adapters{' and of ' if layers.paths else ''}{', '.join(layers.paths)}; the frozen "
        f"model's weights are shared, and it runs once for each replica"
    )
    return ReplicaPlan(None, replicated, marked, tuple(problems), (), (note,))


def put_adapter_replicas(root: nn.Module, masking: Masking) -> None:
    """Give every replica its own adapters and output layers, in a model with adapters, which is changed."""
    recipe = masking.recipe
    assert recipe.adapters is not None
    for expansion in masking.expansions:
        expansion.expands = False
    for path in recipe.adapters.after:
        adapter = root.get_submodule(f"{path}.{NAME}")
        assert isinstance(adapter, Adapter)
        every = [adapter, *(adapter.drawn_anew() for _ in range(recipe.replicas - 1))]
        for part in ("down", "up"):
            copies = [one.get_submodule(part) for one in every]
            exchange(root, copies[0], _replicated(copies, f"{path}.{NAME}.{part}", recipe.replicas))
    for path in output_layers(root, recipe.adapters.head).paths:
        layer = root.get_submodule(path)
        masked = take_input(layer)
        copies = [layer, *(drawn_anew(layer) for _ in range(recipe.replicas - 1))]
        stacked = _replicated(copies, path, recipe.replicas)
        exchange(root, layer, stacked)
        if masked:
            mask_input(stacked)
    attach_replicas(root, recipe.replicas, expand_inputs=True)


def _replicated(copies: list[nn.Module], path: str, replicas: int) -> Replicated:
    return Replicated(copies, Expansion(replicas, path, expands=False))


def _problems(
    model: nn.Module,
    recipe: AdapterRecipe,
    sites: tuple[SiteRecipe, ...],
    replicated: tuple[str, ...],
    split: str | None,
) -> Iterator[str]:
    if split is not None:
        yield f"split={split!r}: with adapters, replicas begin at the model's input. Leave split out."
    if recipe.norms:
        yield "Adapters(norms=True): all replicas would train the same normalization layers. Leave norms out."
    inside = tuple(f"{path}." for path in replicated)
    other = [
        name for name, parameter in model.named_parameters() if parameter.requires_grad and not name.startswith(inside)
    ]
    if other and not recipe.norms:
        yield (
            f"{', '.join(map(repr, other[:4]))} learns beside the adapters and is no linear layer, so all replicas "
            "would train it. Name linear layers only: Adapters(head=['path', ...])."
        )
    for site in sites:
        if site.batch_told and site.batch_dim != 0:
            yield (
                f"site {site.path!r} has its batch in dimension {site.batch_dim}; replicas need it in dimension 0. "
                "Build the module with batch_first=True."
            )
