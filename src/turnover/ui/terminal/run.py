"""Commands that make a run, from data to a model that can be queried and a report: `run` and `demo`."""

import inspect
import itertools
import os
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from turnover.errors import RunError
from turnover.runs import (
    KINDS,
    PATHS,
    Run,
    RunConfig,
    RunFolder,
    Watch,
    changed_data,
    start_run,
)
from turnover.ui.html import ReportData, collect, nothing_learned, write_report
from turnover.ui.words import digits, duration, percent

from .annotate import Track, check_trackers, track
from .command import Bars, OnRay, Terminal, executor_at, own_name, resumable
from .drawing import draw_rows, numbers, plain, visible

if TYPE_CHECKING:
    from turnover.runs import DigitsResult

_TONES = {"good": "bold green", "look": "bold yellow", "plain": "bold"}
_SHOWN, _PICTURES = 10, 4
_INTRODUCTION = """\
[bold]turnover demo[/bold]: 1,437 handwritten digits, 10 % of their labels changed to another digit.
Each digit trains its own random half of the network, the kept subnetwork. The other half, the flipped subnetwork, \
never learns it: its prediction for the digit is a held-out prediction.
"""
_DEFAULTS = {part.name: part.default for part in fields(RunConfig)}
# Settings for which 0 means the default of the kind of data, which is not what somebody means who types it.
_OPEN = ("epochs", "hidden", "replicas", "learning_rate")
# Every setting as an option, by the panel of the help in which it stands: what it sets, and what its value is called.
_OPTIONS: dict[str, dict[str, tuple[str, str | None]]] = {
    "Data": {
        "text": ("Column of texts.", "COLUMN"),
        "label": ("Column of labels.", "COLUMN"),
        "task": (
            "Kind of data, or whether labels are classes or numbers (regression); auto-detected by default.",
            "|".join(KINDS),
        ),
        "columns": ("Feature columns of a table: a,b,c. Default: all but label and group.", "COLUMNS"),
        "group": ("Column of annotators, sources or users, each trained as one instance.", "COLUMN"),
        "validation_data": ("File of validation rows, instead of a share of DATA.", "FILE"),
        "test_data": ("File of test rows, instead of a share of DATA.", "FILE"),
        "validation": ("Share of the rows held out for validation.", "SHARE"),
        "test": ("Share of the rows held out for testing.", "SHARE"),
        "max_rows": ("Maximum number of rows; more are sampled at random.", None),
        "skip_bad": (
            "Skip rows without text or label, damaged images and labels unseen in training, instead of rejecting the "
            "data.",
            None,
        ),
    },
    "Model": {
        "model": (
            "Folder or hub name of a pretrained text encoder. Default: hashed n-grams, no download.",
            "DIR_OR_NAME",
        ),
        "adapters": ("Width of adapters trained inside the encoder; 0 keeps it frozen.", None),
        "hidden": ("Width of the masked layer.", None),
        "replicas": ("Number of masked replicas; from 3 on, every score has its own standard error.", None),
        "keep": ("Share of the units that each row trains.", None),
        "image_size": ("Shorter side of the images, in pixels.", None),
    },
    "Training": {
        "epochs": ("Number of epochs; the default depends on the kind and amount of data.", None),
        "batch_size": ("Rows per batch.", None),
        "learning_rate": ("Learning rate of AdamW; the default depends on the kind of data.", None),
        "weight_decay": ("Weight decay of AdamW.", None),
        "balance": ("Weight classes by their inverse frequency.", None),
        "seed": ("Random seed of split, initialization, masks and batch order.", None),
    },
}


