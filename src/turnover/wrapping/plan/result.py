"""What a plan says, as data and as text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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

    Signal divided by noise is taken to grow with the root of width times replicas, as measured (exponents of .65 and
    .54; docs/results/medium/laws.md), and to fall with the number of rows, where it was measured to fall more slowly
    (exponent of -.6): of many rows it expects too little.

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
            f"rule of thumb, √(width × replicas) / n with width {self.width:,}, too low for many rows. Raise it by "
            "replicas=, wider sites or means over many queries; Scores.noise measures it"
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
