"""A plan with an example: what a real forward pass and real gradients show."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from turnover.batches import logits_of
from turnover.errors import PlanError, SiteNotReachedError, TurnOverError
from turnover.layers import instances, masking_of
from turnover.wrapping.audit import measure_leaks
from turnover.wrapping.build import build, copy_of

from .result import Plan, SitePlan

_ROWS = 4


def with_example(made: Plan, model: nn.Module, example: Any) -> Plan:
    """Return the plan with widths, batch dimensions, sites that run and leaks measured on a wrapped copy."""
    args, kwargs = _call(example)
    root = build(copy_of(model), made.recipe).train()
    rows = _rows(args, kwargs)
    problems = list(made.problems)
    reached: set[str] = set()
    hooks = [
        root.get_submodule(site.path).register_forward_hook(lambda *_, path=site.path: reached.add(path))
        for site in made.sites
    ]
    ids = torch.arange(rows)
    try:
        with torch.no_grad(), instances(ids):
            root(*args, **kwargs)
    except SiteNotReachedError:
        missed = [site.path for site in made.sites if site.path not in reached]
        problems.append(
            f"never called on this example: {', '.join(map(repr, missed))}. Leave them out of `at`, "
            "or name the modules to mask."
        )
    except TurnOverError as error:
        problems.append(str(error))
    except Exception as error:
        raise PlanError(
            [f"the model fails on the example ({type(error).__name__}: {error}). Give what the model takes."]
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    learned = masking_of(root).learned
    sites = tuple(
        replace(
            site,
            width=learned.widths[index] or site.width,
            batch_dim=site.batch_dim if (dim := learned.batch_dims[index]) is None else dim,
            runs=site.path in reached,
        )
        for index, site in enumerate(made.sites)
    )
    narrow = [warning for warning in narrow_sites(sites) if warning not in made.warnings]
    measured = replace(
        made,
        sites=sites,
        problems=tuple(problems),
        warnings=(*made.warnings, *narrow),
    )
    return measured if problems else _with_leaks(measured, root, ids, args, kwargs)


def _with_leaks(made: Plan, root: nn.Module, ids: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = measure_leaks(
                root,
                ids=ids,
                forward=lambda: logits_of(root(*args, **kwargs)),
                row_loss=lambda outputs, row: outputs[row : row + 1].square().sum(),
                rows=_ROWS,
            )
    except TurnOverError:  # outputs that are not rows of numbers: the expected leaks stand
        return made
    return replace(made, leaks=report.leaks, leaks_measured=True)


def _call(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, Mapping):
        return (), dict(example)
    if isinstance(example, tuple | list):
        return tuple(example), {}
    return (example,), {}


def _rows(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Return the number of rows of the example: that of its first tensor."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and value.dim() > 0:
            if not len(value):
                raise PlanError(["the example has no rows. Give a few: example=x[:4]."])
            return len(value)
    raise PlanError(
        ["the example holds no tensor with rows. Give what the model takes: example=x, (x1, x2) or {name: x}."]
    )


def narrow_sites(sites: Sequence[SitePlan]) -> list[str]:
    """Return a warning for every site that has too few units for a part of them to be a network."""
    return [
        f"site {site.path!r} has one unit, of which a mask keeps all or nothing: a share of {1 - site.keep:.0%} of the "
        "instances trains nothing that passes through it. Mask a wider module."
        for site in sites
        if site.width == 1
    ]
