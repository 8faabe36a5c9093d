"""What a report says, as plain data: the page and its JSON twin are made of this and of nothing else."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from turnover.applications import plain

from .data_measures import (
    ColoredPassage,
    Confusion,
    FrequencyBand,
    Histogram,
    LabelSummary,
    Leaks,
    LearningCurves,
    MemorizedWord,
    Trust,
)
from .data_rows import (
    Cell,
    DoubtfulLabel,
    DuplicateGroup,
    GroupInfluence,
    HarmfulRow,
    MemorizedRow,
    Mistake,
    ShownRow,
)

FORMAT = 1

Tone = Literal["plain", "good", "look"]


@dataclass(frozen=True)
class Finding:
    """A headline: a figure and a sentence about it.

    Attributes:
        figure: short, to be printed large.
        sentence: what it says, in plain words.
        section: id of the section that tells more.
        tone: whether it is good news, or something to look at.
    """

    figure: str
    sentence: str
    section: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Overview:
    """What the data and model are.

    Attributes:
        title: name of the data.
        kind: "text", "image", "table" or "lm".
        rows: by split.
        labels: names of the classes.
        facts: names and values for the reader.
        notes: what was found while reading, a sentence each.
        results: accuracy and the like.
        baseline: share of the most frequent label among the training rows; None: not known.
    """

    title: str
    kind: str
    rows: Mapping[str, int]
    labels: tuple[str, ...]
    facts: tuple[Cell, ...]
    notes: tuple[str, ...] = ()
    results: Mapping[str, float] = field(default_factory=dict)
    baseline: float | None = None


@dataclass(frozen=True)
class Making:
    """How the run was made, and how to make it again.

    Attributes:
        created: when it began.
        command: what to type to make it again.
        config: its settings as TOML.
        versions: of the software.
        seconds: by stage.
        run: folder of the run.
    """

    created: str
    command: str
    config: str
    versions: Mapping[str, str]
    seconds: Mapping[str, float]
    run: str


@dataclass(frozen=True)
class Counts:
    """How many there are of what the report shows only the first of.

    Attributes:
        mistakes: wrong predictions among validation and test rows.
        unseen: validation and test rows.
        doubtful: training labels that are firmly doubted by the part that never saw the row; right ones are among them.
        disbelieved: training labels that this part does not find the most probable, firmly or not.
        harmful: training rows (or groups) that harm, beyond noise.
        helpful: those that help, beyond noise.
        memorized: training rows that the network knows better for having seen them, beyond noise.
        duplicates: groups of near-duplicates.
        contradictions: those whose labels disagree.
        across_splits: those of which some rows are for training and some are not.
        asked: validation and test rows that parts of the network which never saw them were asked about, too.
        asked_disbelieved: how many of their labels those parts do not find the most probable.
    """

    mistakes: int = 0
    unseen: int = 0
    doubtful: int = 0
    disbelieved: int = 0
    harmful: int = 0
    helpful: int = 0
    memorized: int = 0
    duplicates: int = 0
    contradictions: int = 0
    across_splits: int = 0
    asked: int = 0
    asked_disbelieved: int = 0

    def expected_disbelieved(self, rows: int) -> int | None:
        """Return how many of some rows would not be believed if their labels were as good as those of unseen rows."""
        return round(rows * self.asked_disbelieved / self.asked) if self.asked else None


@dataclass(frozen=True)
class ReportData:
    """All that a report says. What is None or empty is left out of the page.

    Attributes:
        overview: what the data and model are.
        findings: headlines.
        rows: every row that something below speaks of, once.
        mistakes: wrong predictions, the surest first, with the rows behind them.
        doubtful: labels that are not believed, the most doubtful first.
        harmful: training rows by mean influence, the most harmful first.
        memorized: training rows by self-influence, the largest first.
        self_influence: of all training rows.
        duplicates: groups of near-duplicates, contradictions first.
        groups: annotators, sources or users, the most harmful first.
        classes: how well each class is known.
        confusions: which label was taken for which, the most frequent first.
        curves: losses while learning.
        leaks: the leak audit.
        trust: how far scores can be trusted.
        colored: passages of a language model's corpus.
        words: words of that corpus by self-influence, the largest first.
        frequencies: self-influence by how often a word occurs.
        mean_unit: of mean influence: "loss", or "the usual loss of each query" where each validation row counts alike.
        counts: of what is shown only in part.
        making: how it was made.
    """

    overview: Overview
    findings: tuple[Finding, ...]
    counts: Counts
    making: Making
    rows: tuple[ShownRow, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    doubtful: tuple[DoubtfulLabel, ...] = ()
    harmful: tuple[HarmfulRow, ...] = ()
    memorized: tuple[MemorizedRow, ...] = ()
    self_influence: Histogram | None = None
    duplicates: tuple[DuplicateGroup, ...] = ()
    groups: tuple[GroupInfluence, ...] = ()
    classes: tuple[LabelSummary, ...] = ()
    confusions: tuple[Confusion, ...] = ()
    curves: LearningCurves | None = None
    leaks: Leaks | None = None
    trust: Trust | None = None
    colored: tuple[ColoredPassage, ...] = ()
    words: tuple[MemorizedWord, ...] = ()
    frequencies: tuple[FrequencyBand, ...] = ()
    mean_unit: str = "loss"

    @cached_property
    def by_number(self) -> dict[int, ShownRow]:
        """Return the shown rows by their numbers."""
        return {row.row: row for row in self.rows}

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON could hold it."""
        return {"format": FORMAT, **plain(self)}

    def as_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.as_dict(), ensure_ascii=False, allow_nan=False, indent=1) + "\n"
