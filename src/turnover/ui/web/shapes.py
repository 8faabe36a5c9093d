"""What goes over the wire: questions, answers, rows and marks, as pydantic models."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MOST_LETTERS = 20_000
MOST_EXAMPLES = 50


def _whole(value: object) -> object:
    """Reject what Python takes for a number, and JSON does not."""
    if isinstance(value, bool | str):
        raise ValueError("Input should be a valid integer")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Number = Annotated[Whole, Field(ge=0, description="number of a row, counted from 0")]
CellValue = str | float | int | bool | None
Label = str | float
Span = tuple[int, int]


class Shape(BaseModel):
    """All of them: nothing unknown is accepted, nothing is changed after it was made."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Cell(Shape):
    """One column of a row."""

    name: str
    value: str = Field(description="as it stands in the data; empty where it is missing")


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
    label: Label | None = Field(description="as it stands in the data; a number in a regression")
    text: str | None = None
    cells: list[Cell] = Field(default_factory=list, description="the feature columns of a table")
    image: str | None = Field(default=None, description="where its picture is")
    group: str | None = Field(default=None, description="its annotator, source or user")
    held_out_label: Label | None = Field(default=None, description="the prediction by a network not trained on the row")
    held_out_probability: float | None = Field(default=None, description="of that label")
    label_quality: float | None = Field(default=None, description="held-out probability of the row's own label")
    residual: float | None = Field(
        default=None, description="of a number: label minus held-out prediction, in units of the usual distance"
    )
    likely_label_error: bool = Field(default=False, description="the label is a likely error")
    suggested: str | None = Field(default=None, description="the most probable other label")
    mark: Mark | None = None


class Example(Shape):
    """A training example behind a prediction; where groups are the instances, a group by its first row."""

    id: int = Field(description="instance id")
    position: int = Field(description="place among the training instances")
    row: Number
    name: str | None
    label: Label | None = Field(description="null for a group")
    group: str | None
    rows: int = Field(description="training rows of its group; a group is scored as one")
    score: float = Field(
        description="influence on the loss of the predicted label, positive: it supports it; of a regression on the "
        "predicted number, positive: it raises it"
    )
    stderr: float | None = Field(description="standard error of the score; null: too few replicas for one")
    p_value: float | None = Field(description="probability of such a score for a null id; null: there are none")
    significant: bool = Field(description="at a false discovery rate of 5 %; never where noise_from is null")
    shared_spans: list[Span] = Field(description="words that the query has too: where they start and end")
    near_columns: list[str] = Field(description="columns with nearly the value of the query")
    shown: Row = Field(description="the row itself")


class Probability(Shape):
    """How probable a label is."""

    label: str
    probability: float


class Answer(Shape):
    """A prediction and the training examples behind it."""

    predicted: Label = Field(description="a label; a number in a regression")
    probability: float | None = Field(description="of that label; null in a regression")
    probabilities: list[Probability] = Field(description="of all labels, the most probable first")
    label: Label | None = Field(description="label of the row that was asked about")
    error: bool = Field(description="the prediction differs from that label")
    supporting: list[Example] = Field(description="training examples that support the prediction, the strongest first")
    opposing: list[Example] = Field(description="training examples that oppose it, the strongest first")
    significant_supporting: int = Field(description="so many of them are significant")
    significant_opposing: int
    shared_spans: list[Span] = Field(description="words of the query that an example has too")
    examples_of: str = Field(description="which rows were looked at: predicted, all, or a label")
    asked: Row | None = Field(default=None, description="the row that was asked about")
    text: str | None = Field(default=None, description="the text that was asked about")
    cells: list[Cell] = Field(default_factory=list, description="the values that were asked about")
    image: str | None = Field(default=None, description="the image as the model saw it")
    unit: str = Field(description="what scores are differences of")
    standardized: bool = Field(description="scores are relative: 1 is the usual effect of a row on the prediction")
    method: str = Field(description="estimator of the scores: curvature or tod")
    noise_from: Literal["null_ids", "replicas"] | None = Field(
        description="what significance is judged by; null: too few replicas, so that nothing is marked"
    )
    replicas: int = Field(description="over how many networks scores are averaged")
    path: str = Field(description="how scores were computed")
    numeric: bool = Field(description="the prediction is a number, which supporting examples raise")
    seconds: float = Field(description="that the model took")


class Question(Shape):
    """What to explain: a text, a row of the data, or the values of a table's row; give one of them.

    A row together with values is that row with some values changed.
    """

    text: str | None = Field(default=None, max_length=MOST_LETTERS, examples=["a moving and funny film"])
    row: Number | None = None
    values: dict[str, CellValue] | None = Field(default=None, description="by column; those left out count as missing")
    examples_of: str = Field(
        default="predicted", description="training examples of the predicted label, of all, or of the one named"
    )
    k: Whole = Field(default=10, ge=1, le=MOST_EXAMPLES, description="supporting and opposing examples, each")


class NewMark(Shape):
    """What is right for a row that is wrong."""

    label: str | None = Field(description="the right label, as text; null: remove the row")


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
    labels: list[str] = Field(description="all classes; none where labels are numbers")
    task: Literal["classification", "regression"]
    label_column: str
    columns: list[str] = Field(description="feature columns of a table")
    groups: int = Field(description="annotators, sources or users trained as one instance each; 0: rows were")
    results: dict[str, float] = Field(description="accuracy and the like")
    warning: str = Field(description="what to know before any list is read; empty: nothing")
    versions: dict[str, str]
    state: State


class Problem(Shape):
    """What went wrong."""

    error: str
    detail: str = Field(description="a sentence that says what to do")
