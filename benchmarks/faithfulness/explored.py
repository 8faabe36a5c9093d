"""What else was tried to make scores better, beyond the estimates that are reported."""

from turnover.influence import Ridge

from .ours import Ours
from .tasks import Masks

TRIED_ON = ("digits", "sst2")
_RIDGE = Ridge()
ALONE = "8 replicas, influence functions alone"

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
    "ridge, scaled by query": Ours(denoise=Ridge(scale="query")),
    "ridge and influence functions": Ours(denoise=Ridge(gradients=1)),
    "ridge and influence functions, scaled by query": Ours(denoise=Ridge(gradients=1, scale="query")),
    "ridge and twice as much of them, scaled by query": Ours(denoise=Ridge(gradients=2, scale="query")),
    "ridge on the flipped view and influence functions": Ours(denoise=Ridge(view="flip", gradients=1, scale="query")),
    "ridge and influence functions of all layers": Ours(denoise=Ridge(gradients=1, scale="query"), all_layers=True),
    # More of them follow retraining better; but the null grows with them, until no row stands out from it.
    "8 replicas, ridge and twice the influence functions": Ours(None, denoise=Ridge(gradients=2, scale="query")),
    "8 replicas, ridge and four times the influence functions": Ours(None, denoise=Ridge(gradients=4, scale="query")),
    # What the default would be without masks' scores, which are a thousandth of it.
    ALONE: Ours(None, denoise=Ridge(gradients=1000, scale="query")),
}
