"""What a campaign counts: trials of one kind, each of whose inputs ends in exactly one outcome."""

import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import hypothesis
from hypothesis import strategies as st

from turnover.errors import TurnOverError

_MOST_EXAMPLES = 5


class Outcome(StrEnum):
    RIGHT = "correct"  # as the oracle says
    REJECTED = "rejected with a message"
    WARNED = "warned"
    REPAIRED = "recovered"
    DIFFERENT = "silently wrong"
    LOST = "lost"
    TRACEBACK = "traceback"


FAILURES = (Outcome.DIFFERENT, Outcome.LOST, Outcome.TRACEBACK)
"""Outcomes that must not occur."""


@dataclass
class Tally:
    counts: Counter[Outcome] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # figures that are no counts; why something was not tried
    seconds: float = 0.0

    @property
    def tried(self) -> int:
        return self.counts.total()

    @property
    def failed(self) -> int:
        return sum(self.counts[outcome] for outcome in FAILURES)

    def add(self, outcome: Outcome, about: str) -> None:
        """Count one input; `about` says which it was and, of a failure, what went wrong."""
        self.counts[outcome] += 1
        if outcome in FAILURES and len(self.examples) < _MOST_EXAMPLES:
            self.examples.append(f"{outcome}: {about}")


@dataclass(frozen=True)
class Budget:
    """How much of a trial is run: a share of its inputs, drawn by a seed, until a moment."""

    seed: int = 0
    share: float = 1.0
    ends: float = float("inf")  # by time.monotonic

    def count(self, whole: int) -> int:
        return max(1, round(whole * self.share))

    @property
    def over(self) -> bool:
        return time.monotonic() > self.ends


@dataclass(frozen=True)
class Trial:
    """One row of the table: a name, what is tried and who judges it, and the function that tries it."""

    name: str
    what: str
    judge: str
    run: Callable[[Budget, Tally], None]


def judged(action: Callable[[], str]) -> tuple[Outcome, str]:
    """Return how an action ended which returns what is different from what it should be, "" where nothing is.

    An error of turnover is a sentence, any other a traceback. A warning of something different makes it no silence.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            difference = action()
        except TurnOverError as error:
            sentence = str(error)
            plain = bool(sentence.strip()) and "Traceback" not in sentence and " object at 0x" not in sentence
            return (Outcome.REJECTED, sentence) if plain else (Outcome.TRACEBACK, f"no sentence: {sentence!r}")
        except Exception as error:  # noqa: BLE001 - whatever else comes is what a campaign looks for
            place = traceback.extract_tb(error.__traceback__)[-1]
            return Outcome.TRACEBACK, f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"
    if caught and difference:
        return Outcome.WARNED, str(caught[0].message)
    return (Outcome.DIFFERENT, difference) if difference else (Outcome.RIGHT, "")


def try_generated(
    cases: st.SearchStrategy[Any], most: int, one: Callable[[Any], tuple[Outcome, str]], budget: Budget, tally: Tally
) -> None:
    """Draw a share of `most` cases by the seed of the budget, and count how each ends."""

    @hypothesis.seed(budget.seed)
    @hypothesis.settings(
        max_examples=budget.count(most),
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(cases)
    def draw(case: Any) -> None:
        if not budget.over:
            outcome, about = one(case)
            tally.add(outcome, f"{case} -> {about}")

    draw()
