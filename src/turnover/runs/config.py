"""Settings of a run: everything that decides its result, as a dataclass and as a TOML file."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from turnover.errors import RunError
from turnover.storage import wrong_types

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
_AT_LEAST_ONE = ("batch_size", "image_size")
_OPEN = ("hidden", "replicas", "epochs")
# A width, a number of epochs or words above this is a slip of the finger, and would end without memory.
_MOST = 1_000_000


# Settings that some kinds of data have no use for, and the kinds that read them.
_READ_BY: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "label": ("text", "image", "table"),
    "columns": ("table",),
    "group": ("text", "image", "table"),
    "model": ("text",),
    "image_size": ("image",),
}
_CALLED = {"text": "texts", "image": "images", "table": "tables"}


@dataclass(frozen=True)
class RunConfig:
    """How data becomes a trained model that can be asked.

    Attributes:
        data: a csv, tsv, jsonl, json or parquet file, a folder of images, an npz file, or the name of a data set
            on the Hugging Face hub.
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
    validation: float = 0.1
    test: float = 0.1
    max_rows: int | None = None
    skip_bad: bool = False
    model: str | None = None
    adapters: int = 0
    hidden: int = 0
    replicas: int = 0
    keep: float = 0.5
    epochs: int = 0
    batch_size: int = 64
    learning_rate: float = 0.0
    weight_decay: float = 1e-4
    balance: bool = True
    image_size: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject settings that cannot be run, all problems at once."""
        if self.task == "lm":
            raise RunError(f"--task lm {LANGUAGE_MODELS}")
        if wrong := wrong_types(self):
            raise RunError(f"these settings cannot be run: values of the wrong type: {', '.join(wrong)}.")
        if unusable := [f"{name} {problem}" for name in PATHS if (problem := unusable_path(getattr(self, name)))]:
            raise RunError(f"these settings cannot be run: {'; '.join(unusable)}. Give another name.")
        checks = [
            ("task", self.task is None or self.task in KINDS, f"one of {', '.join(KINDS)}"),
            ("validation", 0 < self.validation < 1, "a share between 0 and 1, such as 0.1"),
            ("test", 0 <= self.test < 1, "a share from 0 up to 1, such as 0.1"),
            ("max_rows", self.max_rows is None or self.max_rows > 0, "an integer >= 1"),
            ("keep", 0 < self.keep < 1, "a share between 0 and 1, such as 0.5"),
            ("learning_rate", 0 <= self.learning_rate <= _MOST, f"a number above 0, at most {_MOST:,}"),
            ("weight_decay", 0 <= self.weight_decay <= _MOST, f"a number from 0 to {_MOST:,}"),
            ("adapters", 0 <= self.adapters <= _MOST, "a width, such as 64, or 0 for none"),
            ("seed", 0 <= self.seed < 2**31, "an integer from 0 to 2147483647"),
            *((name, getattr(self, name) >= 1, "an integer >= 1") for name in _AT_LEAST_ONE),
            *((name, getattr(self, name) >= 0, "an integer >= 1, or 0 for the default") for name in _OPEN),
            *((name, getattr(self, name) <= _MOST, f"at most {_MOST:,}") for name in (*_AT_LEAST_ONE, *_OPEN)),
        ]
        problems = [f"{name} must be {need}, got {getattr(self, name)!r}" for name, holds, need in checks if not holds]
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
        try:
            plain: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
            return cls(**plain)
        except TypeError as error:
            raise RunError(f"{source} has a setting of the wrong type: {error}.") from error

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
