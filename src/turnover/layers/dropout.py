"""The layer: from an activation and the active instances to the masked activation.

`TurnOverDropout` is a module of its own; `MaskedOutput` is the hook that masks the output of any other module. Both
run `apply_mask`. Eager code runs `_apply_eager`. A compiled pass asks for the mask words by the custom operator
`turnover::mask_words`, which the compiler takes as it is: the bits come from the very code that eager mode runs, no ids
are baked into the graph and the graph does not break. It breaks only where a batch of one may be expanded, in eval
mode: the compiler has to know all shapes.

The batch dimension of a site is detected from what reaches it, not guessed. A module with `batch_first` settles it for
all below. Elsewhere the rule is dimension 0, and a training pass confirms or corrects it: a dimension can be the batch
if it is as long as the list of ids. Unless that leaves just the rule (a sequence may be as long as the batch), the
model runs once more on the first row of its inputs, and the dimension that shrinks to 1 is the batch. What was found is
kept in the recipe tensor. A compiled pass can confirm the rule but has no second run; where the shapes leave a doubt it
raises.
"""

from collections.abc import MutableMapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo
from torch.nn.utils.rnn import PackedSequence
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from turnover.errors import BatchSizeError, InstancesError, MaskError, SiteNotReachedError
from turnover.masks import check_keep, words_for

from .instances import ACTIVE, FULL, Instances, eval_mode, factors_by_shift, no_instances, recomputation
from .masking import Masking, Site, expanded
from .recipe import Dim
from .tensors import map_tensors, tensors_in

DIMS: tuple[Dim, ...] = ("features", "channels")
_SEQUENCE_DIMS, _IMAGE_DIMS = 3, 4


class TurnOverDropout(nn.Module):
    """Dropout whose mask is fixed by the instance; becomes a site when the model is wrapped.

    Args:
        keep: share of units that an instance trains; None: that of `turnover.wrap`.
        dim: "features" (last dimension) or "channels" (dimension 1).

    Example:
        >>> import torch, turnover
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), turnover.TurnOverDropout(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net)
        >>> with turnover.instances(range(3)):
        ...     net(torch.zeros(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(self, keep: float | None = None, dim: Dim = "features") -> None:
        super().__init__()
        if dim not in DIMS:
            raise MaskError(f"dim={dim!r} is unknown. Give 'features' (last dimension) or 'channels' (dimension 1).")
        self.keep = None if keep is None else check_keep(keep)
        self.dim: Dim = dim
        self.site: Site | None = None
        # The dropout that stood here before, for `unwrap`; in a tuple so that it is not a submodule.
        self.replaced: tuple[nn.Module, ...] = ()
        # The fused path of nn.TransformerEncoderLayer goes around its dropouts unless a hook is somewhere inside.
        self.register_forward_hook(_no_fused_path)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` under the masks of the active instances; in eval mode without ids, `x` itself."""
        if self.site is None:
            if self.training:
                raise InstancesError(
                    "a TurnOverDropout that belongs to no wrapped model ran in training mode. "
                    "Wrap the model first: model = turnover.wrap(model)."
                )
            return x
        return apply_mask(x, self.site, training=self.training)

    @property
    def p(self) -> float:
        """Raise where it is read as a number: whoever does would never call this module."""
        raise SiteNotReachedError(
            f"something reads the p of the dropout {self.site or 'here'} as a number and never calls the module, so no "
            "mask can act there. Leave it out: give `at` the modules to mask instead of replacing every dropout."
        )

    def extra_repr(self) -> str:
        """Return keep, dimension and site."""
        if self.site is None:
            return f"keep={self.keep}, dim={self.dim!r}, not wrapped"
        return f"keep={self.site.recipe.keep:g}, dim={self.dim!r}, site={self.site}"


