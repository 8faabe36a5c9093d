"""`turnover run`: from a file to a trained model that can be asked, and a report."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from turnover.runs import start_any
from turnover.ui.terminal import run_options as options

from .finished_run import finish
from .options import AsJson, Debug
from .outcomes import resumable
from .phrases import shown
from .run_folders import folder_for
from .terminal import Terminal


def run(
    ctx: typer.Context,
    data: options.Data = None,
    text: options.TextColumn = None,
    label: options.LabelColumn = None,
    task: options.Task = None,
    columns: options.Columns = None,
    group: options.Group = None,
    validation_data: options.ValidationData = None,
    test_data: options.TestData = None,
    validation: options.Validation = None,
    test: options.Test = None,
    max_rows: options.MaxRows = None,
    skip_bad: options.SkipBad = None,
    model: options.Model = None,
    adapters: options.Adapters = None,
    hidden: options.Hidden = None,
    replicas: options.Replicas = None,
    keep: options.Keep = None,
    image_size: options.ImageSize = None,
    context: options.Context = None,
    vocabulary: options.Vocabulary = None,
    epochs: options.Epochs = None,
    batch_size: options.BatchSize = None,
    learning_rate: options.LearningRate = None,
    weight_decay: options.WeightDecay = None,
    balance: options.Balance = None,
    seed: options.Seed = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Settings of a former run, RUN/config.toml: replay it, or take it up again."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Folder for the run.", show_default="runs/NAME")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Train once on your data, score every training row and write a report.

    Ctrl-C leaves a folder that the same command takes up again.

    For example:

    - turnover run reviews.csv --text text --label label

    - turnover run reviews.csv --text text --label label --model ./all-MiniLM-L6-v2 --out runs/reviews

    - turnover run images/ --out runs/images

    - turnover run table.csv --label y

    - turnover run corpus.txt --task lm

    - turnover run --config runs/reviews/config.toml
    """
    terminal = Terminal(as_json=as_json)
    settings = options.settings_of(ctx.params, config)
    folder = folder_for(settings, config, out)
    advice = "Fewer rows take less: --max-rows."
    if (folder / "run.json").exists():
        terminal.aside.print(f"There is a run in {shown(str(folder))}: it is taken up where it was left.", style="dim")
    with resumable(lambda: _go_on(folder)), terminal.bars(advice=advice) as watch:
        done = start_any(settings, folder, watch=watch)
        finish(done, terminal, watch)


def _go_on(folder: Path) -> str:
    settings = folder / "config.toml"
    if not settings.exists():
        return "stopped while the data was read, so that nothing is kept. The same command starts it again."
    file = shlex.quote(str(settings))
    return f"stopped. What is finished is kept; this takes it up again: turnover run --config {file}"