def run(
    terminal: Terminal,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="A csv, tsv, jsonl, json or parquet file, a folder of images, an npz file, or the name of "
            " a data set on the Hugging Face hub.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Settings of an earlier run, RUN/config.toml: repeats or resumes it."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Folder of the run.", show_default="runs/NAME")
    ] = None,
    ray: OnRay = None,
    trackers: Track = None,
    **given: Any,
) -> None:
    """Train once on your data, score every training row and write a report.

    Ctrl-C leaves a folder that the same command resumes.

    For example:

    - turnover run reviews.csv --text text --label label

    - turnover run reviews.csv --text text --label label --model ./all-MiniLM-L6-v2 --out runs/reviews

    - turnover run images/ --out runs/images

    - turnover run table.csv --label y

    - turnover run houses.csv --label price --task regression

    - turnover run --config runs/reviews/config.toml
    """
    executor = executor_at(ray)
    check_trackers(trackers)
    settings = _settings_of({"data": data, **given}, config)
    folder = _folder_for(settings, config, out)
    if os.path.exists(folder / "run.json"):
        sentence = f"There is a run in {visible(str(folder))} already; the same settings resume it."
        terminal.aside.print(sentence, style="dim")
    repeated = config is not None and config.parent != folder and (config.parent / "run.json").is_file()
    for path in changed_data(RunFolder(config.parent).read_about()) if config is not None and repeated else ():
        sentence = f"{visible(path)} changed since the run whose settings are repeated: it is read as it is now."
        terminal.aside.print(sentence, style="yellow")
    with resumable(lambda: _how_to_resume(folder)), Bars(terminal.aside) as watch:
        made = start_run(settings, folder, watch=watch, executor=executor)
        track(made, trackers)
        said, page, seconds = _written_report(made, watch)
    if not terminal.as_json:
        _print_run(made, said, page, seconds, terminal)
        return
    terminal.result(
        {
            "run": str(made.folder.path),
            "report": str(page),
            "kind": made.kind,
            "task": made.task.name,
            "rows": said.overview["rows"],
            "labels": said.overview["labels"],
            "results": made.about.results,
            "seconds": {**made.about.seconds, "report": round(seconds, 3)},
            "notes": made.about.notes,
            "warning": nothing_learned(made),
            "headlines": said.headlines,
            "next": [command for command, _ in next_commands(made)],
        }
    )


def _parameters() -> Iterator[inspect.Parameter]:
    """Give the options of all settings; None as a default shows that one was not given."""
    types = {**get_type_hints(RunConfig), "task": str, "columns": list[str]}
    for panel, settings in _OPTIONS.items():
        for name, (help_text, metavar) in settings.items():
            default, flag = _DEFAULTS[name], f"--{name.replace('_', '-')}"
            flags = f"{flag}/--no-{flag[2:]}" if isinstance(default, bool) else flag
            shown = str(default) if default or default is False else False
            option = typer.Option(flags, help=help_text, rich_help_panel=panel, show_default=shown, metavar=metavar)
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            yield inspect.Parameter(name, kind, default=None, annotation=Annotated[types[name] | None, option])


_terminal, _data, *_others, _ = inspect.signature(run).parameters.values()
# Typer reads the options of a command from its signature.
setattr(run, "__signature__", inspect.Signature([_terminal, _data, *_parameters(), *_others]))  # noqa: B010


def _how_to_resume(folder: Path) -> str:
    settings = folder / "config.toml"
    if not settings.exists():
        return "stopped while reading the data, so nothing is kept. The same command starts again."
    file = shlex.quote(str(settings))
    return f"stopped. What is finished is kept; resume with: turnover run --config {file}"


