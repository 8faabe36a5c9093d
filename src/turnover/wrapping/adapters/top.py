"""Scoring with the masks of the top blocks only: everything below them runs once a query, not once an instance."""

from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from turnover.errors import PlanError
from turnover.layers import Learned, masking_of
from turnover.wrapping.build import build, sharing, without_masks, wrapped_root

from .checks import some
from .find import find_blocks
from .module import bottleneck_of


def top_sites(model: nn.Module, layers: int) -> list[str]:
    """Return the sites of a model with adapters in its top blocks, and those behind the blocks.

    Args:
        model: from `turnover.wrap(model, adapters=...)`.
        layers: how many of the blocks that have adapters; 0: none, the output layer alone.

    Example:
        >>> import torch, turnover
        >>> layer = torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
        >>> net = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 3), torch.nn.Flatten(), torch.nn.Linear(96, 2))
        >>> top_sites(turnover.wrap(net, adapters=8), 0)
        ['2.masked_input']
    """
    root = wrapped_root(model)
    sites = [site.path for site in masking_of(root).recipe.sites]
    blocks = [[bottleneck_of(end) for end in block.ends] for block in find_blocks(root)]
    masked = [own for own in blocks if any(site in sites for site in own)]
    if not masked:
        raise PlanError([f"no block of this model has a masked adapter. Name the sites yourself: {some(sites)}."])
    if isinstance(layers, bool) or not isinstance(layers, int) or not 0 <= layers <= len(masked):
        raise PlanError([f"layers={layers!r}: {len(masked)} blocks have masks. Give a number from 0 to {len(masked)}."])
    below = {site for own in masked[: len(masked) - layers] for site in own}
    return [site for site in sites if site not in below]


def only_at(model: nn.Module, sites: Sequence[str]) -> nn.Module:
    """Return a model that shares all weights with a wrapped one and has its masks at some of its sites only.

    For scoring: what lies below the first of these sites is the full network's and runs once a query. The masks that
    stay are those that were trained.

    Args:
        model: a trained, wrapped model, without replicas.
        sites: paths of some of its sites, as `top_sites` gives them.

    Example:
        >>> import torch, turnover
        >>> layers = [torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8), torch.nn.ReLU()]
        >>> net = torch.nn.Sequential(*layers, torch.nn.Linear(8, 2, bias=False))
        >>> top = only_at(turnover.wrap(net, at=["1", "3"]), ["3"])
        >>> with turnover.instances([0, 1]):
        ...     top(torch.zeros(2, 8)).shape
        torch.Size([2, 2])
    """
    root = wrapped_root(model)
    masking = masking_of(root)
    recipe, learned = masking.recipe, masking.learned
    paths = [site.path for site in recipe.sites]
    problems = [f"{path!r} is no site of this model. Its sites: {some(paths)}." for path in sites if path not in paths]
    if not sites:
        problems.append(f"no site is given. Name one of {some(paths)}.")
    if recipe.replicas > 1:
        problems.append("the model has replicas. Scoring at fewer sites needs a model without: replicas=1.")
    if recipe.mode != "forward":
        problems.append(f"mode={recipe.mode!r} masks what learns; fewer sites go with mode='forward'.")
    if problems:
        raise PlanError(problems)
    numbers = [number for number, path in enumerate(paths) if path in sites]
    chosen = replace(recipe, sites=tuple(recipe.sites[number] for number in numbers), adapters=None)
    found = build(without_masks(sharing(root)), chosen)
    widths, batch_dims = ([values[number] for number in numbers] for values in (learned.widths, learned.batch_dims))
    masking_of(found).adopt_learned(Learned(learned.passes, widths, batch_dims))
    return found
