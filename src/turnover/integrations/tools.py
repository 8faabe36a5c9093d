"""Experiment trackers and annotation tools, without any of their packages until one is opened.

Trackers (TensorBoard, MLflow, Weights & Biases) are small objects that take figures. Likely label errors become tasks
of Label Studio or records of Argilla, JSON files that the tools import; what people answered comes back from exports.
"""

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self
from xml.sax.saxutils import quoteattr

from turnover.errors import DataFileError, MissingExtraError, TrainingError

TrackerName = Literal["tensorboard", "mlflow", "wandb"]
_NAME = "turnover"  # of the project in a tracker, and of who made a prediction
_QUESTION = "label"
_SOURCE = "turnover_data"


class Tracker:
    """Where figures of a training go; close it, or use it in a `with` block."""

    def __init__(self, log: Callable[[Mapping[str, float], int], None], close: Callable[[], object]) -> None:
        self._log, self._close = log, close

    def log(self, figures: Mapping[str, float], *, step: int) -> None:
        """Keep figures by their names, of a step or epoch."""
        self._log(figures, step)

    def close(self) -> None:
        """Write all that is not written yet."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _tensorboard(folder: Path, name: str) -> Tracker:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder / name))

    def log(figures: Mapping[str, float], step: int) -> None:
        for figure, value in figures.items():
            writer.add_scalar(figure, value, step)

    return Tracker(log, writer.close)


def _mlflow(folder: Path, name: str) -> Tracker:
    """Goes to the server or data base of MLFLOW_TRACKING_URI; without one, to a data base in the folder."""
    from mlflow import MlflowClient  # pyright: ignore[reportMissingImports] - needs an environment of its own

    folder.mkdir(parents=True, exist_ok=True)
    address = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve() / 'mlflow.db'}"
    client = MlflowClient(tracking_uri=address)
    known = client.get_experiment_by_name(_NAME)
    experiment = client.create_experiment(_NAME) if known is None else known.experiment_id
    run: str = client.create_run(experiment, run_name=name).info.run_id

    def log(figures: Mapping[str, float], step: int) -> None:
        for figure, value in figures.items():
            client.log_metric(run, figure, value, step=step)

    return Tracker(log, lambda: client.set_terminated(run))


def _wandb(folder: Path, name: str) -> Tracker:
    """Offline unless WANDB_MODE says otherwise: nothing leaves the machine until `wandb sync`."""
    import wandb  # pyright: ignore[reportMissingImports]

    folder.mkdir(parents=True, exist_ok=True)
    mode: Any = os.environ.get("WANDB_MODE", "offline")
    quiet = wandb.Settings(silent=True)
    run: Any = wandb.init(project=_NAME, name=name, dir=str(folder), mode=mode, reinit="create_new", settings=quiet)
    return Tracker(lambda figures, step: run.log(dict(figures), step=step), run.finish)


_TRACKERS = {"tensorboard": _tensorboard, "mlflow": _mlflow, "wandb": _wandb}


def open_tracker(name: TrackerName | str, folder: str | os.PathLike[str], *, run: str = "run") -> Tracker:
    """Return a tracker to log figures to, such as those of `measure_curves`.

    Trainers of Hugging Face and Lightning have trackers of their own, to which `HFLearningCurves` and
    `LightningLearningCurves` log.

    Args:
        name: "tensorboard", "mlflow" or "wandb".
        folder: where its files go; MLFLOW_TRACKING_URI and WANDB_MODE are honored.
        run: what the run is called there.

    Raises:
        TrainingError: there is no such tracker.
        MissingExtraError: its package is not installed.

    Example:
        >>> def train(steps, model, sample, folder):
        ...     with open_tracker("tensorboard", folder) as tracker:
        ...         for step in range(steps):
        ...             ...  # the training
        ...             tracker.log(measure_curves(model, train=sample), step=step)
    """
    check_tracker(name)
    return _TRACKERS[name](Path(folder), run)


def check_tracker(name: str) -> None:
    """Raise where there is no such tracker, or its package is missing."""
    if name not in _TRACKERS:
        raise TrainingError(f"there is no tracker {name!r}. Give one of {', '.join(_TRACKERS)}.")
    if importlib.util.find_spec(name) is None:
        raise MissingExtraError(f"the tracker {name!r} needs its package: pip install {name}.")


@dataclass(frozen=True)
class AnnotationItem:
    """A row that a person should look at.

    Attributes:
        content: what is shown: a text, an image as an address or data URI, or the cells of a row as text.
        label: the given one.
        suggestion: the held-out prediction, which has this probability.
    """

    row: int
    content: str
    label: str
    suggestion: str
    probability: float


@dataclass(frozen=True)
class Annotations:
    """Row to label, where all who answered agree; rows on which they do not, and rows without an answer."""

    labels: Mapping[int, str]
    undecided: tuple[int, ...]
    unanswered: tuple[int, ...]


def label_studio_config(kind: Literal["text", "image", "table"], labels: Sequence[str]) -> str:
    """Return the labeling interface of a Label Studio project for these tasks: one choice among the labels.

    Example:
        >>> '<Choice value="pos"/>' in label_studio_config("text", ["neg", "pos"])
        True
    """
    shown = "Image" if kind == "image" else "Text"
    choices = "\n".join(f"    <Choice value={quoteattr(label)}/>" for label in labels)
    return (
        f'<View>\n  <{shown} name="content" value="$content"/>\n  <Header value="Given label: $given_label"/>\n'
        f'  <Choices name="{_QUESTION}" toName="content" choice="single" required="true">\n{choices}\n  </Choices>\n'
        "</View>\n"
    )


def label_studio_tasks(items: Sequence[AnnotationItem], *, source: str | None) -> list[dict[str, Any]]:
    """Return tasks to import into Label Studio, each with the held-out prediction as its own.

    Args:
        items: rows to look at.
        source: checksum of the data, by which answers of other data are told apart.

    Example:
        >>> task = label_studio_tasks([AnnotationItem(7, "a text", "neg", "pos", 0.9)], source="ab12")[0]
        >>> task["predictions"][0]["result"][0]["value"]
        {'choices': ['pos']}
    """
    return [
        {
            "data": {"content": item.content, "given_label": item.label, "row": item.row, _SOURCE: source},
            "predictions": [
                {
                    "model_version": _NAME,
                    "score": item.probability,
                    "result": [
                        {
                            "from_name": _QUESTION,
                            "to_name": "content",
                            "type": "choices",
                            "value": {"choices": [item.suggestion]},
                        }
                    ],
                }
            ],
        }
        for item in items
    ]


def argilla_records(items: Sequence[AnnotationItem], *, source: str | None) -> list[dict[str, Any]]:
    """Return records as `argilla.Dataset.records.from_json` reads them; arguments as for `label_studio_tasks`.

    The data set has a field "content" and a LabelQuestion "label".

    Example:
        >>> argilla_records([AnnotationItem(7, "a text", "neg", "pos", 0.9)], source="ab12")[0]["suggestions"]
        {'label': {'value': 'pos', 'score': 0.9, 'agent': 'turnover'}}
    """
    return [
        {
            "id": str(item.row),
            "fields": {"content": item.content},
            "metadata": {"row": item.row, "given_label": item.label, _SOURCE: source},
            "suggestions": {_QUESTION: {"value": item.suggestion, "score": item.probability, "agent": _NAME}},
            "responses": {},
            "vectors": {},
        }
        for item in items
    ]


def read_annotations(exported: Any, *, source: str | None) -> Annotations:
    """Return the labels of an export: Label Studio's JSON or JSON-MIN, or Argilla's records.

    Args:
        exported: the content of the file.
        source: checksum of the data; what was made of other data is rejected.

    Raises:
        DataFileError: it is none of these exports, or one of other data.

    Example:
        >>> done = [{"row": 7, "turnover_data": None, "label": "pos", "content": "a text"}]
        >>> read_annotations(done, source=None).labels
        {7: 'pos'}
    """
    if not isinstance(exported, list) or not all(isinstance(entry, dict) for entry in exported):
        raise DataFileError(
            "the file is not an export of Label Studio or Argilla, a list of tasks or records. Export as JSON."
        )
    answers: dict[int, list[str]] = {}
    for place, entry in enumerate(exported):
        try:
            about, given = _parts_of(entry)
            row = about.get("row")
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            raise DataFileError(
                f"entry {place} has not the form of an exported task or record ({type(error).__name__}: {error}). "
                "Export as JSON again."
            ) from error
        if not isinstance(row, int) or isinstance(row, bool):
            raise DataFileError(
                f"entry {place} has no row number: it was not written by turnover annotate. Import only tasks of it."
            )
        if about.get(_SOURCE) != source:
            raise DataFileError(
                f"entry {place} (row {row}) was made of other data than this run has. Give the export of tasks that "
                "turnover annotate wrote for this run."
            )
        answers.setdefault(row, []).extend(given)
    labels = {row: given[0] for row, given in answers.items() if len(set(given)) == 1}
    return Annotations(
        labels,
        tuple(row for row, given in answers.items() if len(set(given)) > 1),
        tuple(row for row, given in answers.items() if not given),
    )


def _parts_of(entry: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """Return what identifies an entry, and the labels that people gave it."""
    if "fields" in entry:
        responses = (entry.get("responses") or {}).get(_QUESTION) or []
        submitted = [one for one in responses if one.get("status", "submitted") == "submitted"]
        return entry.get("metadata") or {}, [str(one["value"]) for one in submitted if one.get("value") is not None]
    if "data" in entry:
        done = [one for one in entry.get("annotations") or [] if not one.get("was_cancelled")]
        results = [result for one in done for result in one.get("result") or [] if result.get("from_name") == _QUESTION]
        return entry["data"], [str(choice) for result in results for choice in result["value"].get("choices") or []]
    chosen = entry.get(_QUESTION)
    given = chosen.get("choices", []) if isinstance(chosen, dict) else [] if chosen is None else [chosen]
    return entry, [str(label) for label in given]