def _settings_of(given: Mapping[str, Any], config: Path | None) -> RunConfig:
    """Return the settings of a run: those of a file, overridden by those of the command line."""
    chosen = {name: value for name, value in given.items() if name in _DEFAULTS and value not in (None, [], ())}
    zero = [f"--{name.replace('_', '-')}" for name in _OPEN if chosen.get(name) == 0]
    if zero:
        raise RunError(
            f"{' and '.join(zero)} must be > 0, got 0. Leave it out for the default, which depends on the kind of data."
        )
    former = {} if config is None else RunConfig.read(config).as_dict()
    if "data" not in {**former, **chosen}:
        raise RunError(
            "no data was given. Give a file, a folder or the settings of an earlier run: turnover run reviews.csv "
            "--text text --label label, or: turnover run --config RUN/config.toml"
        )
    for name in chosen.keys() & set(PATHS):
        # In full, so that a run can be repeated from another folder. What is not a file may be a name on the hub.
        chosen[name] = str(Path(chosen[name]).resolve()) if os.path.exists(chosen[name]) else chosen[name]
    if "columns" in chosen:
        names = (column.strip() for part in chosen["columns"] for column in part.split(","))
        chosen["columns"] = [name for name in names if name]
    return RunConfig.from_values({**former, **chosen}, source="the command line")


def _folder_for(settings: RunConfig, config: Path | None, out: Path | None) -> Path:
    """Return `out`; or the folder of `config`, a new one beside it where that run is finished; or runs/NAME."""
    if out is not None:
        return out
    if config is None or not (config.parent / "run.json").is_file():
        name = Path(settings.data).name
        stem = name.removesuffix(".gz").rsplit(".", 1)[0] if "." in name.lstrip(".") else name
        return Path("runs", re.sub(r"[^\w.-]+", "-", stem).strip("-.") or "run")
    former = RunFolder(config.parent)
    if former.read_about().state != "complete" and RunConfig.read(config) == settings:
        return former.path
    return next(
        new
        for number in itertools.count(2)
        if not (new := former.path.with_name(f"{former.path.resolve().name}-{number}")).exists()
    )


# The end of a run: its report, its findings, and what to type next


def _written_report(run: Run, watch: Watch) -> tuple[ReportData, Path, float]:
    """Write the report of a run; return what it says, its file, and how many seconds it took."""
    began = time.perf_counter()
    watch("report", 0, 1)
    data = collect(run)
    page = write_report(run, data=data)
    watch("report", 1, 1)
    return data, page, time.perf_counter() - began


def next_commands(run: Run) -> list[tuple[str, str]]:
    """Return what to type next, and what for."""
    # By its path, where the shell would not find it by its name.
    turnover, folder = own_name(), shlex.quote(str(run.folder.path))
    query = '--query "a sentence"' if run.kind == "text" else "--errors"
    commands = (
        (f"explain {folder} {query}", "training examples behind a prediction"),
        (f"cleanse {folder} --drop 1%", "harmful examples, and a file without them"),
        (f"memorized {folder}", "memorized examples, likely label errors"),
        (f"serve {folder}", "live page to query the model"),
    )
    return [(f"{turnover} {command}", purpose) for command, purpose in commands]


def took(run: Run, report: float) -> str:
    """Return how long a run took, as a sentence that says what is counted."""
    stages = ", ".join(f"{stage} {duration(seconds)}" for stage, seconds in run.about.seconds.items() if seconds >= 1)
    whole = duration(sum(run.about.seconds.values()) + report)
    parts = f" ({stages}, report {duration(report)})" if stages else ""
    return f"It took {whole}{parts}, not counting the start of Python and its packages."


