"""What a report says about rows: how they are shown, and lists of them."""

from dataclasses import dataclass

Span = tuple[int, int]
Cell = tuple[str, str]


@dataclass(frozen=True)
class ShownRow:
    """A row as a reader sees it: a text, an image or the cells of a table.

    Attributes:
        row: its number, counted from 0.
        name: its line, or the file of an image.
        split: what it was used for.
        label: its label as it stands in the data; None: it has none.
        text: its text, shortened where it is long.
        image: its picture as a data URI.
        cells: names and values of its first columns.
        group: its annotator, source or user.
        more_cells: how many columns it has beyond those.
    """

    row: int
    name: str
    split: str
    label: str | None
    text: str | None = None
    image: str | None = None
    cells: tuple[Cell, ...] = ()
    group: str | None = None
    more_cells: int = 0


@dataclass(frozen=True)
class Behind:
    """One training row, or group of rows, behind a prediction.

    Attributes:
        row: its number; where groups were trained, that of the group's first row.
        score: influence on the prediction; positive: it pushed toward it.
        stderr: its standard error; None: not known.
        p_value: how probable such a score is for a row that was never trained; None: not known.
        stands_out: distinguishable from noise.
        marks: parts of its text that the predicted text has too, from and up to which letter.
        same: columns in which it has nearly the value that the predicted row has.
        group: name of the group, where groups were trained and not rows.
    """

    row: int
    score: float
    stderr: float | None
    p_value: float | None
    stands_out: bool
    marks: tuple[Span, ...] = ()
    same: tuple[str, ...] = ()
    group: str | None = None


@dataclass(frozen=True)
class Mistake:
    """A wrong prediction and the training rows behind it.

    Attributes:
        row: number of the row that is predicted wrongly.
        predicted: label that the network gives it.
        probability: of that label.
        given: label in the data.
        pushed: training rows that pushed toward the prediction, the strongest first.
        against: those that pushed against it.
        meaningful: how many of the first that pushed stand out; from there on the order is noise.
        meaningful_against: the same for those that pushed against it.
        marks: parts of its text that some row behind it has too.
    """

    row: int
    predicted: str
    probability: float
    given: str
    pushed: tuple[Behind, ...]
    against: tuple[Behind, ...]
    meaningful: int
    meaningful_against: int
    marks: tuple[Span, ...] = ()


@dataclass(frozen=True)
class DoubtfulLabel:
    """A training row whose label is not believed by the part of the network that never saw it.

    Attributes:
        row: its number.
        given: its label.
        suggested: the label to put in its place.
        given_probability: of its label, by the part of the network that never saw the row.
        suggested_probability: of the other label, by that part.
        firm: the other label is as probable as it is, on average, to rows that have it.
        self_influence: how much it had to be learned by heart; None: not known.
        duplicates: numbers of its near-duplicates among the training rows.
    """

    row: int
    given: str
    suggested: str
    given_probability: float
    suggested_probability: float
    firm: bool
    self_influence: float | None = None
    duplicates: tuple[int, ...] = ()


@dataclass(frozen=True)
class HarmfulRow:
    """A training row and its mean influence on the validation rows.

    Attributes:
        row: its number.
        score: mean influence; negative: it harms.
        stderr: standard error; None: not known.
        p_value: how probable such a score is for a row that was never trained; None: not known.
        stands_out: distinguishable from noise.
        doubtful: its label is firmly doubted, too.
    """

    row: int
    score: float
    stderr: float | None
    p_value: float | None
    stands_out: bool
    doubtful: bool = False


@dataclass(frozen=True)
class MemorizedRow:
    """A training row and its influence on itself.

    Attributes:
        row: its number.
        score: self-influence: how much worse the network would know it, had it not seen it.
        stderr: standard error; None: not known.
        unseen_probability: of its label, by the part of the network that never saw it; None: not known.
        doubtful: its label is firmly doubted, too.
    """

    row: int
    score: float
    stderr: float | None
    unseen_probability: float | None = None
    doubtful: bool = False


@dataclass(frozen=True)
class DuplicateGroup:
    """Rows that are nearly the same.

    Attributes:
        rows: numbers of the first of them.
        size: how many there are.
        exact: all are the same, but for case, signs and spaces.
        labels_agree: whether all have one label.
        splits_differ: at least one is for training and one for validation or test, so that the network is tested on
            what it has seen.
    """

    rows: tuple[int, ...]
    size: int
    exact: bool
    labels_agree: bool
    splits_differ: bool


@dataclass(frozen=True)
class GroupInfluence:
    """An annotator, source or user, and what its rows do together.

    Attributes:
        group: its name.
        rows: how many training rows it has.
        score: mean influence on the validation rows; negative: it harms.
        stderr: standard error; None: not known.
        p_value: None: not known.
        stands_out: distinguishable from noise.
        doubtful: how many of its labels are firmly doubted.
    """

    group: str
    rows: int
    score: float
    stderr: float | None
    p_value: float | None
    stands_out: bool
    doubtful: int = 0
