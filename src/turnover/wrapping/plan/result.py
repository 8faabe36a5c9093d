"""What a plan says, as data and as text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from turnover.errors import PlanError
from turnover.layers import Recipe
from turnover.tables import aligned, html_table
from turnover.wrapping._flow import ZeroFlow
from turnover.wrapping._leaks import CURES, Cause, Leak

BROADCAST = "broadcast at the first site"
REFERENCE_ROWS, REFERENCE_WIDTH = 1437, 512
REFERENCE_SIGNAL = 0.45
"""Signal divided by noise of one pair in the digits network (two masked layers, one replica); docs/results/laws.md."""
_MOST_NAMES = 6


@dataclass(frozen=True)
class SitePlan:
    """One site as it would be.

    Attributes:
        path: module path, the key of its masks.
        module: type of the module.
        place: "output" of the module, "replaced" dropout or "layer" placed by hand.
        dim: "features" or "channels".
        width: units, where known.
        batch_dim: dimension of the batch.
        keep: share of units that an instance trains.
        zero: whether zero stays zero up to the next weights.
        runs: whether the example reached it; None without an example.
    """

    path: str
    module: str
    place: str
    dim: str
    width: int | None
    batch_dim: int
    keep: float
    zero: ZeroFlow
    runs: bool | None = None


@dataclass(frozen=True)
class ExpectedSignal:
    """How much of one pair's score to expect to be signal: a rule of thumb, against a task that was measured.

    At a fixed number of rows noise falls as one over the root of width times replicas, and what one row does falls with
    the number of rows.

    Attributes:
        rows: training rows.
        width: units of the narrowest site.
        replicas: masked parts.
        ratio: signal divided by noise, as a share of that of the reference task.
    """

    rows: int
    width: int
    replicas: int
    ratio: float

    @property
    def signal_to_noise(self) -> float:
        """Return signal divided by noise."""
        return self.ratio * REFERENCE_SIGNAL

    def __str__(self) -> str:
        """Return what it means, and what raises it."""
        return (
            f"n={self.rows:,}: signal / noise of one pair about {self.signal_to_noise:.2g}, {self.ratio:.2g} times "
            f"that of digits ({REFERENCE_ROWS:,} rows, sites of {REFERENCE_WIDTH}, one replica: {REFERENCE_SIGNAL}); a "
            f"rule of thumb, √(width × replicas) / n with width {self.width:,}. Raise it by replicas=, wider sites, "
            "denoised estimators or means over many queries; Scores.noise measures it"
        )


def expected_signal(n: int, widths: Sequence[int | None], replicas: int) -> ExpectedSignal | str:
    """Return what to expect, or why it cannot be said."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        return f"`n` must be an integer >= 1, the number of training rows, got {n!r}. Give n=10_000."
    known = [width for width in widths if width is not None]
    if len(known) < len(widths) or not known:
        return f"n={n:,}: the widths of the sites are not known yet; give an example: plan(..., example=x, n={n})."
    width = min(known)
    ratio = math.sqrt(width * replicas / REFERENCE_WIDTH) * REFERENCE_ROWS / n
    return ExpectedSignal(n, width, replicas, ratio)


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
_LITTLE = 2.0
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
    """

    family: Family
    place: Place
    sites: int
    path: str
    width: int
    points: float
    beyond: bool
    outputs: int | None = None

    def __str__(self) -> str:
        """Return what to expect, how it is known and what to do."""
        known = MASK_COSTS[self.family, self.place]
        reach = f"at {known[0][0]}" if len(known) == 1 else f"from {known[0][0]} to {known[-1][0]}"
        count = f"{self.sites} site{'' if self.sites == 1 else 's'}"
        where = [
            f"{count}, {self.path!r} with {self.width:,} units is the narrowest",
            *(["more layers follow than the output layer"] if self.place == "inner" else []),
            *(["all in the later half of the layers"] if self.place == "later" else []),
            *([f"{self.outputs:,} outputs"] if self.family == "many classes" else []),
            *([f"measured {reach} units, the nearest counts"] if self.beyond else []),
        ]
        source = "mask_cost_classes" if self.family == "many classes" or self.place == "inner" else "mask_cost"
        more = {"vectors": "fewer rows cost more", "images": "fewer rows and more classes cost more"}.get(self.family)
        if more is None and self.place != "later":  # many classes
            more = f"after 12 epochs {_points(_between(LONGER_COSTS[self.place], self.width))}; fewer rows cost more"
        told = (
            f"masks cost {_points(self.points)} of accuracy ({'; '.join(where)}) in {_MEASURED[self.family]} "
            f"with keep=0.5 (docs/results/medium/{source}.md); {more}"
        )
        return told if self.points < _LITTLE else f"{told}. {self._advice}"

    @property
    def _advice(self) -> str:
        many = self.family == "many classes"
        late = LONGER_COSTS["last"] if many else MASK_COSTS[self.family, "last"]
        enough = next((width for width, points in late if points < _LITTLE), late[-1][0])
        longer = "train until held-out accuracy no longer rises"
        if self.place == "last":
            wider = f"Use {enough} units or more"
            if many:
                return f"{wider}, and {longer}" if self.width < enough else longer.capitalize()
            return wider
        instead = "Mask the input of the output layer instead"
        if self.place == "all":
            instead = "Mask later sites only, at best the input of the output layer"
        then = f", and {longer}" if many else ""
        cost = _points(max(points for width, points in late if width >= enough))
        return f"{instead}{then}: one site of {enough} units or more there costs {cost}"


def _points(value: float) -> str:
    return "less than 1 point" if value < 1 else f"about {value:.0f} point{'' if round(value) == 1 else 's'}"


def expected_cost(
    sites: Sequence[SitePlan],
    outputs: int | None = None,
    *,
    images: bool = False,
    inner: bool = False,
    later: bool = False,
) -> ExpectedCost | None:
    """Return what masks on these sites cost; None where widths are not known.

    Args:
        sites: all of the model.
        outputs: of the model, where known.
        images: whether the model has convolutions.
        inner: whether more layers than the output layer follow the only site.
        later: whether at least half of the layers come before the first site.
    """
    known = [(site.width, site.path) for site in sites if site.width is not None]
    if len(known) < len(sites) or not known:
        return None
    width, path = min(known)
    family: Family = "vectors"
    if images:
        family = "many classes" if outputs is not None and outputs > _MANY else "images"
    place: Place = "all" if len(sites) > 1 else "inner" if inner else "last"
    if place == "all" and later and images:
        family, place = "images", "later"  # of many classes it was not measured
    measured = MASK_COSTS[family, place]
    beyond = not measured[0][0] <= width <= measured[-1][0]
    return ExpectedCost(family, place, len(sites), path, width, _between(measured, width), beyond, outputs)


def _between(measured: Sequence[tuple[int, float]], width: int) -> float:
    """Return the points at a width, on straight lines between the logarithms of measured ones."""
    if width <= measured[0][0]:
        return measured[0][1]
    for (low, before), (high, after) in pairwise(measured):
        if width <= high:
            return before + (after - before) * math.log(width / low) / math.log(high / low)
    return measured[-1][1]


@dataclass(frozen=True)
class Plan:
    """What `turnover.wrap` would do; print it."""

    recipe: Recipe
    sites: tuple[SitePlan, ...]
    leaks: tuple[Leak, ...]
    leaks_measured: bool = False
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    path: str = BROADCAST
    parameters: int = 0
    trainable: int = 0
    signal: ExpectedSignal | None = None
    cost: ExpectedCost | None = None
    outputs: int | None = None

    def raise_problems(self) -> None:
        """Raise one error with all problems, if there are any."""
        if self.problems:
            raise PlanError(list(self.problems))

    def __str__(self) -> str:
        """Return the plan as text for a terminal."""
        header, rows = self._table
        lines = [self._head, "", *aligned(rows, header=header)]
        for title, entries in self._parts:
            lines += ["", title, *(f"  {entry}" for entry in entries)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the plan as a notebook shows it."""
        header, rows = self._table
        below = [line for title, entries in self._parts for line in (title, *entries)]
        return html_table(self._head, rows, header=header, below=below)

    @property
    def _head(self) -> str:
        recipe, count = self.recipe, len(self.sites)
        return (
            f"turnover plan: {count} site{'' if count == 1 else 's'}, {recipe.kind} masks, "
            f"seed {recipe.seed}; {self.trainable:,} of {self.parameters:,} parameters trainable"
        )

    @property
    def _without_width(self) -> str:
        """Return the first site whose width is missing to say what masks cost; "": none, or nothing could be said."""
        if self.problems or self.recipe.mode != "forward" or self.recipe.adapters is not None:
            return ""
        return next((repr(site.path) for site in self.sites if site.width is None), "")

    @property
    def _table(self) -> tuple[list[str], list[list[str]]]:
        header = ["site", "module", "units", "width", "batch dim", "keep", "zero stays zero", "runs"]
        rows = [_row(site) for site in self.sites]
        if all(site.runs is None for site in self.sites):
            return header[:-1], [row[:-1] for row in rows]
        return header, rows

    @property
    def _parts(self) -> list[tuple[str, list[str]]]:
        """Return what is said below the sites: titles, each with its entries."""
        parts: list[tuple[str, list[str]]] = []
        how = "measured on the example" if self.leaks_measured else "expected from the order of the modules"
        if self.leaks:
            parts.append((f"would leak ({how}; frozen parameters cannot):", _leak_lines(self.leaks)))
        elif self.sites:
            how = how if self.leaks_measured else "by the order of the modules; turnover.audit measures"
            parts.append((f"no leak found ({how})", []))
        if self.sites:
            parts.append(
                (f"scores: {self.path} (settled on the first query; Scores.path says which way was taken)", [])
            )
        if self.signal is not None:
            parts.append((f"expected: {self.signal}", []))
        if self.cost is not None:
            parts.append((f"expected: {self.cost}", []))
        elif unknown := self._without_width:
            parts.append(
                (f"expected cost in accuracy: {unknown} has a width that only an example tells: example=x", [])
            )
        for title, entries in (("problems", self.problems), ("warnings", self.warnings), ("notes", self.notes)):
            if entries:
                parts.append((f"{title}:", [f"- {entry}" for entry in entries]))
        return parts


def _row(site: SitePlan) -> list[str]:
    zero = {True: "yes", False: "NO: ", None: "not known: "}[site.zero.keeps]
    place = "" if site.place == "output" else f" ({site.place})"
    return [
        site.path or "(the model)",
        site.module + place,
        site.dim,
        "?" if site.width is None else f"{site.width:,}",
        str(site.batch_dim),
        f"{site.keep:g}",
        zero + site.zero.reason if site.zero.keeps is not True else zero,
        {True: "yes", False: "NO", None: "?"}[site.runs],
    ]


def _leak_lines(leaks: Sequence[Leak]) -> list[str]:
    """Return one line per cause: which parameters, how much and the cure."""
    by_cause: dict[Cause, list[Leak]] = {}
    for leak in leaks:
        by_cause.setdefault(leak.cause, []).append(leak)
    lines: list[str] = []
    for cause, members in by_cause.items():
        names = ", ".join(
            leak.name if leak.share is None else f"{leak.name} ({leak.share:.0%})" for leak in members[:_MOST_NAMES]
        )
        more = f" and {len(members) - _MOST_NAMES} more" if len(members) > _MOST_NAMES else ""
        lines.append(f"{cause}: {names}{more}; {CURES[cause]}")
    return lines
