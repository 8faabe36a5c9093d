"""What a report says about the whole: curves, histograms, labels, leaks, trust."""

from dataclasses import dataclass

MEAN = "mean influence"
"""How `TrustOf.scores` calls the mean influence on validation rows."""


@dataclass(frozen=True)
class Histogram:
    """How many values lie between edges.

    Attributes:
        edges: one more than counts; the first and last bar hold what lies beyond, too.
        counts: values between two edges.
        noise: the same share of never-trained ids, in the scale of counts; empty: not known.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    noise: tuple[float, ...] = ()


@dataclass(frozen=True)
class LabelSummary:
    """How well one class is known.

    Attributes:
        label: its name.
        train: training rows.
        unseen: validation and test rows.
        right: how many of these are predicted rightly.
        predicted: how many validation and test rows are taken for it.
        doubtful: training labels of this class that are firmly doubted.
    """

    label: str
    train: int
    unseen: int
    right: int
    predicted: int
    doubtful: int = 0

    @property
    def recall(self) -> float | None:
        """Return the share of its rows that are predicted rightly."""
        return self.right / self.unseen if self.unseen else None

    @property
    def precision(self) -> float | None:
        """Return the share of rows taken for it that are of it."""
        return self.right / self.predicted if self.predicted else None


@dataclass(frozen=True)
class Confusion:
    """How many rows of one label were taken for another.

    Attributes:
        given: label in the data.
        predicted: label that the network gives.
        rows: how many.
    """

    given: str
    predicted: str
    rows: int


@dataclass(frozen=True)
class LearningCurves:
    """Mean losses after each epoch, and the share of validation rows that is right."""

    keep: tuple[float, ...]
    flip: tuple[float, ...]
    validation: tuple[float, ...]
    accuracy: tuple[float, ...] = ()


@dataclass(frozen=True)
class LeakedPart:
    """A parameter that carries a training row into the part that must not know it."""

    name: str
    cause: str
    share: float | None
    gradient_share: float | None
    cure: str


@dataclass(frozen=True)
class Leaks:
    """The leak audit of the model.

    Attributes:
        verdict: in one line.
        share: part of the elements used by the flipped network that a row reaches.
        gradient_share: part of a row's squared gradient that leaks.
        rows: how many rows were measured.
        parameters: trainable elements.
        parts: what leaks, the worst first.
    """

    verdict: str
    share: float
    gradient_share: float
    rows: int
    parameters: int
    parts: tuple[LeakedPart, ...] = ()


@dataclass(frozen=True)
class TrustOf:
    """How far one kind of score can be trusted.

    Attributes:
        scores: which.
        rows: how many scores there are.
        noise_ratio: spread of pure noise over the spread of scores; 1: nothing but noise.
        signal: share of the variance that noise does not explain.
        stderr: typical (median) standard error; None: not known.
        stand_out: how many stand out from noise; None: not known.
        reading: what follows, in a sentence.
        unit: of the standard error.
    """

    scores: str
    rows: int
    noise_ratio: float | None
    signal: float | None
    stderr: float | None
    stand_out: int | None
    reading: str
    unit: str = "loss"


@dataclass(frozen=True)
class Trust:
    """How far scores can be trusted.

    Attributes:
        of: one kind of score after the other.
        replicas: masked parts that scores are averaged over.
        expected: signal over noise of one pair, expected from rows, width and replicas; None: cannot be said.
        expected_reading: what that means.
        verdict: all of it in a sentence or two.
        level: share of what is said to stand out that may be noise.
        mean_influence: mean influence of training rows beside that of never-trained ids.
    """

    of: tuple[TrustOf, ...]
    replicas: int
    expected: float | None
    expected_reading: str
    verdict: str
    level: float
    mean_influence: Histogram | None = None


@dataclass(frozen=True)
class Token:
    """A word of a text and how strongly it was learned by heart.

    Attributes:
        text: with the space before it.
        step: its color, from 0 (none) to 5 (the strongest).
        score: self-influence; None: not known.
    """

    text: str
    step: int
    score: float | None = None


@dataclass(frozen=True)
class ColoredPassage:
    """A passage of a corpus, its words colored by self-influence."""

    name: str
    tokens: tuple[Token, ...]


@dataclass(frozen=True)
class MemorizedWord:
    """A word of a corpus that was learned by heart.

    Attributes:
        position: its number among the training positions.
        before: the words before it.
        word: the word.
        after: the words after it.
        score: self-influence.
        stderr: standard error; None: not known.
        times: how often the word occurs in the training text.
    """

    position: int
    before: str
    word: str
    after: str
    score: float
    stderr: float | None
    times: int


@dataclass(frozen=True)
class FrequencyBand:
    """Positions of a corpus whose words occur about equally often.

    Attributes:
        least: times that their words occur, at least.
        most: and at most.
        positions: how many positions there are.
        mean: their mean self-influence.
        memorized: how many of them stand out from noise.
    """

    least: int
    most: int
    positions: int
    mean: float
    memorized: int
