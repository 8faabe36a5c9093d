"""What a finished run tells an experiment tracker."""

from typing import Annotated, Any, get_args

import typer

from turnover.applications import examine_memorized, example_duplicates, find_label_errors, leak_audit
from turnover.integrations import TrackerName, check_tracker, open_tracker
from turnover.runs import Run

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


def track(run: Run[Any], names: list[str] | None) -> None:
    """Log learning curves by epoch, then what was found, to trackers."""
    if not names:
        return
    curves = run.curves.as_dict()
    found = _found(run)
    for name in names:
        with open_tracker(name, run.folder.path / name, run=run.folder.path.resolve().name) as tracker:
            epochs = max(map(len, curves.values()), default=0)
            for epoch in range(epochs):
                known = {_title(part): values[epoch] for part, values in curves.items() if epoch < len(values)}
                tracker.log(known, step=epoch + 1)
            tracker.log(found, step=epochs)


def _title(part: str) -> str:
    return part if part == "accuracy" else f"loss_{part}"


def _found(run: Run[Any]) -> dict[str, float]:
    """Return the results of a run, the share of likely label errors, and what the audit measured."""
    figures = {f"result_{name}": float(value) for name, value in run.about.results.items() if value is not None}
    errors = find_label_errors(run, examine_memorized(run, example_duplicates(run.examples, run.x)))
    figures["likely_label_errors"] = errors.count / errors.rows
    report = leak_audit(run.model, run.train_data)
    return figures | {"audit_share": report.share, "audit_gradient_share": report.gradient_share}
