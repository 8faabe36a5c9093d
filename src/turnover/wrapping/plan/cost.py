"""What masks cost in accuracy, by what was measured on small networks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Family = Literal["images", "many classes", "vectors"]
Place = Literal["last", "inner", "later", "all"]
MASK_COSTS: dict[tuple[Family, Place], tuple[tuple[int, float], ...]] = {
    ("images", "last"): ((16, 5.1), (32, 0.9), (64, 1.9), (128, 1.1)),
    ("images", "inner"): ((64, 2.2),),
    ("images", "later"): ((64, 6.1),),
    ("images", "all"): ((4, 19.9), (8, 16.9), (16, 17.2), (32, 17.7)),
    ("many classes", "last"): ((16, 16.7), (64, 6.8), (256, 5.2)),
    ("many classes", "inner"): ((64, 16.9),),
    ("many classes", "all"): ((16, 46.4),),
    ("vectors", "last"): ((16, 2.6), (32, 0.2), (64, 0.0), (128, 0.3), (256, 1.3), (512, 1.7)),
    ("vectors", "inner"): ((64, 0.7),),
    ("vectors", "all"): ((16, 6.1), (32, 2.2), (64, 1.1), (128, 2.4), (256, 2.8), (512, 3.5)),
}
"""Points of accuracy that masks with keep=0.5 cost, by the width of the narrowest site, for the site before the output
layer, one before it, the later half of the sites and all of them, as mask_cost.md and mask_cost_classes.md of
docs/results/medium have them; many classes after 4 epochs."""
LONGER_COSTS: dict[Literal["last", "inner", "all"], tuple[tuple[int, float], ...]] = {
    "last": ((16, 11.9), (64, 0.5)),
    "inner": ((64, 2.7),),
    "all": ((16, 38.2),),
}
"""The same for images of many classes after 12 epochs."""
RUN_COSTS: dict[Family, dict[int, tuple[tuple[int, float], ...]]] = {
    "images": {1: ((512, 3.9),), 8: ((64, 0.0), (512, 1.5))},
    "many classes": {1: ((512, 9.2),), 8: ((64, 0.0), (512, 3.7))},
}
"""The same after 12 epochs for the site before the output layer in the image network of `turnover run`, by replicas, as
mask_cost_run.md has them."""
VGG19_COSTS = ((128, 10_000, 25.1), (256, 50_000, 6.2))
"""Channels, images and points of VGG19 with masks after its 11th layer, as real_models.md and side_effects.md have
them: five sites in a row, which two small networks do not stand for."""
_MEASURED: dict[Family, str] = {
    "vectors": "a network of two hidden layers, trained from scratch on 1,300 digits",
    "images": (
        "two small convolutional networks with recalibrated BatchNorm, trained from scratch for 12 epochs on 4,000 "
        "images of 10 classes"
    ),
    "many classes": (
        "a small residual network with recalibrated BatchNorm, trained from scratch for 4 epochs on 3,328 images of 26 "
        "classes"
    ),
}
_RUN_MEASURED: dict[Family, str] = {
    "images": "3,600 images of 10 classes",
    "many classes": "3,000 images of 26 classes",
}
_LITTLE = 2.0
_MANY_REPLICAS = 8
# Between the two numbers of classes that were measured, as far from one as from the other by their ratios.
_MANY = math.sqrt(10 * 26)


@dataclass(frozen=True)
class ExpectedCost:
    """What masks cost in accuracy: interpolated between small networks that were measured.

    Attributes:
        family: "vectors"; with convolutions "images", or "many classes" where there are more than 16 outputs.
        place: "last" for one site before the output layer, "inner" for one that more layers follow; for several
            "later" where at least half of a convolutional network's layers come before them, else "all".
        sites: how many.
        path: of the narrowest.
        width: its units.
        points: of accuracy that are lost.
        beyond: the width is outside of what was measured, whose end counts.
        outputs: of the model, where known.
        replicas: 8 or more are told apart from fewer before the output layer of a convolutional network.
    """

    family: Family
    place: Place
    sites: int
    path: str
    width: int
    points: float
    beyond: bool
    outputs: int | None = None
    replicas: int = 1

    def __str__(self) -> str:
        """Return what to expect, how it is known and what to do."""
        known = _measured(self.family, self.place, self.replicas)
        reach = f"at {known[0][0]}" if len(known) == 1 else f"from {known[0][0]} to {known[-1][0]}"
        count = f"{self.sites} site{'' if self.sites == 1 else 's'}"
        where = [
            f"{count}, {self.path!r} with {self.width:,} units{'' if self.sites == 1 else ' is the narrowest'}",
            *(["more layers follow than the output layer"] if self.place == "inner" else []),
            *(["all in the later half of the layers"] if self.place == "later" else []),
            *([f"{self.outputs:,} outputs"] if self.family == "many classes" else []),
            *([f"{self.replicas} replicas"] if self._like_a_run else []),
            *([f"measured {reach} units, the nearest counts"] if self.beyond else []),
        ]
        told = (
            f"masks cost {_points(self.points)} of accuracy ({'; '.join(where)}) in {self._measured_in} with keep=0.5 "
            f"({', '.join(f'docs/results/medium/{source}.md' for source in self._sources)}); {self._more}"
        )
        return told if self.points < _LITTLE else f"{told}. {self._advice}"

    @property
    def _like_a_run(self) -> bool:
        return self.place == "last" and self.family in RUN_COSTS and self.replicas >= _MANY_REPLICAS

    @property
    def _measured_in(self) -> str:
        if not self._like_a_run:
            return _MEASURED[self.family]
        return (
            "the image network of `turnover run`, trained from scratch for 12 epochs with 8 replicas on "
            f"{_RUN_MEASURED[self.family]}"
        )

    @property
    def _sources(self) -> list[str]:
        if self._like_a_run:
            return ["mask_cost_run"]
        if self.family == "many classes" or self.place == "inner":
            return ["mask_cost_classes"]
        widest = MASK_COSTS[self.family, self.place][-1][0]
        runs = self.place == "last" and self.family in RUN_COSTS and self.width > widest
        return ["mask_cost", *(["mask_cost_run"] if runs else [])]

    @property
    def _more(self) -> str:
        if self.family == "many classes":
            longer = "" if self._like_a_run else f"after 12 epochs {_points(self._longer)}; "
            return f"{longer}fewer rows cost more"
        if self.place == "later":
            vgg = ", ".join(
                f"{_points(points)} with {width} channels and {n:,} images" for width, n, points in VGG19_COSTS
            )
            return f"five such sites of VGG19 cost {vgg}; fewer rows and more classes cost more"
        return "fewer rows cost more" if self.family == "vectors" else "fewer rows and more classes cost more"

    @property
    def _longer(self) -> float:
        assert self.place != "later"
        return _between(_measured_longer(self.place), self.width)

    @property
    def _advice(self) -> str:
        many = self.family == "many classes"
        late = _measured_longer("last") if many else _measured(self.family, "last", self.replicas)
        enough = [width for width, points in late if points < _LITTLE]
        reach = f"{enough[0]} to {enough[-1]} units" if len(enough) > 1 else f"{enough[0]} units"
        longer = "train until held-out accuracy no longer rises"
        if self.place != "last":
            instead = "Mask the input of the output layer instead"
            if self.place == "all":
                instead = "Mask later sites only, at best the input of the output layer"
            cost = _points(max(points for width, points in late if width in enough))
            return f"{instead}{f', and {longer}' if many else ''}: one site of {reach} there costs {cost}"
        if self.width < enough[0]:
            return f"Use {reach}{f', and {longer}' if many else ''}"
        if many and not self._like_a_run and self._longer < _LITTLE:
            return longer.capitalize()
        # A wide layer gains more without masks: its masked accuracy is not below that of a narrow one.
        narrower = f"{reach} cost {_points(0)}, of an accuracy that is lower without masks"
        if self._like_a_run:
            return narrower[0].upper() + narrower[1:]
        fewer = _points(_between(RUN_COSTS[self.family][_MANY_REPLICAS], self.width))
        return f"With replicas={_MANY_REPLICAS} they cost {fewer} there (docs/results/medium/mask_cost_run.md)"


def _points(value: float) -> str:
    return "less than 1 point" if value < 1 else f"about {value:.0f} point{'' if round(value) == 1 else 's'}"


def expected_cost(
    widths: Mapping[str, int | None],
    outputs: int | None = None,
    *,
    images: bool = False,
    inner: bool = False,
    later: bool = False,
    replicas: int = 1,
) -> ExpectedCost | None:
    """Return what masks on these sites cost; None where widths are not known.

    Args:
        widths: of all sites, by path.
        outputs: of the model, where known.
        images: whether the model has convolutions.
        inner: whether more layers than the output layer follow the only site.
        later: whether at least half of the layers come before the first site.
        replicas: of the masked part.
    """
    known = [(width, path) for path, width in widths.items() if width is not None]
    if len(known) < len(widths) or not known:
        return None
    width, path = min(known)
    family: Family = "vectors"
    if images:
        family = "many classes" if outputs is not None and outputs > _MANY else "images"
    place: Place = "all" if len(widths) > 1 else "inner" if inner else "last"
    if place == "all" and later and images:
        family, place = "images", "later"  # of many classes it was not measured
    measured = _measured(family, place, replicas)
    beyond = not measured[0][0] <= width <= measured[-1][0]
    points = _between(measured, width)
    return ExpectedCost(family, place, len(widths), path, width, points, beyond, outputs, replicas)


def _measured(family: Family, place: Place, replicas: int) -> tuple[tuple[int, float], ...]:
    """Return points by width, those of the image network of `turnover run` among them."""
    known = MASK_COSTS[family, place]
    if place != "last" or family not in RUN_COSTS:
        return known
    if replicas >= _MANY_REPLICAS:
        return RUN_COSTS[family][_MANY_REPLICAS]
    # Many classes have their points after 4 epochs here, the image network after 12.
    return known if family == "many classes" else (*known, *RUN_COSTS[family][1])


def _measured_longer(place: Literal["last", "inner", "all"]) -> tuple[tuple[int, float], ...]:
    """Return points of many classes after 12 epochs, by width."""
    return (*LONGER_COSTS[place], *(RUN_COSTS["many classes"][1] if place == "last" else ()))


def _between(measured: Sequence[tuple[int, float]], width: int) -> float:
    """Return the points at a width, on straight lines between the logarithms of measured ones."""
    if width <= measured[0][0]:
        return measured[0][1]
    for (low, before), (high, after) in pairwise(measured):
        if width <= high:
            return before + (after - before) * math.log(width / low) / math.log(high / low)
    return measured[-1][1]
