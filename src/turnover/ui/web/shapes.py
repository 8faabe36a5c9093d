"""What goes over the wire: questions, answers, rows and marks, as pydantic models."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_LETTERS = 20_000
MOST_EXAMPLES = 50

Number = Annotated[int, Field(ge=0, description="number of a row, counted from 0")]
CellValue = str | float | int | bool | None


class Shape(BaseModel):
    """All of them: nothing unknown is accepted, nothing is changed after it was made."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Cell(Shape):
    """One column of a row."""

    name: str
    value: str = Field(description="as it stands in the data; empty where it is missing")
    same: bool = Field(default=False, description="the question has the same value")


class Piece(Shape):
    """A part of a text; all pieces together are the text."""

    text: str
    shared: bool = Field(default=False, description="a word that the question and the example have in common")


class Mark(Shape):
    """A row that a person marked as wrong."""

    row: Number
    label: str | None = Field(description="the right label; null: the row is to be removed")
    given: str | None = Field(description="the label in the data")
    name: str = Field(description="line or file of the row")
    time: str = Field(description="when it was marked, in UTC")


class Row(Shape):
    """A row of the data."""

    row: Number
    name: str = Field(description="its line, or the file of an image")
    split: Literal["train", "validation", "test"]
    label: str | None = Field(description="as it stands in the data")
    text: str | None = None
    cells: list[Cell] = Field(default_factory=list, description="the columns that a table is learned from")
    image: str | None = Field(default=None, description="where its picture is")
    group: str | None = Field(default=None, description="its annotator, source or user")
    label_probability: float | None = Field(
        default=None, description="of its label, by the part of the network that never saw the row"
    )
    suggested: str | None = Field(default=None, description="the most probable other label, by that part")
    suggested_probability: float | None = None
    mark: Mark | None = None


class Example(Shape):
    """A training row behind a prediction."""

    row: Row
    score: float = Field(description="influence on the loss of the predicted label; positive: it pushed toward it")
    stderr: float | None = Field(description="standard error of the score")
    p_value: float | None = Field(description="how probable such a score is for a row that was never trained")
    stands_out: bool = Field(description="distinguishable from noise")
    pieces: list[Piece] = Field(default_factory=list, description="its text, shared words marked")
    rows: int = Field(default=1, description="training rows of its group; a group is scored as one")


class Probability(Shape):
    """How probable a label is."""

    label: str
    probability: float


class Answer(Shape):
    """A prediction and the training rows behind it."""

    predicted: str
    probability: float
    probabilities: list[Probability] = Field(description="of all labels, the most probable first")
    toward: list[Example] = Field(description="rows that pushed toward the prediction, the strongest first")
    against: list[Example] = Field(description="rows that pushed against it, the strongest first")
    meaningful: int = Field(description="so many of the first of `toward` stand out; below them the order is noise")
    meaningful_against: int
    examples_of: str = Field(description="which rows were looked at: predicted, all, or a label")
    asked: Row | None = Field(default=None, description="the row that was asked about")
    pieces: list[Piece] = Field(default_factory=list, description="the text that was asked about")
    cells: list[Cell] = Field(default_factory=list, description="the values that were asked about")
    image: str | None = Field(default=None, description="the image as the model saw it")
    unit: str = Field(description="what scores are differences of")
    replicas: int = Field(description="over how many networks scores are averaged")
    path: str = Field(description="how scores were computed")
    seconds: float = Field(description="that the model took")


class Question(Shape):
    """What to explain: a text, a row of the data, or the values of a table's row; give one of them.

    A row together with values is that row with some values changed.
    """

    text: str | None = Field(default=None, max_length=MOST_LETTERS, examples=["a moving and funny film"])
    row: Number | None = None
    values: dict[str, CellValue] | None = Field(default=None, description="by column; those left out count as missing")
    examples_of: str = Field(
        default="predicted", description="training rows of the predicted label, of all, or of the one named"
    )
    k: int = Field(default=10, ge=1, le=MOST_EXAMPLES, description="rows of each kind")


class NewMark(Shape):
    """What is right for a row that is wrong."""

    label: str | None = Field(description="the right label; null: remove the row")


class Marks(Shape):
    """All rows that were marked."""

    marks: list[Mark]


class RowList(Shape):
    """Some of the rows."""

    rows: list[Row]
    total: int = Field(description="how many rows fit the filter")


class State(Shape):
    """Whether the model can be asked."""

    state: Literal["warming up", "ready", "failed"]
    detail: str = Field(description="what is going on, in a sentence")
    waiting: int = Field(description="questions that wait or are being answered")


class About(Shape):
    """What is served."""

    name: str
    kind: Literal["text", "image", "table"]
    rows: dict[str, int] = Field(description="how many rows each split has")
    labels: list[str]
    label_column: str
    columns: list[str] = Field(description="columns that a table is learned from")
    groups: int = Field(description="annotators, sources or users that were trained as one instance each; 0: rows were")
    results: dict[str, float] = Field(description="accuracy and the like")
    versions: dict[str, str]
    state: State


class Problem(Shape):
    """What went wrong."""

    error: str
    detail: str = Field(description="a sentence that says what to do")
