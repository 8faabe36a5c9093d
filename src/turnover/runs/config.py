"""Settings of a run: everything that decides its result, as a dataclass and as a TOML file."""

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints

from turnover.errors import RunError

Kind = Literal["text", "image", "table", "lm"]


class Watch(Protocol):
    """Called as a run makes progress, so that a terminal can show a bar."""

    def __call__(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Take note that `done` of `total` steps of a stage are finished."""
        ...


def unwatched(stage: str, done: int, total: int, note: str = "") -> None:
    """Take no note of anything."""


_AT_LEAST_ONE = ("batch_size", "image_size", "context", "vocabulary")
_OPEN = ("hidden", "replicas", "epochs")
# A width, a number of epochs or words above this is a slip of the finger, and would end without memory.
_MOST = 1_000_000


@dataclass(frozen=True)
class RunConfig:
    """How data becomes a trained model that can be asked.

    Attributes:
        data: a csv, tsv, jsonl, json or parquet file, a folder of images, an npz file, a text corpus, or the name of a
            data set on the Hugging Face hub.
        task: kind of data; None: auto-detected.
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
        replicas: masked parts in one training, or trainings of a language model; from 3 on scores have standard errors
            of their own. 0: the default of the kind of data; 1 with adapters.
        keep: share of the units that an instance trains.
        epochs: passes over the training rows; 0: the default of the kind of data.
        batch_size: rows per batch.
        learning_rate: of AdamW; 0: the default of the kind of data.
        weight_decay: of AdamW.
        balance: weight classes in the loss by their rarity.
        image_size: pixels that the shorter side of images is scaled to.
        context: words before a position, of a language model.
        vocabulary: number of most frequent words that a language model knows.
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
    context: int = 4
    vocabulary: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject settings that cannot be run, all problems at once."""
        if wrong := [name for name, kinds in _types().items() if not _is_one_of(getattr(self, name), kinds)]:
            of_types = ", ".join(f"{name} ({type(getattr(self, name)).__name__})" for name in wrong)
            raise RunError(f"these settings cannot be run: values of the wrong type: {of_types}.")
        checks = [
            ("task", self.task is None or self.task in get_args(Kind), "one of text, image, table and lm"),
            ("validation", 0 < self.validation < 1, "a share between 0 and 1, such as 0.1"),
            ("test", 0 <= self.test < 1, "a share from 0 up to 1, such as 0.1"),
            ("max_rows", self.max_rows is None or self.max_rows > 0, "an integer >= 1"),
            ("keep", 0 < self.keep < 1, "a share between 0 and 1, such as 0.5"),
            ("learning_rate", 0 <= self.learning_rate < math.inf, "a number above 0"),
            ("weight_decay", 0 <= self.weight_decay < math.inf, "a number >= 0"),
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
            values = tomllib.loads(Path(file).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise RunError(f"there is no file {str(file)!r}. A run keeps its settings in RUN/config.toml.") from error
        except OSError as error:
            raise RunError(
                f"{str(file)!r} cannot be read: {error.strerror or error}. Give a file, such as RUN/config.toml."
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
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


@cache
def _types() -> dict[str, tuple[type, ...]]:
    """Return the types that the value of each setting may have."""
    hints = get_type_hints(RunConfig)
    flat = {name: get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,) for name, hint in hints.items()}
    plain = {name: tuple(get_origin(kind) or kind for kind in kinds) for name, kinds in flat.items()}
    return {name: tuple(str if kind is Literal else kind for kind in kinds) for name, kinds in plain.items()}


def _is_one_of(value: object, kinds: tuple[type, ...]) -> bool:
    """Tell whether a value is of one of these types; a whole number may stand for a float, True for no number."""
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, kinds) or (isinstance(value, int) and float in kinds)
