"""The forward pass of a site: from an activation and the active instances to the masked activation.

Eager code runs `_apply_eager`. A compiled pass asks for the mask words by the custom operator `turnover::mask_words`,
which the compiler takes as it is: the bits come from the very code that eager mode runs, no ids are baked into the
graph and the graph does not break. It breaks only where a batch of one may grow, in eval mode: the compiler has to know
all shapes.
"""

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

from turnover.errors import (
    BatchSizeError,
    MissingInstancesError,
    RecomputationError,
    SiteOutputError,
    WidthMismatchError,
)
from turnover.masks import words_for

from .batch_dim import batch_dim_of, confirm_batch_dim, probed_shapes
from .growth import grown
from .instances import Instances, active_instances, in_backward, recomputation_message
from .masking import Masking, Site
from .scale import factors_by_shift
from .views import FULL

_IMAGE_DIMS = 4


def apply_mask(x: Tensor, site: Site, *, training: bool) -> Tensor:
    """Return `x` with the masks of the active instances on it.

    In eval mode a batch of one grows to the number of instances here.
    """
    # Unlike is_compiling, this is false in a thread that runs while another one compiles.
    if not torch.compiler.is_dynamo_compiling():
        return _apply_eager(x, site, training)
    maskable = x.is_floating_point() and x.dim() > 1 and site.growth_known
    grows_never = x.shape[site.batch_dim(x.dim())] != 1 and site.replicas == 1 if maskable else False
    if maskable and (training or grows_never):
        return _apply_traced(x, site, training)
    return _apply_untraced(x, site, training)


def _apply_eager(x: Tensor, site: Site, training: bool) -> Tensor:
    shapes = probed_shapes()
    if shapes is not None:
        shapes[site.index] = tuple(x.shape)
        return x
    now = active_instances()
    if now is None:
        if training:
            raise _missing(site)
        return x if site.replicas == 1 else _by_replica(x, site, training=training, ids=None).flatten(0, 1)
    mask_dim = _check(x, site, now)
    if site.replicas > 1:
        return _apply_replicated(x, site, now, mask_dim, training)
    batch_dim = batch_dim_of(site, x, now, training=training)
    _check_rows(x, site, now, batch_dim, training=training)
    if now.one_view == FULL:
        now.reach(site, training=training)
        return _grown(x, len(now), batch_dim)
    width = x.shape[mask_dim]
    factors = now.factors(site, x, width)
    now.reach(site, training=training)
    return x * _spread(factors, x.dim(), batch_dim, mask_dim)


def _apply_replicated(x: Tensor, site: Site, now: Instances, mask_dim: int, training: bool) -> Tensor:
    """Return the masked rows of all replicas; those of the trunk, and one row in eval mode, grow here."""
    x = _by_replica(x, site, training=training, ids=len(now))
    _check_rows(x[0], site, now, 0, training=training)
    now.reach(site, training=training)
    if now.one_view == FULL:
        return x.expand(-1, len(now), *[-1] * (x.dim() - 2)).flatten(0, 1)
    factors = now.factors(site, x, x.shape[mask_dim + 1])
    spread = _spread(factors, x.dim() - 1, 0, mask_dim).unflatten(0, (site.replicas, len(now)))
    return (x * spread).flatten(0, 1)


def _by_replica(x: Tensor, site: Site, *, training: bool, ids: int | None) -> Tensor:
    """Return rows as [replicas, rows, ...]."""
    replicas = site.replicas
    if site.masking.growths[site.index].grows_at(x, training=training, ids=ids):
        x = grown(x, replicas)
    return x.unflatten(0, (replicas, -1))


# Like torch.compiler.disable, but without importing the compiler, which would double the time of `import turnover`.
_apply_untraced = _disable_dynamo(_apply_eager)


def _apply_traced(x: Tensor, site: Site, training: bool) -> Tensor:
    batch_dim, mask_dim = site.batch_dim(x.dim()), mask_dim_of(x, site)
    if site.replicas > 1:
        x = _by_replica(x, site, training=training, ids=None).flatten(0, 1)
    words, views = mask_words(x.detach(), site.masking.handle, site.index, batch_dim, mask_dim, training)
    factors = factors_by_shift(words, x.shape[mask_dim], views, site.recipe.keep, x.dtype)
    return x * _spread(factors, x.dim(), batch_dim, mask_dim)


