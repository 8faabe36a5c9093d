"""A column of numbers as label: which labels are numbers, what such a run keeps, finds and rejects."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from tests.ui.small_runs import SMALL, number_file, number_run
from turnover.applications import LIKELY_ERROR, find_all, find_errors, prediction, row_queries
from turnover.errors import DataFileError
from turnover.influence import Influence
from turnover.runs import (
    Run,
    RunConfig,
    RunEvaluation,
    check_cleansing,
    known_wrong,
    open_run,
    removed_rows,
    run_cleansing,
    start_run,
)
from turnover.runs._reading import read_rows


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return number_run(tmp_path_factory.mktemp("numbers"))


def _file(folder: Path, labels: list[object], name: str = "rows.csv") -> str:
    random = np.random.default_rng(0)
    lines = ["a,b,y", *(f"{random.random():.4f},{random.random():.4f},{label}" for label in labels)]
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / name)


FRACTIONS = [f"{place / 7:.4f}" for place in range(120)]
GAPS = [place * place for place in range(120)]

TAKEN = {
    "fractions": (FRACTIONS, None, True),
    "fractions as classes": ([*FRACTIONS[:20]] * 6, None, False),
    "few whole numbers": ([1, 2, 3, 4, 5] * 24, None, False),
    "whole numbers of few rows each, with gaps": (GAPS, None, True),
    "class numbers without a gap": (list(range(60)) * 2, None, False),
    "many rows of each whole number": ([place * 3 for place in range(24)] * 5, None, False),
    "few whole numbers, asked for": ([1, 2, 3, 4, 5] * 24, "regression", True),
    "fractions, classes asked for": (FRACTIONS[:30] * 4, "classification", False),
    "words": (["red", "green", "blue"] * 40, None, False),
}


@pytest.mark.parametrize("case", TAKEN)
def test_labels_are_numbers_where_they_can_be_nothing_else_or_where_that_was_asked_for(tmp_path, case):
    labels, task, numeric = TAKEN[case]
    assert read_rows(RunConfig(_file(tmp_path, labels), label="y", task=task)).numeric is numeric


BAD = {
    "infinite": ([*FRACTIONS, "inf"], None, "1 row with an infinite label in column 'y' (line 122)"),
    "a word among numbers": ([*FRACTIONS, "soon"], None, "learn classes (--task classification)"),
    "words, numbers asked for": (["soon", "later", 3] * 9, "regression", "with a label that is not a number"),
    "missing": ([*FRACTIONS, ""], None, "1 row without a label in column 'y' (line 122)"),
    "missing by a word": ([*FRACTIONS, "n/a"], None, "1 row without a label in column 'y' (line 122)"),
    "constant": ([7.5] * 40, "regression", "has the number 7.5 in all 40 rows: there is nothing to learn"),
    "no number at all": (["red", "blue"] * 20, "regression", "with a label that is not a number"),
    "huge": ([f"{n}e298" for n in range(100)], None, "reach 9.9e+299, and squares of numbers beyond 1e+30 overflow"),
    "one huge": ([*FRACTIONS, "1e300"], None, "Use a larger unit"),
    "beyond floats": ([*FRACTIONS, "1e400"], None, "1 row with an infinite label in column 'y' (line 122)"),
    "tiny": ([f"{n}e-302" for n in range(100)], "regression", "differ by 9.9e-301 at most"),
    "too few": ([1.5, 2.5, 9.25], "regression", "at least 4 rows"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_no_regression_can_learn_is_rejected_with_its_rows(tmp_path, case):
    labels, task, message = BAD[case]
    with pytest.raises(DataFileError) as rejected:
        read_rows(RunConfig(_file(tmp_path, labels), label="y", task=task))
    assert message in str(rejected.value)


def test_images_are_learned_as_classes(tmp_path):
    np.savez(tmp_path / "images.npz", images=np.zeros((9, 4, 4), np.uint8), labels=np.arange(9) / 7)
    with pytest.raises(DataFileError, match="from a table or from texts"):
        read_rows(RunConfig(str(tmp_path / "images.npz"), task="regression"))


def test_a_run_learns_standardized_numbers_and_keeps_their_scale(run):
    train = run.rows.labels[run.places("train")]
    assert run.task.name == "regression"
    assert np.isclose(run.about.results["label_mean"], train.mean())
    assert np.isclose(run.about.results["label_deviation"], train.std())
    assert abs(float(run.train_data[1].mean())) < 1e-5
    predicted, labels = run.predicted(run.data("test")[0]), run.rows.labels[run.places("test")]
    assert np.isclose(run.about.results["test_rmse"], np.sqrt(np.square(predicted - labels).mean()))
    assert run.about.results["test_rmse"] < 0.8 * run.about.results["test_baseline_rmse"]
    assert len(run.curves.r2) == len(run.curves.keep)
    assert not run.curves.accuracy


def test_a_run_is_the_same_when_it_is_opened_again(run):
    again = open_run(run.folder.path)
    assert again.task.name == "regression"
    assert np.array_equal(again.rows.labels, run.rows.labels)
    assert np.allclose(again.predicted(again.x), run.predicted(run.x))
    assert np.allclose(again.wrong_labels.standardized, run.wrong_labels.standardized)


def test_likely_label_errors_are_those_far_from_their_held_out_prediction(run):
    findings = find_all(run)
    errors, residuals = findings.likely_label_errors, run.wrong_labels
    far = np.flatnonzero(np.abs(residuals.standardized) > LIKELY_ERROR)
    assert errors.count == len(far) > 0
    assert errors.expected_errors is None
    assert errors.unseen_rows > 0
    assert {one.position for one in errors.items} == set(far.tolist())
    assert abs(errors.items[0].residual) == np.abs(residuals.standardized).max()
    assert json.dumps(findings.as_dict(), allow_nan=False)
    # Wrong numbers are found first: half of those that differ much are among as many rows as there are.
    train = run.places("train")
    true = np.array(run.rows.data.column("true").to_pylist(), float)
    wrong = np.abs(run.rows.labels - true)[train] > run.examples.labels.deviation
    assert wrong[residuals.order[: int(wrong.sum())]].mean() > 0.5


def test_the_largest_errors_are_explained_by_rows_that_raise_and_lower_the_number(run):
    errors = find_errors(run, most=3, k=4)
    assert errors.numeric
    assert errors.accuracy is None
    distances = [abs(one.predicted - one.label) for one in errors]
    assert distances == sorted(distances, reverse=True)
    for one in errors:
        assert all(example.score > 0 for example in one.supporting)
        assert all(example.score < 0 for example in one.opposing)
    # Rows that raise a prediction have higher labels than those that lower it.
    raising = np.mean([example.label for one in errors for example in one.supporting])
    assert raising > np.mean([example.label for one in errors for example in one.opposing])


def test_scores_are_of_the_number_itself_not_of_its_loss(run):
    rows = run.places("test")[:6]
    by_run = run.influence.pairwise(row_queries(run, rows).inputs, progress=False).values
    raw = Influence(run.model, train=run.train_data, estimator="tod", measure=prediction)
    masked = raw.pairwise(row_queries(run, rows).inputs, progress=False).values
    assert spearmanr(by_run.ravel(), masked.ravel())[0] > 0.2


def test_cleansing_drops_rows_whatever_their_number_and_checks_by_the_squared_error(run):
    found = run_cleansing(run, drop="5%")
    assert found.spared_classes == ()
    assert found.dropped
    assert all(isinstance(row.label, float) for row in removed_rows(run, found))
    assert "held-out prediction" in str(found.dropped[0])
    check = check_cleansing(run, found, seeds=2)
    assert check.accuracy is None
    assert check.loss.shape == (3, 2)
    assert {one.measure for one in check.differences} == {"loss"}
    assert "accuracy" not in json.dumps(check.as_dict())
    assert "Accuracy" not in str(check)


def test_texts_are_learned_as_numbers_too(tmp_path):
    random = np.random.default_rng(0)
    words = {"bright": 2.0, "warm": 1.0, "dull": -1.0, "flat": -2.0}
    lines = ["text,score"]
    for row in range(120):
        drawn = random.choice(list(words), 2, replace=False)
        lines.append(f"a {drawn[0]} and {drawn[1]} film number {row},{sum(words[one] for one in drawn) + row / 1000}")
    (tmp_path / "texts.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = RunConfig(str(tmp_path / "texts.csv"), text="text", label="score", **SMALL)
    run = start_run(config, tmp_path / "run")
    assert (run.kind, run.task.name) == ("text", "regression")
    bright, dull = run.predicted(run.inputs(["a bright and warm film", "a dull and flat film"]))
    assert bright > dull
    assert find_errors(run, most=1)[0].shared_spans


def test_groups_of_rows_with_numbers_are_scored_as_one(tmp_path):
    lines = Path(number_file(tmp_path)).read_text(encoding="utf-8").splitlines()
    file = tmp_path / "groups.csv"
    grouped = [f"{line},{'who' if row == 0 else f'source {row % 9}'}" for row, line in enumerate(lines)]
    file.write_text("\n".join(grouped) + "\n", encoding="utf-8")
    config = RunConfig(str(file), label="y", columns=("a", "b", "c"), group="who", **SMALL)
    findings = find_all(start_run(config, tmp_path / "run"))
    assert len(findings.groups.items) > 3
    behind = [example for one in findings.errors for example in (*one.supporting, *one.opposing)]
    assert behind
    assert all(example.group is not None and example.label is None for example in behind)


def test_true_numbers_are_compared_exactly(tmp_path):
    numbers = [1.7e9 + 1000 * place for place in range(60)]
    lines = [
        "a,y,truth",
        *(f"{place},{value + 9000 * (place % 10 == 0)},{value}" for place, value in enumerate(numbers)),
    ]
    data = tmp_path / "rows.csv"
    data.write_text("\n".join(lines))
    config = RunConfig(str(data), label="y", task="regression", columns=("a",), **SMALL)
    made = start_run(config, tmp_path / "run")
    wrong = known_wrong(made, RunEvaluation(truth="truth"))
    assert wrong.sum() == sum(place % 10 == 0 for place in made.places("train"))
    given = [one.label for one in find_errors(made, most=3)]
    assert all(label in made.rows.labels for label in given)
