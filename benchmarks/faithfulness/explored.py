"""What else was tried to make scores better, beyond the estimates that are reported."""

from turnover.influence import Ridge

from .ours import Ours
from .tasks import Masks

TRIED_ON = ("digits", "sst2")
_RIDGE = Ridge()

EXPLORED: dict[str, Ours] = {
    "keep .3, ridge": Ours(Masks(keep=0.3), denoise=_RIDGE),
    "keep .7, ridge": Ours(Masks(keep=0.7), denoise=_RIDGE),
    "against the full network, ridge": Ours(denoise=_RIDGE, against="full"),
    "layers twice as wide": Ours(Masks(wider=2)),
    "layers twice as wide, ridge": Ours(Masks(wider=2), denoise=_RIDGE),
    "ridge on features of the flipped view": Ours(denoise=Ridge(view="flip")),
    "ridge on features of all layers": Ours(denoise=_RIDGE, all_layers=True),
    "ridge, strength by cross-validation": Ours(denoise=Ridge(choose="gcv")),
    "ridge, strength by likelihood": Ours(denoise=Ridge(choose="likelihood")),
    "ridge, margin instead of loss": Ours(measure="margin", denoise=_RIDGE),
    "shrinkage across queries": Ours(across_queries=True),
    "ridge, shrinkage across queries": Ours(denoise=_RIDGE, across_queries=True),
    "ridge, mixed with last-layer influence functions": Ours(denoise=_RIDGE, last_layer=1.0),
    "ridge, mixed with twice as much of them": Ours(denoise=_RIDGE, last_layer=2.0),
}