# A replayed CUDA graph would not ask for the instances again, hence the tag.
@torch.library.custom_op("turnover::mask_words", mutates_args=(), tags=[torch.Tag.cudagraph_unsafe])
def mask_words(
    x: Tensor, handle: int, index: int, batch_dim: int, mask_dim: int, training: bool
) -> tuple[Tensor, Tensor]:
    """Return the mask words and view codes of the instances that are active when the graph runs."""
    site = Site(Masking.living(handle), index)
    now = active_instances()
    rows, width = x.shape[batch_dim], x.shape[mask_dim]
    if now is None:
        if training:
            raise _missing(site)
        words = torch.zeros((rows, words_for(width)), dtype=torch.int32, device=x.device)
        return words, torch.full((rows,), FULL, dtype=torch.int32, device=x.device)
    _check(x, site, now)
    if site.replicas == 1:
        confirm_batch_dim(site, x, now, batch_dim, training=training)
    _check_rows(x.unflatten(0, (site.replicas, -1))[0], site, now, batch_dim, training=training)
    words = now.words(site, x.device, width)[:, : words_for(width)]
    now.reach(site, training=training)
    # Copies: the compiler may write into what an operator hands out.
    return words.clone(memory_format=torch.contiguous_format), now.views_on(x.device).repeat(site.replicas)


@mask_words.register_fake
def _(x: Tensor, handle: int, index: int, batch_dim: int, mask_dim: int, training: bool) -> tuple[Tensor, Tensor]:
    rows = x.shape[batch_dim]
    words = x.new_empty((rows, words_for(x.shape[mask_dim])), dtype=torch.int32)
    return words, x.new_empty((rows,), dtype=torch.int32)


def mask_dim_of(x: Tensor, site: Site) -> int:
    """Return which dimension of `x` has one mask unit each."""
    return 1 if site.recipe.dim == "channels" else x.dim() - 1


def _check(x: Tensor, site: Site, now: Instances) -> int:
    """Return the masked dimension after checking shape, dtype and width."""
    now.check_not_in_backward(site)
    mask_dim = mask_dim_of(x, site)
    if not x.is_floating_point() or x.dim() <= max(mask_dim, 1):
        raise SiteOutputError(
            f"site {site} got a {x.dtype} tensor of shape {list(x.shape)}; masks on "
            f"{site.recipe.dim} need a floating-point tensor with at least 2 dimensions, the batch "
            "and the units. Choose another module for `at`."
        )
    if x.dim() >= _IMAGE_DIMS and not site.recipe.told:
        raise SiteOutputError(
            f"site {site} has output of shape {list(x.shape)}: are its units channels (dimension 1) "
            "or features (the last)? A module without parameters cannot tell. Say so: "
            f"at={{{site.recipe.path!r}: 'channels'}}."
        )
    _check_width(x.shape[mask_dim], site, now)
    return mask_dim


def _check_width(width: int, site: Site, now: Instances) -> None:
    widths = site.masking.learned.widths
    known = widths[site.index]
    if known is None:
        widths[site.index] = width
    elif known != width and now.first_visit(site):
        raise WidthMismatchError(
            f"site {site} has {width} units now and had {known} before: masks on {site.recipe.dim} "
            "need a dimension of fixed width. If this dimension is time or space, choose the other "
            "one (at={path: 'features' or 'channels'})."
        )


def _check_rows(x: Tensor, site: Site, now: Instances, batch_dim: int, *, training: bool) -> None:
    rows = x.shape[batch_dim]
    if rows != len(now) and (training or rows != 1):
        growth = "" if training else " (or 1, which grows to the number of ids)"
        raise BatchSizeError(
            f"{len(now)} instance ids, but site {site} got a batch of {rows} rows (shape "
            f"{list(x.shape)}, batch in dimension {batch_dim}). Give one id for every row{growth}. "
            "If the batch is in dimension 1 here, set batch_first = False on the enclosing module "
            "before turnover.wrap."
        )


def _grown(x: Tensor, rows: int, batch_dim: int) -> Tensor:
    """Return `x` with a batch of one repeated to `rows` rows, as the other views do by multiplying."""
    if x.shape[batch_dim] == rows:
        return x
    return x.repeat_interleave(rows, dim=batch_dim)


def _spread(factors: Tensor, dims: int, batch_dim: int, mask_dim: int) -> Tensor:
    """Return factors [rows, width] in a shape that broadcasts: one mask for all positions."""
    shape = [1] * dims
    shape[batch_dim], shape[mask_dim] = factors.shape
    return factors.reshape(shape)


def _missing(site: Site) -> Exception:
    if in_backward():
        return RecomputationError(recomputation_message(site))
    trainer = (
        " The Trainer of Hugging Face knows no ids: train with turnover.integrations.TurnOverTrainer and "
        "train_dataset=turnover.with_instance_ids(dataset) instead."
    )
    return MissingInstancesError(
        f"site {site} ran in training mode without instance ids. Tell which instances are in the "
        "batch: with turnover.instances(ids): loss = loss_fn(model(x), y). For evaluation call "
        f"model.eval() first.{trainer if site.masking.hugging_face else ''}"
    )
