"""Other tools: `turnover annotate` sends label errors to an annotation tool; `--track` tells trackers about a run."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, get_args

import typer

from turnover.applications import MemorizedExample, examine_memorized, example_duplicates, find_label_errors, leak_audit
from turnover.errors import ApplicationError, DataFileError
from turnover.integrations import (
    AnnotationItem,
    TrackerName,
    argilla_records,
    check_tracker,
    label_studio_config,
    label_studio_tasks,
    open_tracker,
    read_annotations,
)
from turnover.runs import Run
from turnover.storage import write_atomically
from turnover.ui.pictures import as_data_uri
from turnover.ui.words import count

from .command import RunPath, Terminal, check_unused, opened
from .drawing import plain

_MOST = 1000


class Tool(StrEnum):
    """An annotation tool."""

    LABEL_STUDIO = "label-studio"
    ARGILLA = "argilla"


def annotate(
    terminal: Terminal,
    folder: RunPath,
    out: Annotated[
        Path,
        typer.Option(metavar="FILE", help="File to write: tasks for the tool, or with --labels the corrected data."),
    ],
    tool: Annotated[
        Tool | None, typer.Option(help="Tool that the tasks are for.", show_default=Tool.LABEL_STUDIO.value)
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of likely label errors to write, the likeliest first.", show_default=str(_MOST)
        ),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(metavar="EXPORT", help="Export of the tool (JSON), with the labels that people gave.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
) -> None:
    """Send likely label errors to Label Studio or Argilla, and take corrected labels back.

    Tasks have the held-out prediction as a suggestion. With --labels, answers become marks of the run, as those that
    are made on the live page, and the data are written with all marked labels corrected. Rows on which people disagree
    stay as they are.

    For example:

    - turnover annotate runs/reviews --out tasks.json

    - turnover annotate runs/reviews --labels export.json --out reviews.corrected.csv
    """
    run = opened(folder)
    if run.rows.numeric:
        raise ApplicationError(
            "labels of this run are numbers, and tasks offer classes. Correct them on the live page: turnover serve."
        )
    if labels is not None:
        why = "with --labels answers of any tool are read, and no tasks are written. Leave it out."
        check_unused({"--tool": tool, "--most": most}, why)
    tool = tool or Tool.LABEL_STUDIO
    interface = out.with_suffix(".xml")
    written = [out, interface] if labels is None and tool is Tool.LABEL_STUDIO else [out]
    if out == interface and len(written) > 1:
        raise ApplicationError(
            f"{str(out)!r} is where the labeling interface goes. Give tasks another name: --out tasks.json."
        )
    if folders := [str(file) for file in written if file.is_dir()]:
        raise ApplicationError(f"{folders[0]!r} is a folder. Give a file: --out FILE.")
    run.check_apart(*written)
    there = [str(file) for file in written if file.exists()]
    if there and not force:
        raise ApplicationError(f"{' and '.join(there)} exist already. Give another --out, or --force.")
    if labels is not None:
        _take_back(run, labels, out, terminal)
        return
    with terminal.aside.status("examining every training row"):
        own = examine_memorized(run, example_duplicates(run.examples, run.x))
        errors = find_label_errors(run, own).items[: most or _MOST]
    items = [_item(run, error) for error in errors]
    tasks = (label_studio_tasks if tool is Tool.LABEL_STUDIO else argilla_records)(items, source=run.data_digest)
    _write(out, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")
    if tool is Tool.LABEL_STUDIO:
        _write(interface, label_studio_config(run.rows.kind, run.label_names))
    if terminal.as_json:
        terminal.result({"tasks": len(tasks), "files": [str(file) for file in written]})
        return
    terminal.words.print(plain(f"{count(len(tasks), 'likely label error')}: {out}"))
    if tool is Tool.LABEL_STUDIO:
        terminal.words.print(plain(f"Labeling interface of the project: {interface}"))


def _write(file: Path, content: str | bytes) -> None:
    try:
        write_atomically(file, content)
    except OSError as error:
        raise DataFileError(
            f"{str(file)!r} cannot be written ({error.strerror or error}). Give another: --out FILE."
        ) from error


def _item(run: Run, error: MemorizedExample) -> AnnotationItem:
    value = run.examples.value(error.row)
    if run.rows.kind == "image":
        content = as_data_uri(value)
    else:
        content = value if isinstance(value, str) else "\n".join(f"{name}: {cell}" for name, cell in value.items())
    return AnnotationItem(
        error.row, content, str(error.label), str(error.held_out_label), float(error.held_out_probability or 0.0)
    )


def _take_back(run: Run, labels: Path, out: Path, terminal: Terminal) -> None:
    """Mark the rows whose labels people changed, and write the corrected data."""
    from turnover.ui.web import MarkBook, corrected_file

    try:
        exported = json.loads(labels.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataFileError(
            f"{str(labels)!r} cannot be read as JSON ({error}). Give the export of the tool."
        ) from error
    answers = read_annotations(exported, source=run.data_digest)
    rows, names = run.rows, run.label_names
    wrong = {row: label for row, label in answers.labels.items() if not 0 <= row < len(rows) or label not in names}
    if wrong:
        row, label = next(iter(wrong.items()))
        raise DataFileError(
            f"{count(len(wrong), 'answer')} cannot be taken, such as {label!r} for row {row}: the run has {len(rows)} "
            f"rows and the labels {', '.join(names)}."
        )
    changed = {row: label for row, label in answers.labels.items() if label != names[rows.labels[row]]}
    book = MarkBook(run)
    ending = Path(corrected_file(rows, run.config.data, book.all, digest=run.data_digest).name).suffix
    if out.suffix.lower() != ending.lower():
        raise ApplicationError(
            f"corrected data are written as they were read. Give a file that ends in {ending}: --out FILE{ending}."
        )
    book.put_all(changed, taken_back=answers.labels.keys() - changed.keys())
    corrected = corrected_file(rows, run.config.data, book.all, digest=run.data_digest)
    _write(out, corrected.content)
    figures = {
        "answered": len(answers.labels),
        "changed": len(changed),
        "undecided": list(answers.undecided),
        "unanswered": len(answers.unanswered),
        "marks": len(book),
        "file": str(out),
    }
    if terminal.as_json:
        terminal.result(figures | {"note": corrected.note})
        return
    confirmed = len(answers.labels) - len(changed)
    terminal.words.print(
        plain(
            f"{count(len(changed), 'label')} changed, {confirmed:,} confirmed, {len(answers.undecided):,} undecided, "
            f"{len(answers.unanswered):,} without an answer. Corrected data, by {count(len(book), 'mark')}: {out}"
        )
    )
    if corrected.note:
        terminal.words.print(plain(corrected.note), style="yellow")


# Experiment trackers

Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="TRACKER",
        help=f"Tracker to log the run to: {', '.join(get_args(TrackerName))}; once for each. Files go to RUN/TRACKER.",
    ),
]


def check_trackers(names: list[str] | None) -> None:
    """Raise where a tracker cannot be opened, before anything is trained."""
    for name in names or ():
        check_tracker(name)


def track(run: Run, names: list[str] | None) -> None:
    """Log learning curves by epoch, then results, the share of likely label errors and the audit, to trackers."""
    if not names:
        return
    curves = {name if name == "accuracy" else f"loss_{name}": curve for name, curve in run.curves.as_dict().items()}
    epochs = max(map(len, curves.values()), default=0)
    found = {f"result_{name}": float(value) for name, value in run.about.results.items() if value is not None}
    errors = find_label_errors(run, examine_memorized(run, example_duplicates(run.examples, run.x)))
    audited = leak_audit(run.model, run.train_data)
    found["likely_label_errors"] = errors.count / errors.rows
    found |= {"audit_share": audited.share, "audit_gradient_share": audited.gradient_share}
    for name in names:
        with open_tracker(name, run.folder.path / name, run=run.folder.path.resolve().name) as tracker:
            for epoch in range(epochs):
                known = {title: curve[epoch] for title, curve in curves.items() if epoch < len(curve)}
                tracker.log(known, step=epoch + 1)
            tracker.log(found, step=epochs)
