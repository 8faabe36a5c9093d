"""What a run is asked to do: everything that decides its result, as a dataclass and as a TOML file."""

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from turnover.errors import RunError

Kind = Literal["text", "image", "table", "lm"]


@dataclass(frozen=True)
class RunConfig:
    """How data becomes a trained model that can be asked.

    Attributes:
        data: a csv, tsv, jsonl, json or parquet file, a folder of images, an npz file, a text corpus, or the name of a
            data set on the Hugging Face hub.
        task: what kind of data it is; None: found out.
        text: column of texts.
        label: column of labels.
        columns: columns that a table is learned from; empty: all but the label, id and group.
        group: column of annotators, sources or users; what belongs to one of them is one instance.
        validation_data: file of validation rows; None: a share of the data.
        test_data: file of test rows; None: a share of the data.
        validation: share of the rows for validation.
        test: share of the rows for the test.
        max_rows: use only so many rows, drawn at random; None: all.
        skip_bad: leave out rows that cannot be learned from (no text, no label, a damaged image, a label that no
            training row has) in place of refusing the data.
        model: folder or hub name of a pretrained encoder for texts; None: hashed n-grams, without any download.
        adapters: bottleneck width of adapters that are trained in the encoder; 0: it stays frozen, a masked layer on
            top learns.
        hidden: width of the masked layer; 0: by the kind of data.
        replicas: masked parts in one training, of a language model trainings; from 3 on scores have standard errors of
            their own. 0: by the kind of data; 1 with adapters.
        keep: share of the units that an instance trains.
        epochs: passes over the training rows; 0: by the kind of data.
        batch_size: rows of a batch.
        learning_rate: of AdamW; 0: by the kind of data.
        weight_decay: of AdamW.
        balance: weigh classes by their rarity in the loss.
        image_size: pixels that the shorter side of images is scaled to.
        context: words before a position, of a language model.
        vocabulary: most frequent words that a language model knows.
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
        """Refuse what cannot be run, all problems at once."""
        needs = [
            (self.task is None or self.task in get_args(Kind), f"task={self.task!r}: give text, image, table or lm"),
            (0 < self.validation < 1, f"validation={self.validation}: give a share between 0 and 1, 0.1 for example"),
            (0 <= self.test < 1, f"test={self.test}: give a share from 0 to 1, 0.1 for example"),
            (self.validation + self.test < 1, "validation and test together leave no rows for training"),
            (self.max_rows is None or self.max_rows > 0, f"max_rows={self.max_rows}: give at least 1"),
            (0 < self.keep < 1, f"keep={self.keep}: give a share between 0 and 1, 0.5 for example"),
            (self.adapters == 0 or self.model is not None, "adapters go into a pretrained encoder: give model too"),
            (
                not self.adapters or self.replicas <= 1,
                f"replicas={self.replicas}: with adapters a run has one, or it would take hours; leave replicas out",
            ),
            (self.learning_rate >= 0, f"learning_rate={self.learning_rate}: give a number above 0"),
            (self.weight_decay >= 0, f"weight_decay={self.weight_decay}: give a number of at least 0"),
            (self.adapters >= 0, f"adapters={self.adapters}: give a width, 64 for example, or 0 for none"),
        ]
        needs += [
            (getattr(self, name) >= 1, f"{name}={getattr(self, name)}: give at least 1")
            for name in ("batch_size", "image_size", "context", "vocabulary")
        ]
        needs += [
            (getattr(self, name) >= 0, f"{name}={getattr(self, name)}: give at least 1, or 0 to leave it open")
            for name in ("hidden", "replicas", "epochs")
        ]
        problems = [problem for holds, problem in needs if not holds]
        if problems:
            raise RunError(f"this cannot be run: {'; '.join(problems)}.")

    @classmethod
    def from_values(cls, values: Mapping[str, Any], *, source: str) -> "RunConfig":
        """Return the config of plain values.

        Args:
            values: by name; lists stand for tuples.
            source: where they come from, for messages.
        """
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
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RunError(f"{str(file)!r} is not TOML: {error}.") from error
        return cls.from_values(values, source=repr(str(file)))

    def as_dict(self) -> dict[str, Any]:
        """Return all settings, ready for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def as_toml(self) -> str:
        """Return the settings as TOML; what is None is left out.

        Example:
            >>> RunConfig("a.csv", label="y").as_toml().splitlines()[:2]
            ['data = "a.csv"', 'label = "y"']
        """
        import json

        # A JSON string, number, bool or list is TOML too.
        return "".join(
            f"{name} = {json.dumps(value, ensure_ascii=False)}\n"
            for name, value in self.as_dict().items()
            if value is not None
        )
