"""What masks cost in accuracy, by what was measured on small networks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Family = Literal["images", "many classes", "vectors"]
Place = Literal["last", "inner", "later", "all"]
Points = tuple[tuple[int, float], ...]
MASK_COSTS: dict[tuple[Family, Place], Points] = {
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
LONGER_COSTS: dict[Literal["last", "inner", "all"], Points] = {
    "last": ((16, 11.9), (64, 0.5)),
    "inner": ((64, 2.7),),
    "all": ((16, 38.2),),
}
"""The same for images of many classes after 12 epochs."""
RUN_COSTS: dict[Family, dict[int, Points]] = {
    "images": {1: ((512, 3.9),), 8: ((64, 0.0), (512, 1.5))},
    "many classes": {1: ((512, 9.2),), 8: ((64, 0.0), (512, 3.7))},
}
"""The same after 12 epochs for the site before the output layer in the image network of `turnover run`, by replicas, as
mask_cost_run.md has them."""
VGG19_COSTS = ((128, 10_000, 25.1), (256, 50_000, 6.2))
"""Channels, images and points of VGG19 with masks after its 11th layer, as real_models.md and side_effects.md have
them: five sites in a row, which two small networks do not stand for."""
VGG19_ALL_COST = 67.1
"""Points with masks on all layers of the second one."""
_MEASURED: dict[Family, str] = {
    "vectors": "a network of two hidden layers, trained from scratch on 1,300 digits",
    "images": (
        "two small convolutional networks, trained from scratch for 12 epochs on 4,000 images of 10 classes, after "
        "turnover.recalibrate"
    ),
    "many classes": (
        "a small residual network, trained from scratch for 4 epochs on 3,328 images of 26 classes, after "
        "turnover.recalibrate"
    ),
}
_RUN_MEASURED: dict[Family, str] = {
    "images": "3,600 images of 10 classes",
    "many classes": "3,000 images of 26 classes",
}
_LITTLE = 2.0
_CHEAPER = 1.0
_MEASURED_KEEP = 0.5
_MANY_REPLICAS = 8
_BEHIND_INNER = 2
"""Layers behind the site that was measured as "inner"."""
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
        in_runs: measured in the image network of `turnover run`, with wide layers and 8 replicas.
        early: more layers follow the only site than where it was measured.
        outputs: of the model, where known.
        replicas: of the masked part.
        keep: share of units that an instance trains.
    """

    family: Family
    place: Place
    sites: int
    path: str
    width: int
    points: float
    in_runs: bool = False
    early: bool = False
    outputs: int | None = None
    replicas: int = 1
    keep: float = _MEASURED_KEEP

    def __str__(self) -> str:
        """Return what to expect, how it is known and what to do."""
        return ". ".join([self.headline, *self.reasons])

    @property
    def headline(self) -> str:
        """Return what to expect."""
        where = [
            f"{self.sites} site{'' if self.sites == 1 else 's'}"
            + (" in the later half of the layers" if self.place == "later" else ""),
            f"{self.path!r} with {self.width:,} units{'' if self.sites == 1 else ' is the narrowest'}",
            *([f"{self.outputs:,} outputs"] if self.family == "many classes" else []),
            *([f"{self.replicas} replica{'' if self.replicas == 1 else 's'}"] if self.in_runs else []),
        ]
        return f"masks cost {_points(self.points)} of accuracy ({', '.join(where)})"

    @property
    def reasons(self) -> list[str]:
        """Return how it is known, what differs from what was measured, and what to do."""
        source = f"Measured with keep={_MEASURED_KEEP:g} in {self._network} (docs/results/medium/{self._page}.md)"
        advice = self._advice if self.points >= _LITTLE else None
        return [source, *self._differences, *([advice] if advice else [])]

    @property
    def _network(self) -> str:
        if not self.in_runs:
            return _MEASURED[self.family]
        return (
            f"the image network of `turnover run`, trained from scratch for 12 epochs on {_RUN_MEASURED[self.family]}"
        )

    @property
    def _page(self) -> str:
        if self.in_runs:
            return "mask_cost_run"
        return "mask_cost_classes" if self.family == "many classes" or self.place == "inner" else "mask_cost"

    @property
    def _differences(self) -> list[str]:
        """Return what costs more or less than what was measured."""
        told = []
        widths = [width for width, _ in _measured(self.family, self.place, self.in_runs, self.replicas)]
        if not widths[0] <= self.width <= widths[-1]:
            reach = f"at {widths[0]}" if len(widths) == 1 else f"from {widths[0]} to {widths[-1]}"
            told.append(f"Measured {reach} units: the nearest counts")
        if self.early:
            told.append("Measured one layer before the last: earlier ones are likely to cost more")
        if self.family == "many classes" and not self.in_runs:
            told.append(f"After 12 epochs {_points(self._longer)}{self._longer_at}")
        if self.place == "later":
            vgg = ", ".join(f"{points:.0f} with {width} channels and {n:,} images" for width, n, points in VGG19_COSTS)
            told.append(f"Masks after the 11th layer of VGG19 cost more points with few rows: {vgg}")
        if (self.family, self.place) == ("images", "all"):
            told.append(f"More sites cost more: on all layers of VGG19, {VGG19_ALL_COST:.0f} points")
        if self.keep > _MEASURED_KEEP:
            told.append(f"keep={self.keep:g} costs less")
        elif self.keep < _MEASURED_KEEP:
            told.append(f"keep={self.keep:g} was not measured")
        told.append(f"Fewer rows{'' if self.family == 'vectors' else ' and more classes'} cost more")
        return told

    @property
    def _longer(self) -> float:
        assert self.place != "later"
        return _between(LONGER_COSTS[self.place], self.width)

    @property
    def _longer_at(self) -> str:
        assert self.place != "later"
        widest = LONGER_COSTS[self.place][-1][0]
        return f", measured with {widest} units" if self.width > widest else ""

    @property
    def _advice(self) -> str | None:
        many = self.family == "many classes"
        late = LONGER_COSTS["last"] if many else MASK_COSTS[self.family, "last"]
        enough = [(width, points) for width, points in late if points < _LITTLE]
        least, most = enough[0][0], enough[-1][0]
        longer = ", and train until held-out accuracy no longer rises" if many else ""
        if self.place != "last":
            cost = max(points for _, points in enough)
            if self.points < cost + _CHEAPER:
                return None
            instead = "Mask the input of the output layer instead"
            if self.place == "all":
                instead = "Mask later sites only, at best the input of the output layer"
            reach = f"{least} units" if most == least else f"{least} to {most} units"
            return f"{instead}{longer}: one site of {reach} there costs {_points(cost)}"
        if self.width < least:
            # Wide layers of images lose more to masks, but are the more accurate ones with them.
            return f"Use {f'{least} to {most} units' if self.family == 'vectors' else f'{least} units or more'}{longer}"
        if self.in_runs:
            return self._advice_in_runs
        return "Train until held-out accuracy no longer rises" if many else None

    @property
    def _advice_in_runs(self) -> str:
        if self.replicas >= _MANY_REPLICAS:
            return "A narrower layer loses less to masks, but is less accurate with them, too"
        with_many = _between(RUN_COSTS[self.family][_MANY_REPLICAS], self.width)
        return f"With replicas={_MANY_REPLICAS} they cost {_points(with_many)} in this network"


