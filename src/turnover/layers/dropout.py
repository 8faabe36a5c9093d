"""The layer: `TurnOverDropout` as a module, and the hook that masks the output of any other module."""

from collections.abc import MutableMapping
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from turnover.errors import MaskError, MissingInstancesError, SiteNotReachedError, SiteOutputError
from turnover.masks import check_keep

from .apply import apply_mask
from .masking import Site
from .recipe import Dim

DIMS: tuple[Dim, ...] = ("features", "channels")


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
        """Check the options; the masks come with `turnover.wrap`."""
        super().__init__()
        if dim not in DIMS:
            raise MaskError(f"dim={dim!r} is unknown. Give 'features' (last dimension) or 'channels' (dimension 1).")
        self.keep = None if keep is None else check_keep(keep)
        self.dim: Dim = dim
        self.site: Site | None = None
        # The dropout that stood here before, for `unwrap`; in a tuple so that it is no submodule.
        self.replaced: tuple[nn.Module, ...] = ()
        # The fused path of nn.TransformerEncoderLayer goes around its dropouts unless a hook is somewhere inside.
        self.register_forward_hook(_no_fused_path)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` under the masks of the active instances; in eval mode without ids, `x` itself."""
        if self.site is None:
            if self.training:
                raise MissingInstancesError(
                    "a TurnOverDropout that belongs to no wrapped model ran in training mode. "
                    "Wrap the model first: model = turnover.wrap(model)."
                )
            return x
        return apply_mask(x, self.site, training=self.training)

    @property
    def p(self) -> float:
        """Refuse to be read as a number: whoever does would never call this module."""
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
        """Mask at this site."""
        self.site = site

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        """Return the output with its first tensor masked; whatever else a tuple or mapping holds passes as it is."""
        if isinstance(output, Tensor):
            return apply_mask(output, self.site, training=module.training)
        packed = isinstance(output, PackedSequence)  # a tuple whose first tensor has no batch dimension
        if isinstance(output, tuple | list) and not packed and output and isinstance(output[0], Tensor):
            masked = apply_mask(output[0], self.site, training=module.training)
            rest = (masked, *output[1:])
            return type(output)(*rest) if hasattr(output, "_fields") else type(output)(rest)
        if isinstance(output, MutableMapping):
            name = next((key for key, value in output.items() if isinstance(value, Tensor)), None)
            if name is not None:
                output[name] = apply_mask(output[name], self.site, training=module.training)
                return output
        raise SiteOutputError(
            f"site {self.site} ({type(module).__name__}) returned {_kind(output)}. A mask needs a tensor, a tuple that "
            "begins with one, or a mapping that holds one. Choose the module that makes the tensor."
        )


def _kind(output: Any) -> str:
    if isinstance(output, tuple | list):
        return f"a {type(output).__name__} of {', '.join(type(item).__name__ for item in output) or 'nothing'}"
    return f"a {type(output).__name__}"