def _no_fused_path(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
    """Do nothing; being there is what counts."""


class MaskedOutput:
    """Forward hook that puts a site's masks on the output of a module."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        """Return the output with its first tensor masked."""
        if isinstance(output, Tensor):
            return apply_mask(output, self.site, training=module.training)
        packed = isinstance(output, PackedSequence)  # a tuple whose first tensor has no batch dimension
        if isinstance(output, (tuple, list)) and not packed and output and isinstance(output[0], Tensor):
            masked = apply_mask(output[0], self.site, training=module.training)
            rest = (masked, *output[1:])
            return type(output)(*rest) if hasattr(output, "_fields") else type(output)(rest)
        if isinstance(output, MutableMapping):
            name = next((key for key, value in output.items() if isinstance(value, Tensor)), None)
            if name is not None:
                output[name] = apply_mask(output[name], self.site, training=module.training)
                return output
        raise InstancesError(
            f"site {self.site} ({type(module).__name__}) returned a {type(output).__name__}. A mask needs "
            "a tensor, a tuple that begins with one, or a mapping that holds one. Choose the module that makes it."
        )


def apply_mask(x: Tensor, site: Site, *, training: bool) -> Tensor:
    """Return `x` with the masks of the active instances on it.

    In eval mode a batch of one is expanded to the number of instances here.
    """
    # Unlike is_compiling, this is false in a thread that runs while another one compiles.
    if not torch.compiler.is_dynamo_compiling():
        return _apply_eager(x, site, training)
    shape_known = site.replicas == 1 or site.expansion.expands is not None
    if x.is_floating_point() and x.dim() > 1 and shape_known:
        never_expands = x.shape[site.batch_dim(x.dim())] != 1 and site.replicas == 1
        if training or never_expands:
            return _apply_traced(x, site, training)
    return _apply_untraced(x, site, training)


def _apply_eager(x: Tensor, site: Site, training: bool) -> Tensor:
    active = ACTIVE.get()
    if active is None:
        return _without_instances(x, site, training)
    mask_dim = _check(x, site, active)
    if site.replicas > 1:
        return _apply_replicated(x, site, active, mask_dim, training)
    dims, instances = x.dim(), len(active.ids)
    batch_dim = 0 if dims < _SEQUENCE_DIMS else _batch_dim_of(site, x, active, training=training)
    rows = x.shape[batch_dim]
    if rows != instances and (training or rows != 1):
        raise _wrong_rows(x, site, active, batch_dim, training)
    active.reach(site, training=training)
    if active.shared_view == FULL:
        return x if rows == instances else x.repeat_interleave(instances, dim=batch_dim)
    return x * _spread(active.factors(site, x, x.shape[mask_dim]), dims, batch_dim, mask_dim)


def _without_instances(x: Tensor, site: Site, training: bool) -> Tensor:
    shapes = _probe.get()
    if shapes is not None:
        shapes[site.index] = tuple(x.shape)
        return x
    if training:
        raise _missing(site)
    return x if site.replicas == 1 else _by_replica(x, site, training=training, ids=None).flatten(0, 1)


def _apply_replicated(x: Tensor, site: Site, active: Instances, mask_dim: int, training: bool) -> Tensor:
    """Return the masked rows of all replicas; those of the trunk, and one row in eval mode, are expanded here."""
    x = _by_replica(x, site, training=training, ids=len(active))
    if x.shape[1] != len(active) and (training or x.shape[1] != 1):
        raise _wrong_rows(x[0], site, active, 0, training)
    active.reach(site, training=training)
    if active.shared_view == FULL:
        return x.expand(-1, len(active), *[-1] * (x.dim() - 2)).flatten(0, 1)
    factors = active.factors(site, x, x.shape[mask_dim + 1])
    spread = _spread(factors, x.dim() - 1, 0, mask_dim).unflatten(0, (site.replicas, len(active)))
    return (x * spread).flatten(0, 1)


def _by_replica(x: Tensor, site: Site, *, training: bool, ids: int | None) -> Tensor:
    if site.expansion.expands_at(x, training=training, ids=ids):
        x = expanded(x, site.replicas)
    return x.unflatten(0, (site.replicas, -1))


# Like torch.compiler.disable, but without importing the compiler, which would double the time of `import turnover`.
_apply_untraced = _disable_dynamo(_apply_eager)


def _apply_traced(x: Tensor, site: Site, training: bool) -> Tensor:
    batch_dim, mask_dim = site.batch_dim(x.dim()), 1 if site.recipe.dim == "channels" else x.dim() - 1
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
    active = ACTIVE.get()
    rows, width = x.shape[batch_dim], x.shape[mask_dim]
    if active is None:
        if training:
            raise _missing(site)
        words = torch.zeros((rows, words_for(width)), dtype=torch.int32, device=x.device)
        return words, torch.full((rows,), FULL, dtype=torch.int32, device=x.device)
    _check(x, site, active)
    if training and not site.masking.shared:  # a compiled root has no hook that could
        site.masking.check_processes()
    if site.replicas == 1:
        _confirm_batch_dim(site, x, active, batch_dim, training=training)
    if rows != site.replicas * len(active):
        raise _wrong_rows(x.unflatten(0, (site.replicas, -1))[0], site, active, batch_dim, training)
    words = active.words(site, x.device, width)
    active.reach(site, training=training)
    # Copies: the compiler may write into what an operator hands out.
    return words.clone(memory_format=torch.contiguous_format), active.views_on(x.device).repeat(site.replicas)


@mask_words.register_fake
def _(x: Tensor, handle: int, index: int, batch_dim: int, mask_dim: int, training: bool) -> tuple[Tensor, Tensor]:
    rows = x.shape[batch_dim]
    words = x.new_empty((rows, words_for(x.shape[mask_dim])), dtype=torch.int32)
    return words, x.new_empty((rows,), dtype=torch.int32)


def _check(x: Tensor, site: Site, active: Instances) -> int:
    """Return the masked dimension after checking shape, dtype and width."""
    if torch._C._current_graph_task_id() != -1 and not active.recomputing:  # in a backward pass
        raise _not_checkpointed(site)
    dims, mask_dim = x.dim(), 1 if site.recipe.dim == "channels" else x.dim() - 1
    if not x.is_floating_point() or dims <= max(mask_dim, 1):
        raise InstancesError(
            f"site {site} got a {x.dtype} tensor of shape {list(x.shape)}; masks on "
            f"{site.recipe.dim} need a floating-point tensor with at least 2 dimensions, the batch "
            "and the units. Choose another module for `at`."
        )
    if dims >= _IMAGE_DIMS and not site.recipe.told:
        raise InstancesError(
            f"site {site} has output of shape {list(x.shape)}: are its units channels (dimension 1) "
            "or features (the last)? A module without parameters cannot tell. Say so: "
            f"at={{{site.recipe.path!r}: 'channels'}}."
        )
    width, widths = x.shape[mask_dim], site.masking.learned.widths
    known = widths[site.index]
    if known is None:
        widths[site.index] = width
    elif known != width and active.first_visit(site):
        raise InstancesError(
            f"site {site} has {width} units now and had {known} before: masks on {site.recipe.dim} "
            "need a dimension of fixed width. If this dimension is time or space, choose the other "
            "one (at={path: 'features' or 'channels'})."
        )
    return mask_dim


def _spread(factors: Tensor, dims: int, batch_dim: int, mask_dim: int) -> Tensor:
    shape = [1] * dims
    shape[batch_dim], shape[mask_dim] = factors.shape
    return factors.reshape(shape)


def _wrong_rows(x: Tensor, site: Site, active: Instances, batch_dim: int, training: bool) -> BatchSizeError:
    or_one = "" if training else " (or 1, which is expanded to the number of ids)"
    return BatchSizeError(
        f"{len(active)} instance ids, but site {site} got a batch of {x.shape[batch_dim]} rows (shape "
        f"{list(x.shape)}, batch in dimension {batch_dim}). Give one id for every row{or_one}. "
        "If the batch is in dimension 1 here, set batch_first = False on the enclosing module "
        "before turnover.wrap."
    )


def _missing(site: Site) -> Exception:
    if torch._C._current_graph_task_id() != -1:  # a backward pass runs in this thread
        return _not_checkpointed(site)
    trainer = " With the Trainer of Hugging Face, train by turnover.integrations.TurnOverTrainer instead."
    return InstancesError(
        f"site {site} ran in training mode without instance ids. Tell which instances are in the "
        "batch: with turnover.instances(ids): loss = loss_fn(model(x), y). For evaluation call "
        f"model.eval() first.{trainer if site.masking.hugging_face else ''}"
    )


def _not_checkpointed(site: Site) -> InstancesError:
    return InstancesError(
        f"site {site} is recomputed in a backward pass (activation checkpointing) without its instance ids. "
        "Give them along: torch.utils.checkpoint.checkpoint(fn, x, use_reentrant=False, "
        "context_fn=turnover.checkpoint_contexts)."
    )


def checkpoint_contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Return the contexts that carry the active instances into a checkpoint's recomputation.

    Example:
        >>> import torch, turnover
        >>> from torch.utils.checkpoint import checkpoint
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        >>> net = turnover.wrap(net, at=["1"])
        >>> contexts = turnover.checkpoint_contexts
        >>> with turnover.instances(range(3)):
        ...     out = checkpoint(net, torch.zeros(3, 4), use_reentrant=False, context_fn=contexts)
        >>> out.sum().backward()
    """
    if torch.compiler.is_compiling():
        # A compiled backward pass knows no contexts, but it can keep the mask words of the forward pass.
        return create_selective_checkpoint_contexts([mask_words._opoverload])
    return nullcontext(), recomputation()


# Finding the batch dimension of a site

_Shapes = dict[int, tuple[int, ...]]

_probe: ContextVar[_Shapes | None] = ContextVar("turnover_probe", default=None)


def probed_shapes() -> _Shapes | None:
    """Return the record that sites write their shapes to during a dry run, else None."""
    return _probe.get()


def _batch_dim_of(site: Site, x: Tensor, active: Instances, *, training: bool) -> int:
    """Return the batch dimension of an activation at a site; learn it in training mode."""
    rule = site.batch_dim(x.dim())
    if site.batch_known or x.dim() < _SEQUENCE_DIMS:
        return rule
    fitting = _fitting(x, active, training=training)
    if not fitting:
        return rule
    if fitting != [rule]:
        fitting = _after_dry_run(fitting, site, x, active)
    if len(fitting) > 1 and not training:
        return rule
    if len(fitting) != 1:
        raise _unclear(site, x, active, _SAY_SO)
    if training:
        site.masking.learn_batch_dim(site.index, fitting[0])
    return fitting[0]


def _confirm_batch_dim(site: Site, x: Tensor, active: Instances, batch_dim: int, *, training: bool) -> None:
    """Check the batch dimension that a compiled pass was made for; learn it in training mode."""
    if site.batch_known or x.dim() < _SEQUENCE_DIMS:
        return
    fitting = _fitting(x, active, training=True)  # compiled passes do not expand
    if fitting == [batch_dim]:
        if training:
            site.masking.learn_batch_dim(site.index, batch_dim)
    elif fitting:
        raise _unclear(site, x, active, f"{_RUN_ONCE}, or {_SAY_SO}")


def _fitting(x: Tensor, active: Instances, *, training: bool) -> list[int]:
    """Return which of the first two dimensions can be the batch; none where it makes no difference."""
    if len(active) == x.shape[0] == x.shape[1] == 1:
        return []
    lengths = (len(active),) if training else (len(active), 1)
    return [dim for dim in (0, 1) if x.shape[dim] in lengths]


_SAY_SO = "set batch_first = True (or False) on the enclosing module before turnover.wrap"
_RUN_ONCE = "call the model once in training mode before torch.compile, so that it can be detected"


def _unclear(site: Site, x: Tensor, active: Instances, cure: str) -> BatchSizeError:
    return BatchSizeError(
        f"cannot tell which dimension is the batch at site {site}: {len(active)} instance ids, shape "
        f"{list(x.shape)}. Say so: {cure}."
    )


def _after_dry_run(fitting: list[int], site: Site, x: Tensor, active: Instances) -> list[int]:
    """Return the dimensions that shrink to 1 when the model sees one row; all where that cannot be detected.

    The rows of the inputs are dimension 0, unless none is as long, or a module inside that has `batch_first` got a
    sequence of one instead of a batch of one: then they are dimension 1.
    """
    call = active.calls.get(site.masking)
    if call is None:
        return fitting
    root, args, kwargs = call
    rows = 1 if _lengths((args, kwargs), 0) == {1} else len(active)
    for dim in (0, 1):
        if rows in _lengths((args, kwargs), dim):
            shapes, sequence_shrank = _dry_run(root, args, kwargs, rows, dim)
            if not sequence_shrank:
                shape = shapes.get(site.index, ())
                return [dim for dim in fitting if shape[dim] == 1] if len(shape) == x.dim() else fitting
    return fitting


def _lengths(inputs: Any, dim: int) -> set[int]:
    tensors = list(tensors_in(inputs))
    tensors = [tensor for tensor in tensors if tensor.dim() > 1] or tensors
    return {tensor.shape[dim] for tensor in tensors if tensor.dim() > dim}


def _dry_run(
    root: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int, dim: int
) -> tuple[_Shapes, bool]:
    """Return the shape at each site, and whether a sequence shrank to one in place of the batch.

    Runs in eval mode and leaves modes, random state and the active instances as they were.
    """
    shapes: _Shapes = {}
    sequence_shrank: list[bool] = []

    def watch(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs and isinstance(inputs[0], Tensor) and inputs[0].dim() == _SEQUENCE_DIMS:
            first, second = inputs[0].shape[:2]
            batch, steps = (first, second) if module.batch_first else (second, first)
            sequence_shrank.append(batch != 1 and steps == 1)

    def first_row(x: Tensor) -> Tensor:
        at = min(dim, x.dim() - 1)
        return x.narrow(at, 0, 1) if at >= 0 and x.shape[at] == rows else x

    hooks = [
        module.register_forward_pre_hook(watch)
        for module in root.modules()
        if isinstance(getattr(module, "batch_first", None), bool)
    ]
    token = _probe.set(shapes)
    try:
        # Gradients stay on: without them fused encoder paths would go around the sites.
        with eval_mode(root), no_instances(), torch.enable_grad(), torch.random.fork_rng(devices=[]):
            args, kwargs = map_tensors((args, kwargs), first_row)
            root.forward(*args, **kwargs)
    except Exception:  # noqa: BLE001 - a model may reject a single row
        shapes = {}
    finally:
        _probe.reset(token)
        for hook in hooks:
            hook.remove()
    return shapes, any(sequence_shrank)