def _points(value: float) -> str:
    return "less than 1 point" if value < 1 else f"about {value:.0f} point{'' if round(value) == 1 else 's'}"


def expected_cost(
    widths: Mapping[str, int | None],
    outputs: int | None = None,
    *,
    images: bool = False,
    behind: int = 0,
    layers: int = 0,
    replicas: int = 1,
    keep: float = _MEASURED_KEEP,
) -> ExpectedCost | None:
    """Return what masks on these sites cost; None where widths are not known.

    Args:
        widths: of all sites, by path.
        outputs: of the model, where known.
        images: whether the model has convolutions.
        behind: layers with weights that follow the first site, the output layer among them; 0: not known.
        layers: of the model.
        replicas: of the masked part.
        keep: the smallest of the sites.
    """
    known = [(width, path) for path, width in widths.items() if width is not None]
    if len(known) < len(widths) or not known:
        return None
    width, path = min(known)
    family: Family = "vectors"
    if images:
        family = "many classes" if outputs is not None and outputs > _MANY else "images"
    place: Place = "all" if len(widths) > 1 else "inner" if behind > 1 else "last"
    if place == "all" and images and 0 < 2 * behind <= layers:
        family, place = "images", "later"  # of many classes it was not measured
    in_runs = place == "last" and _nearer_to_runs(family, width, replicas)
    return ExpectedCost(
        family,
        place,
        len(widths),
        path,
        width,
        _between(_measured(family, place, in_runs, replicas), width),
        in_runs=in_runs,
        early=place == "inner" and behind > _BEHIND_INNER,
        outputs=outputs,
        replicas=replicas,
        keep=keep,
    )


def _measured(family: Family, place: Place, in_runs: bool, replicas: int) -> Points:
    """Return points by width in the networks that were measured."""
    return _of_runs(family, replicas) if in_runs else MASK_COSTS[family, place]


def _of_runs(family: Family, replicas: int) -> Points:
    return RUN_COSTS[family][_MANY_REPLICAS if replicas >= _MANY_REPLICAS else 1]


def _nearer_to_runs(family: Family, width: int, replicas: int) -> bool:
    """Tell whether the image network of `turnover run` was measured nearer to this site than the small networks."""
    if family not in RUN_COSTS:
        return False
    narrowest = _of_runs(family, replicas)[0][0]
    if replicas >= _MANY_REPLICAS:
        return width >= narrowest
    return width**2 > narrowest * MASK_COSTS[family, "last"][-1][0]  # by their ratios


def _between(measured: Sequence[tuple[int, float]], width: int) -> float:
    """Return the points at a width, on straight lines between the logarithms of measured ones."""
    if width <= measured[0][0]:
        return measured[0][1]
    for (low, before), (high, after) in pairwise(measured):
        if width <= high:
            return before + (after - before) * math.log(width / low) / math.log(high / low)
    return measured[-1][1]
