"""What the audit found, as data and as a table."""

from dataclasses import asdict, dataclass
from typing import Any

from turnover.wrapping.plan.table import columns

from .leaks import CURES, Leak

_SMALL, _LARGE = 0.01, 0.25


@dataclass(frozen=True)
class AuditReport:
    """Leaks of a wrapped model; print it.

    Attributes:
        leaks: parameters (and statistics) that carry an instance into its flipped network.
        share: part of the elements used by the flipped network that the instance reaches.
        gradient_share: part of the instance's squared gradient that lies on them: how much of a step on it leaks.
        rows: how many instances were measured.
        parameters: trainable elements.
    """

    leaks: tuple[Leak, ...]
    share: float
    gradient_share: float
    rows: int
    parameters: int

    @property
    def clean(self) -> bool:
        """Tell whether nothing leaks."""
        return not self.leaks

    @property
    def by_cause(self) -> dict[str, float]:
        """Return the part of the squared gradient that leaks, by cause; statistics have none and count 0."""
        causes: dict[str, float] = {}
        for leak in self.leaks:
            causes[leak.cause] = causes.get(leak.cause, 0.0) + (leak.gradient_share or 0.0)
        return dict(sorted(causes.items(), key=lambda item: -item[1]))

    @property
    def verdict(self) -> str:
        """Return in one line whether scores can be trusted and what to change."""
        if self.clean:
            return "Clean: a step on an instance changes nothing that its flipped network uses. Scores can be trusted."
        worst = max(self.leaks, key=lambda leak: leak.gradient_share or 0.0)
        size = (
            f"{self.gradient_share:.1%} of an instance's squared gradient, {self.share:.1%} of the elements that "
            "its flipped network uses"
        )
        if self.gradient_share < _SMALL:
            head, trust = "Small leak", "can be used"
        elif self.gradient_share < _LARGE:
            head, trust = "Leak", "are usable with care: they come out too small"
        else:
            head, trust = "Large leak", "cannot be trusted"
        return f"{head}: {size}. Scores {trust}. Change first: {worst.name} ({worst.cause}): {CURES[worst.cause]}."

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, ready for JSON."""
        leaks = [{**asdict(leak), "cure": leak.cure} for leak in self.leaks]
        return {**asdict(self), "leaks": leaks, "by_cause": self.by_cause, "verdict": self.verdict}

    def __str__(self) -> str:
        """Return the table that a person reads."""
        lines = [self.verdict]
        if self.leaks:
            rows = [
                [
                    leak.name,
                    leak.cause,
                    "?" if leak.share is None else f"{leak.share:.1%}",
                    "-" if leak.gradient_share is None else f"{leak.gradient_share:.1%}",
                    leak.cure,
                ]
                for leak in sorted(self.leaks, key=lambda leak: -(leak.gradient_share or 0.0))
            ]
            lines += [
                "",
                *columns(["parameter", "cause", "elements", "gradient", "what to change"], rows),
            ]
        lines += [
            "",
            f"Measured on {self.rows} instances, {self.parameters:,} trainable elements. Not seen here: clipping by "
            "the global gradient norm couples all instances of a batch, and later steps on other instances carry on "
            "what this one changed.",
        ]
        return "\n".join(lines)
