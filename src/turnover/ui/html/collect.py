"""From a finished run to what its report says."""

import numpy as np

from turnover.applications import label_margins
from turnover.runs import Run, run_duplicates

from .classes import classes_of, confusions_of
from .data import Counts, Overview, ReportData
from .data_measures import LearningCurves
from .findings import findings_of
from .language import language_report
from .mistakes import mistakes_of, unseen_of
from .overview import facts_of, making_of
from .row_lists import (
    MOST_DUPLICATES,
    disbelieved_unseen,
    doubtful_of,
    duplicate_groups,
    firmly_doubted,
    groups_of,
    harmful_of,
    memorized_of,
    standing,
)
from .shown_rows import ShownRows
from .trust import histogram_of, leaks_of, trust_of

LEVEL = 0.05


def collect(run: Run) -> ReportData:
    r"""Return what the report of a finished run says, with nothing left to compute.

    Args:
        run: as `turnover.runs.open_run` returns it.

    Example:
        >>> import pathlib, tempfile
        >>> from turnover.runs import RunConfig, start_run
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "fruit.csv"
        >>> lines = [f"sweet apple {n},good\nrotten pear {n},bad" for n in range(20)]
        >>> _ = file.write_text("\n".join(["text,label", *lines]))
        >>> config = RunConfig(str(file), text="text", label="label", hidden=64, replicas=4, epochs=6)
        >>> collect(start_run(config, file.with_name("run"))).overview.rows["train"]
        32
    """
    return language_report(run, level=LEVEL) if run.task.name == "lm" else _labels_report(run)


def _labels_report(run: Run) -> ReportData:
    shown, unseen = ShownRows(run), unseen_of(run)
    own, mean = run.self_influence, run.mean_influence
    stands_self, stands_mean = standing(own, LEVEL), standing(mean, LEVEL)
    doubted, duplicates = firmly_doubted(run.out_of_sample), run_duplicates(run, np.arange(len(run.rows)))
    mistakes = mistakes_of(run, unseen, shown, level=LEVEL)
    doubtful = doubtful_of(run, doubted, duplicates, shown)
    harmful = harmful_of(run, stands_mean, doubted, shown)
    twins = duplicate_groups(run, duplicates)
    for row in (row for group in twins[:MOST_DUPLICATES] for row in group.rows):
        shown(row)
    groups = groups_of(run, stands_mean, doubted)
    memorized = memorized_of(run, doubted, shown)
    trust, leaks = trust_of(run, mistakes, stands_self, stands_mean, level=LEVEL), leaks_of(run.model, run.train_data)
    margins = label_margins(run.out_of_sample, run.rows.labels[run.places("train")])
    asked, asked_disbelieved = disbelieved_unseen(run, unseen.rows)
    counts = Counts(
        mistakes=len(unseen.wrong),
        unseen=len(unseen.rows),
        doubtful=int(doubted.sum()),
        disbelieved=int((margins < 0).sum()),
        harmful=stands_mean.count(mean.values < 0),
        helpful=stands_mean.count(mean.values > 0),
        memorized=stands_self.count(own.values > 0),
        duplicates=len(twins),
        contradictions=sum(not group.labels_agree for group in twins),
        across_splits=sum(group.splits_differ for group in twins),
        asked=asked,
        asked_disbelieved=asked_disbelieved,
    )
    overview = _overview(run)
    return ReportData(
        overview=overview,
        findings=findings_of(
            overview,
            counts,
            doubtful=doubtful,
            harmful=harmful,
            groups=groups,
            leaks=leaks,
            trust=trust,
            rows={row.row: row for row in shown.all},
        ),
        counts=counts,
        making=making_of(run),
        rows=shown.all,
        mistakes=mistakes,
        doubtful=doubtful,
        harmful=harmful,
        memorized=memorized,
        self_influence=histogram_of(own, tails=0.0),
        duplicates=twins[:MOST_DUPLICATES],
        groups=groups,
        classes=classes_of(run, unseen, doubted),
        confusions=confusions_of(run, unseen),
        curves=LearningCurves(**{name: tuple(values) for name, values in run.curves.as_dict().items()}),
        leaks=leaks,
        trust=trust,
        mean_unit=mean.unit,
    )


def _overview(run: Run) -> Overview:
    counts = np.bincount(run.rows.labels[run.places("train")])
    return Overview(
        title=run.rows.name,
        kind=run.kind,
        rows={split: len(run.places(split)) for split in ("train", "validation", "test")},
        labels=run.label_names,
        facts=facts_of(run),
        notes=tuple(run.about.notes),
        results=dict(run.about.results),
        baseline=float(counts.max() / counts.sum()),
    )