def _print_run(run: Run, data: ReportData, page: Path, seconds: float, terminal: Terminal) -> None:
    words = terminal.words
    rows = ", ".join(f"{number:,} {split}" for split, number in data.overview["rows"].items() if number)
    words.print(Text.assemble((visible(Path(run.config.data).name), "bold"), f": {rows} rows"))
    for note in run.about.notes:
        words.print(plain(note, "dim"))
    results = run.about.results
    for split in ("validation", "test"):
        if f"{split}_accuracy" in results:
            accuracy, baseline = percent(results[f"{split}_accuracy"]), percent(results["most_frequent_share"])
            words.print(f"Accuracy on {split} rows: [bold]{accuracy}[/bold] (majority-class baseline {baseline})")
        if f"{split}_rmse" in results:
            rmse, baseline, mae = (digits(results[f"{split}_{name}"]) for name in ("rmse", "baseline_rmse", "mae"))
            r2 = f", R² {results[f'{split}_r2']:.3f}" if f"{split}_r2" in results else ""
            words.print(f"RMSE on {split} rows: [bold]{rmse}[/bold] (predicting the mean: {baseline}), MAE {mae}{r2}")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for headline in data.headlines:
        table.add_row(Text(headline.figure, style=_TONES[headline.tone]), plain(headline.sentence))
    words.print(Panel(table, title="Findings", title_align="left", border_style="dim"))
    lines = [
        Text.assemble((f"{purpose}:\n", "dim"), (f"  {command}", "cyan")) for command, purpose in next_commands(run)
    ]
    words.print(Panel(Group(*lines), title="What next", title_align="left", border_style="dim"))
    words.print(f"Report, to open in a browser: [bold]{page}[/bold]", soft_wrap=True)
    words.print(took(run, seconds), style="dim")


# The demo


def demo(
    terminal: Terminal,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of split, changed labels, initialization and masks.")
    ] = 0,
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs.")] = 12,
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder of the run.")] = Path("runs/demo"),
) -> None:
    """Find label errors among handwritten digits, in two minutes and without a download.

    Changes 10 % of the training labels, trains once, ranks the digits by how much they were memorized and writes a
    report. The digits ship with scikit-learn.

    Example: turnover demo --seed 1
    """
    from turnover.runs import DigitsConfig, run_digits

    if not terminal.as_json:
        terminal.words.print(_INTRODUCTION)
    with resumable("stopped. What is finished is kept; the same command resumes."), Bars(terminal.aside) as watch:
        result = run_digits(DigitsConfig(seed=seed, epochs=epochs), out, watch=watch)
        data, page, seconds = _written_report(result.run, watch)
    if terminal.as_json:
        made = result.run
        terminal.result(
            {
                "run": str(made.folder.path),
                "report": str(page),
                "changed": int(result.data.changed.sum()),
                "found_in_top_10_percent": result.found,
                "top_rows": result.suspects,
                "self_influence": [round(float(value), 6) for value in made.self_influence.values],
                "curves": made.curves.as_dict(),
                "results": made.about.results,
                "seconds": made.about.seconds,
            }
        )
        return
    _print_suspects(result, terminal)
    _print_run(result.run, data, page, seconds, terminal)


def _print_suspects(result: "DigitsResult", terminal: Terminal) -> None:
    words, data, run = terminal.words, result.data, result.run
    columns = map(numbers, ("row", "self-influence", "given\nlabel", "held-out\nprediction", "true\nlabel"))
    title = f"The {_SHOWN} digits with the highest self-influence"
    table = Table(*columns, "", title=title, title_justify="left")
    for row in result.suspects[:_SHOWN].tolist():
        table.add_row(
            str(run.rows.names[row]),
            f"{run.self_influence.values[row]:.2f}",
            str(int(data.labels[row])),
            str(int(result.held_out_labels[row])),
            str(int(data.true_labels[row])),
            "[green]wrong label[/green]" if bool(data.changed[row]) else "[yellow]correct label[/yellow]",
        )
    words.print(table)
    pictures = (
        ([Text(run.rows.names[row]), Text(str(int(data.labels[row])))], run.rows.values[row])
        for row in result.suspects[:_PICTURES].tolist()
    )
    words.print(draw_rows("The first of them", ("row", "label"), pictures, words))
    changed, found, first = int(data.changed.sum()), result.found, len(result.suspects)
    words.print(
        f"\n[bold]{found} of the {changed} changed labels are among the {first} digits (10 %) with the highest "
        f"self-influence[/bold]; by chance there would be {changed * first / len(data.labels):.0f}. All of it from one "
        "training.\n"
    )
