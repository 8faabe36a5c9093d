"""Settings of a run: everything that decides its result, as a declared schema and as a TOML file."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, get_args

from turnover.errors import MissingExtraError, RunError

try:
    from pydantic import ConfigDict, Field, ValidationError, model_validator
    from pydantic.dataclasses import dataclass
except ImportError as error:
    raise MissingExtraError("runs need pydantic: pip install 'turnover[cli]'.") from error

Kind = Literal["text", "image", "table", "classification", "regression"]
KINDS = get_args(Kind)
LANGUAGE_MODELS = (
    "is for a language model, and a run learns labels. The language models of turnover are causal models of Hugging "
    "Face: see docs/language-models.md, or notebooks/language_model.ipynb. To learn labels of texts, give a csv with a "
    "column of texts and one of labels: --text NAME --label NAME."
)


class Watch(Protocol):
    """Called as a run makes progress, so that a terminal can show a bar."""

    def __call__(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Take note that `done` of `total` steps of a stage are finished."""
        ...


def unwatched(stage: str, done: int, total: int, note: str = "") -> None:
    """Take no note of anything."""


PATHS = ("data", "validation_data", "test_data", "model")
"""Settings that name a file or folder."""

_LONGEST_NAME, _LONGEST_PATH = 255, 4095
# A width, a number of epochs or words above this is a slip of the finger, and would end without memory.
_MOST = 1_000_000
_Share = Annotated[float, Field(gt=0, lt=1)]
_Count = Annotated[int, Field(ge=1, le=_MOST)]
_CountOrDefault = Annotated[int, Field(ge=0, le=_MOST)]
_Rate = Annotated[float, Field(ge=0, le=_MOST)]

# Settings that some kinds of data have no use for, and the kinds that read them.
_READ_BY: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "columns": ("table",),
    "model": ("text",),
    "image_size": ("image",),
}
_CALLED = {"text": "texts", "image": "images", "table": "tables"}


