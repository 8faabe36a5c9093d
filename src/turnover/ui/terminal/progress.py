"""One bar for a whole run: the stage under way, the share that is done, and an estimate of the time left."""

import time
from collections.abc import Callable, Mapping
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskProgressColumn, TextColumn
from rich.text import Text

from turnover.ui.words import duration

# What was expected of a stage counts as much as so many seconds of measuring it.
_PRIOR = 4.0
# A stage that takes longer than expected is taken to have this share of itself left.
_LEAST_LEFT = 0.05
# Where nobody sees a bar, a sentence after so many seconds, and whenever twice the time has passed.
_FIRST_SENTENCE = 20.0
# What takes less than this is not worth a sentence.
_WORTH_SAYING = 60.0


class Estimate:
    """How long all stages take together, from what was expected of them and what was measured so far.

    How much slower or faster than expected the stages before were, those to come are taken to be as well.
    """

    def __init__(self) -> None:
        self._expected: dict[str, float] = {}
        self._taken: dict[str, float] = {}  # of finished stages
        self._stage, self._began, self._first = "", 0.0, 0.0
        self._share = 0.0  # of the stage under way
        self.began: float | None = None

    def expect(self, seconds: Mapping[str, float]) -> None:
        """Take note of how long stages should take."""
        self._expected = {name: max(value, 1e-3) for name, value in seconds.items()}

    def step(self, stage: str, share: float, now: float) -> None:
        """Take note that a share of a stage is done."""
        self.began = now if self.began is None else self.began
        if stage != self._stage:
            self._finish(now)
            # What an earlier run of the same settings did is not measured here.
            self._stage, self._began, self._first = stage, now, share
        self._share = share

    def left(self, now: float) -> float | None:
        """Return how many seconds are left; None: nothing is known yet."""
        if not self._stage or not self._expected:
            return None
        # Stages come in the order in which they are expected; of a run that is resumed the first may be missing.
        names = list(self._expected)
        after = names[names.index(self._stage) + 1 :] if self._stage in names else names
        later = sum(self._expected[name] for name in after if name not in self._taken)
        return self._left_of_stage(now) + self._slower(now) * later

    def done(self, now: float) -> float:
        """Return the share of the whole that is done."""
        left = self.left(now)
        if left is None or self.began is None:
            return 0.0
        return (now - self.began) / max(now - self.began + left, 1e-9)

    def _finish(self, now: float) -> None:
        if self._stage:
            self._taken[self._stage] = self._taken.get(self._stage, 0.0) + now - self._began

    def _measured(self, now: float) -> float:
        """Return the share of the stage under way that was done while it was watched."""
        return max(self._share - self._first, 0.0)

    def _slower(self, now: float) -> float:
        """Return by what factor stages took longer than expected."""
        both = [name for name in self._taken if name in self._expected]
        taken = sum(self._taken[name] for name in both)
        expected = sum(self._expected[name] for name in both)
        if self._stage in self._expected:
            whole = self._expected[self._stage]
            # A stage without steps shows only when it takes longer than expected.
            share = self._measured(now) or min(1.0, (now - self._began) / whole)
            taken, expected = taken + now - self._began, expected + share * whole
        return (taken + _PRIOR) / (expected + _PRIOR)

    def _left_of_stage(self, now: float) -> float:
        passed, share = now - self._began, self._measured(now)
        prior = self._expected.get(self._stage, 0.0) * self._slower(now)
        if not share:
            return max(prior * (1 - self._first) - passed, _LEAST_LEFT * passed)
        # The prior, as if it had been measured for some seconds.
        rate = (share + (_PRIOR / prior if prior else 0.0)) / (passed + (_PRIOR if prior else 0.0))
        return (1 - self._share) / rate


class Bars:
    """A watch that draws one bar for a whole run on a terminal; elsewhere it says in sentences how far that is."""

    def __init__(self, console: Console, *, advice: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._advice, self._clock, self._console = advice, clock, console
        self._estimate, self._say_after = Estimate(), _FIRST_SENTENCE
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            _Left(self._estimate, clock),
            TextColumn("[dim]{task.fields[note]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar = self._progress.add_task("", total=1.0, note="", visible=False)

    def __enter__(self) -> "Bars":
        """Begin to draw."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if not self._progress.disable:  # rich 13 and 14 would print an empty line
            self._progress.stop()

    def expect(self, seconds: Mapping[str, float]) -> None:
        """Take note of how long the stages to come should take."""
        self._estimate.expect(seconds)

    def __call__(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Take note that `done` of `total` steps of a stage are finished."""
        now = self._clock()
        self._estimate.step(stage, done / max(total, 1), now)
        steps = f"{done:,}/{total:,}" if total > 1 else ""
        self._progress.update(
            self._bar,
            description=escape(stage),
            completed=self._estimate.done(now),
            note=escape(f"{steps}  {note}".strip()),
            visible=True,
        )
        self._foretell(stage, now)

    def _foretell(self, stage: str, now: float) -> None:
        """Say how long the rest will take, after some seconds and again whenever twice the time has passed."""
        left, began = self._estimate.left(now), self._estimate.began
        if left is None or began is None or now - began < self._say_after:
            return
        self._say_after = 2 * (now - began)
        if left < _WORTH_SAYING:
            return
        sentence = f"{stage}: {duration(now - began)} done, about {duration(left)} left."
        self._console.print(f"{escape(sentence)} {escape(self._advice)}".rstrip(), soft_wrap=True)
        self._advice = ""


class _Left(ProgressColumn):
    """The time left of all stages, also while a step takes long."""

    def __init__(self, estimate: Estimate, clock: Callable[[], float]) -> None:
        super().__init__()
        self._estimate, self._clock = estimate, clock

    def render(self, task: Task) -> Text:
        left = self._estimate.left(self._clock())
        return Text("" if left is None else f"about {duration(left)} left", style="progress.remaining")
