"""What the data and the model of a run are, and how it was made, in words."""

from pathlib import Path

import numpy as np

from turnover.runs import Run
from turnover.ui.words import count, percent

from .data import Making
from .data_rows import Cell

NGRAMS = "hashed words and n-grams"
"""How the fact "model" begins where no encoder reads the texts."""

_MOST_LABELS = 8


def facts_of(run: Run) -> tuple[Cell, ...]:
    """Return names and values for the reader, in the order they are read."""
    rows, config = run.rows, run.config
    split = ", ".join(
        f"{count(len(run.places(name)))} {name}" for name in ("train", "validation", "test") if len(run.places(name))
    )
    facts: list[Cell] = [("data", config.data), ("rows", f"{count(len(rows))}: {split}"), ("labels", _labels(run))]
    facts.append(("label column", rows.label_column))
    if rows.kind == "text" and config.text:
        facts.append(("text column", config.text))
    if rows.kind == "table":
        facts.append(("learned from", _listed([str(name) for name in rows.values.columns])))
    if rows.kind == "image":
        facts.append(("images", "{1} × {0} pixels, {2}".format(*_picture_size(rows.values.shape))))
    if rows.groups:
        facts.append(("group", f"{config.group}: {count(len(set(rows.groups)))}, each trained as one instance"))
    facts.append(("model", _model(run)))
    facts.append(("training", f"{count(len(run.curves.keep), 'epoch')}, AdamW, seed {config.seed}"))
    for split_name in ("validation", "test"):
        found = run.about.results.get(f"{split_name}_accuracy")
        if found is not None:
            facts.append((f"right on {split_name} rows", percent(found)))
    return tuple(facts)


def making_of(run: Run) -> Making:
    """Return how a run was made."""
    return Making(
        created=run.about.created,
        command=f"turnover run --config {run.folder.config} --out NEW",
        config=settings_of(run),
        versions=dict(run.about.versions),
        seconds=dict(run.about.seconds),
        run=str(run.folder.path),
    )


def settings_of(run: Run) -> str:
    """Return the settings of a run as TOML, with what they leave open as it was used, or said to be open.

    Args:
        run: of any kind.
    """
    used = _used(run)
    lines: list[str] = []
    for line in run.config.as_toml().splitlines():
        name = line.partition(" = ")[0]
        if name not in used or getattr(run.config, name):
            lines.append(line)
        elif used[name] is None:
            lines.append(f"# {name}: by the kind of data")
        else:
            lines.append(f"{name} = {used[name]}  # by the kind of data")
    return "\n".join(lines) + "\n"


def _used(run: Run) -> dict[str, float | None]:
    """Return the values of settings that may be left open; None: not known, or without meaning for this kind."""
    used = run.settings
    width = None if run.config.adapters else used.hidden
    return {"epochs": used.epochs, "replicas": used.replicas, "hidden": width, "learning_rate": used.learning_rate}


def _model(run: Run) -> str:
    kind = run.preparation.kind
    width = run.width
    before = {
        "ngrams": NGRAMS,
        "encoder": f"features of the frozen encoder {_short(run.config.model)}",
        "columns": "numbers standardized, categories as switches",
        "pixels": "two convolutions",
    }.get(kind, kind)
    replicas, who = run.mean_influence.replicas, "group" if run.rows.groups else "training row"
    return (
        f"{before}, then a layer of {width:,} units of which every {who} trains its own "
        f"{percent(run.config.keep, 0)}, {count(replicas, 'replica')}"
    )


def _labels(run: Run) -> str:
    counts = np.bincount(run.rows.labels[run.rows.labels >= 0], minlength=len(run.label_names))
    return _listed([f"{name} ({count(int(counts[number]))})" for number, name in enumerate(run.label_names)])


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_LABELS
    return ", ".join(names[:_MOST_LABELS]) + (f" and {count(more)} more" if more > 0 else "")


def _picture_size(shape: tuple[int, ...]) -> tuple[int, int, str]:
    return shape[1], shape[2], "gray" if shape[3] == 1 else "in color"


def _short(model: str | None) -> str:
    """Return the end of a long path; a name on the hub has two parts, too."""
    return "/".join(Path(model or "").parts[-2:])
