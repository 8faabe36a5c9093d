"""The options of `turnover run`: one for every setting of a run, and how they become its settings."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from turnover.errors import RunError
from turnover.runs import Kind, RunConfig

_DATA, _MODEL, _TRAINING = "What to learn from", "Model", "Training"
_DEFAULTS = {part.name: part.default for part in fields(RunConfig)}
# Settings that 0 leaves open, which is not what somebody means who types it.
_OPEN = ("epochs", "hidden", "replicas", "learning_rate")
# Settings that name a file or folder of this machine.
_PATHS = ("data", "validation_data", "test_data", "model")


def _option(name: str, said: str, panel: str, *flags: str, metavar: str | None = None) -> Any:
    """Return an option that shows the default of its setting; that it was not given shows as None."""
    default = _DEFAULTS[name]
    told = str(default) if default or default is False else False
    flags = flags or (f"--{name.replace('_', '-')}",)
    return typer.Option(*flags, help=said, rich_help_panel=panel, show_default=told, metavar=metavar)


Data = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="A csv, tsv, jsonl, json or parquet file, a folder of images, an npz file, a text corpus, or the name of "
        "a data set on the Hugging Face hub.",
        show_default=False,
    ),
]
Task = Annotated[Kind | None, _option("task", "What kind of data it is; found out where not given.", _DATA)]
TextColumn = Annotated[str | None, _option("text", "Column of texts.", _DATA, metavar="COLUMN")]
LabelColumn = Annotated[str | None, _option("label", "Column of labels.", _DATA, metavar="COLUMN")]
Columns = Annotated[
    list[str] | None,
    _option(
        "columns",
        "Columns that a table is learned from: a,b,c. All but label and group where not given.",
        _DATA,
        metavar="COLUMNS",
    ),
]
Group = Annotated[
    str | None,
    _option("group", "Column of annotators, sources or users: each becomes one instance.", _DATA, metavar="COLUMN"),
]
ValidationData = Annotated[
    str | None, _option("validation_data", "File of validation rows, in place of a share.", _DATA, metavar="FILE")
]
TestData = Annotated[str | None, _option("test_data", "File of test rows, in place of a share.", _DATA, metavar="FILE")]
Validation = Annotated[float | None, _option("validation", "Share of the rows for validation.", _DATA, metavar="SHARE")]
Test = Annotated[float | None, _option("test", "Share of the rows for the test.", _DATA, metavar="SHARE")]
MaxRows = Annotated[int | None, _option("max_rows", "Use only so many rows, drawn at random.", _DATA)]
SkipBad = Annotated[
    bool | None,
    _option(
        "skip_bad",
        "Leave out rows without text or label, damaged images and labels unseen in training; else they are refused.",
        _DATA,
        "--skip-bad/--no-skip-bad",
    ),
]

Model = Annotated[
    str | None,
    _option(
        "model",
        "Folder or hub name of a pretrained text encoder. Without one: hashed words, no download.",
        _MODEL,
        metavar="DIR_OR_NAME",
    ),
]
Adapters = Annotated[
    int | None, _option("adapters", "Width of adapters trained inside the encoder; 0: it stays as it is.", _MODEL)
]
Hidden = Annotated[int | None, _option("hidden", "Width of the masked layer.", _MODEL)]
Replicas = Annotated[
    int | None, _option("replicas", "Masked parts in one training; from 3 on every score has its own error.", _MODEL)
]
Keep = Annotated[float | None, _option("keep", "Share of the units that each row trains.", _MODEL)]
ImageSize = Annotated[int | None, _option("image_size", "Pixels of the shorter side of images.", _MODEL)]
Context = Annotated[int | None, _option("context", "Words before a position, of a language model.", _MODEL)]
Vocabulary = Annotated[int | None, _option("vocabulary", "Most frequent words a language model knows.", _MODEL)]

Epochs = Annotated[
    int | None, _option("epochs", "Passes over the rows; by the kind of data where not given.", _TRAINING)
]
BatchSize = Annotated[int | None, _option("batch_size", "Rows of a batch.", _TRAINING)]
LearningRate = Annotated[
    float | None, _option("learning_rate", "Of AdamW; by the kind of data where not given.", _TRAINING)
]
WeightDecay = Annotated[float | None, _option("weight_decay", "Of AdamW.", _TRAINING)]
Balance = Annotated[
    bool | None,
    _option("balance", "Let rare classes count as much as frequent ones.", _TRAINING, "--balance/--no-balance"),
]
Seed = Annotated[int | None, _option("seed", "Of splits, weights, masks and batches.", _TRAINING)]


def settings_of(given: Mapping[str, Any], config: Path | None) -> RunConfig:
    """Return the settings of a run: those of a file, with what was given on the command line put over them.

    Args:
        given: by name of the setting; None: not given.
        config: file of settings; None: the defaults.

    Raises:
        RunError: there is no data, or a setting is out of range.
    """
    known = {part.name for part in fields(RunConfig)}
    chosen = {name: value for name, value in given.items() if name in known and value not in (None, [], ())}
    zero = [f"--{name.replace('_', '-')}" for name in _OPEN if chosen.get(name) == 0]
    if zero:
        raise RunError(f"{' and '.join(zero)}: give more than 0, or leave it out, and it goes by the kind of data.")
    former = {} if config is None else RunConfig.read(config).as_dict()
    if "data" not in {**former, **chosen}:
        raise RunError(
            "no data was given. Give a file, a folder or the settings of a former run: turnover run reviews.csv "
            "--text text --label label, or: turnover run --config RUN/config.toml"
        )
    found = {**former, **{name: _settled(name, value) for name, value in chosen.items()}}
    return RunConfig.from_values(found, source="the command line")


def _settled(name: str, value: Any) -> Any:
    """Return a value as settings hold it: a path in full, so that a run can be replayed from another folder."""
    if name == "columns":
        return [column.strip() for part in value for column in part.split(",") if column.strip()]
    if name not in _PATHS:
        return value
    # What is no file may be a name on the hub, which stays as it is.
    return str(Path(value).resolve()) if Path(value).exists() else value