@dataclass(frozen=True, config=ConfigDict(extra="forbid", strict=True))
class RunConfig:
    """How data becomes a trained model that can be asked.

    Attributes:
        data: a csv, tsv, jsonl, json or parquet file, a folder of images, an npz file, or the name of a data set on the
            Hugging Face hub.
        task: kind of data, or whether labels are classes or numbers; None: auto-detected.
        text: column of texts.
        label: column of labels.
        columns: columns that a table is learned from; empty: all but the label, id and group.
        group: column of annotators, sources or users; all rows of a group are one instance.
        validation_data: file of validation rows; None: a share of the data.
        test_data: file of test rows; None: a share of the data.
        validation: share of the rows for validation.
        test: share of the rows for the test.
        max_rows: maximum number of training rows, drawn at random; None: all.
        skip_bad: skip rows that cannot be learned from (no text, no label, a damaged image, a label that no training
            row has) instead of rejecting the data.
        model: folder or hub name of a pretrained encoder for texts; None: hashed n-grams, without any download.
        adapters: bottleneck width of adapters that are trained in the encoder; 0: it stays frozen, and a masked layer
            on top learns.
        hidden: width of the masked layer; 0: the default of the kind of data.
        replicas: masked parts in one training; from 3 on scores have standard errors of their own. 0: the default of
            the kind of data; 1 with adapters.
        keep: share of the units that an instance trains.
        epochs: passes over the training rows; 0: the default of the kind of data.
        batch_size: rows per batch.
        learning_rate: of AdamW; 0: the default of the kind of data.
        weight_decay: of AdamW.
        balance: weight classes in the loss by their rarity.
        image_size: pixels that the shorter side of images is scaled to.
        seed: of splits, weights, masks and batches.
    """

    data: str
    task: Kind | None = None
    text: str | None = None
    label: str | None = None
    columns: tuple[str, ...] = ()
    group: str | None = None
    validation_data: str | None = None
    test_data: str | None = None
    validation: _Share = 0.1
    test: Annotated[float, Field(ge=0, lt=1)] = 0.1
    max_rows: Annotated[int, Field(ge=1)] | None = None
    skip_bad: bool = False
    model: str | None = None
    adapters: _CountOrDefault = 0
    hidden: _CountOrDefault = 0
    replicas: _CountOrDefault = 0
    keep: _Share = 0.5
    epochs: _CountOrDefault = 0
    batch_size: _Count = 64
    learning_rate: _Rate = 0.0
    weight_decay: _Rate = 1e-4
    balance: bool = True
    image_size: _Count = 32
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0

    @model_validator(mode="wrap")
    @classmethod
    def _all_problems(cls, values: Any, make: Any) -> Any:
        """Reject settings that cannot be run, all problems at once."""
        try:
            return make(values)
        except ValidationError as error:
            if any(problem["loc"] == ("task",) and problem["input"] == "lm" for problem in error.errors()):
                raise RunError(f"--task lm {LANGUAGE_MODELS}") from None
            problems = [
                f"{problem['loc'][0]} {problem['msg'].replace('Input should be', 'must be')}, got {problem['input']!r}"
                for problem in error.errors()
            ]
            raise RunError(f"these settings cannot be run: {'; '.join(problems)}.") from None

    def __post_init__(self) -> None:
        """Reject settings that contradict each other, and names that no file can have."""
        problems = [f"{name} {problem}" for name in PATHS if (problem := unusable_path(getattr(self, name)))]
        if self.validation + self.test >= 1:
            problems.append("validation and test together leave no rows for training")
        if self.adapters and self.model is None:
            problems.append("adapters go into a pretrained encoder: give model too")
        if self.adapters and self.replicas > 1:
            problems.append(
                f"replicas must be 1 with adapters, or a run would take hours, got {self.replicas}: omit replicas"
            )
        if problems:
            raise RunError(f"these settings cannot be run: {'; '.join(problems)}.")

    @property
    def split_files(self) -> list[tuple[int, str]]:
        """Return the files of validation and test rows with the split, 1 or 2, that each is."""
        files = ((1, self.validation_data), (2, self.test_data))
        return [(split, file) for split, file in files if file is not None]

    def check_kind(self, kind: str) -> None:
        """Reject settings of a new run that this kind of data, "text", "image" or "table", has no use for."""
        unset = {part.name: part.default for part in fields(self)}
        for share, file in (("validation", self.validation_data), ("test", self.test_data)):
            if file is not None and getattr(self, share) not in (0, unset[share]):
                raise RunError(f"{share} is a share of the data, and {share}_data brings rows of its own. Omit one.")
        problems = [
            f"{name} is for {' and '.join(_CALLED[one] for one in kinds)}"
            for name, kinds in _READ_BY.items()
            if kind not in kinds and getattr(self, name) != unset[name]
        ]
        if self.task in _CALLED and self.task != kind:
            problems.append(f"task is {self.task!r}")
        if problems:
            raise RunError(
                f"these settings would do nothing: {'; '.join(problems)}; but {self.data!r} is read as "
                f"{_CALLED[kind]}. Leave them out."
            )

    @classmethod
    def from_values(cls, values: Mapping[str, Any], *, source: str) -> "RunConfig":
        """Return the config of plain values by name, lists in place of tuples; `source` says where they come from."""
        known = {part.name for part in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown or "data" not in values:
            missing = "no setting 'data'" if not unknown else f"unknown settings {', '.join(unknown)}"
            raise RunError(f"{source} has {missing}. The settings of a run are {', '.join(sorted(known))}.")
        plain: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return cls(**plain)

    @classmethod
    def read(cls, file: Path | str) -> "RunConfig":
        """Return the config of a TOML file, as a run folder holds it."""
        try:
            if Path(file).exists() and not (Path(file).is_file() or Path(file).is_dir()):
                raise OSError(None, "it is a pipe or device")
            values = tomllib.loads(Path(file).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise RunError(f"there is no file {str(file)!r}. A run keeps its settings in RUN/config.toml.") from error
        except OSError as error:
            raise RunError(
                f"{str(file)!r} cannot be read: {error.strerror or error}. Give a file, such as RUN/config.toml."
            ) from error
        except (ValueError, RecursionError) as error:  # of TOML, UTF-8, or numbers and lists beyond all measure
            raise RunError(f"{str(file)!r} is not TOML: {error}.") from error
        return cls.from_values(values, source=repr(str(file)))

    def with_defaults(self, **defaults: float) -> "RunConfig":
        """Return the settings with defaults in place of what was left open (0)."""
        values: dict[str, Any] = {name: getattr(self, name) or value for name, value in defaults.items()}
        return replace(self, **values)

    def as_dict(self) -> dict[str, Any]:
        """Return all settings, ready for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def as_toml(self) -> str:
        """Return the settings as TOML; None is omitted."""
        # A JSON string, number, bool or list is TOML too.
        return "".join(
            f"{name} = {json.dumps(value, ensure_ascii=False)}\n"
            for name, value in self.as_dict().items()
            if value is not None
        )


def unusable_path(path: str | None) -> str | None:
    """Return why no file or folder can have this path; None: it can."""
    try:
        parts = [part.encode() for part in (path or "").split("/")]
    except UnicodeEncodeError:
        return f"{path!a} is not valid UTF-8"
    if any(b"\0" in part for part in parts):
        return f"{path!r} has a zero byte in it"
    if max(map(len, parts)) > _LONGEST_NAME or sum(map(len, parts)) + len(parts) > _LONGEST_PATH:
        return f"'{path[:40]}...' is too long for a file name" if path else None
    return None
