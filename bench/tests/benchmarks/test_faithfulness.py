"""The comparison of scores: its methods run, its cells are kept, and its page says what the numbers say."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from turnover_bench.benchmarks.faithfulness.cells import cell_file, read_cells, run_cells
from turnover_bench.benchmarks.faithfulness.methods import (
    DEFAULT,
    Method,
    area_under_margin,
    baseline_methods,
    methods,
)
from turnover_bench.benchmarks.faithfulness.run import collected, run
from turnover_bench.benchmarks.faithfulness.tasks import SIZES, prepare
from turnover_bench.benchmarks.faithfulness.trainings import Trainings, detection
from turnover_bench.experiments.runner import ExperimentError

# A few rows are few for the engine's check that they were trained under these ids, and for subsets of them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:the self-influence of these"),
    pytest.mark.filterwarnings("ignore:.*rows are in all or in none"),
]

TOY = SIZES["toy"]
PEERS = {name: method for name, method in baseline_methods(TOY).items() if method.needs is not None}
# Those that differ from another by a number, and those that take seconds to begin.
SLOW = ("trak_5", "ekfac", "ekfac_damped", "arnoldi")


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    return prepare(TOY.tasks["digits"], tmp_path_factory.mktemp("features"))


@pytest.fixture(scope="module")
def trainings(ready):
    return Trainings(ready, seed=0, checkpoints=TOY.checkpoints)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faithfulness")
    run(TOY, folder, tasks=["digits"], method_names=["tod", DEFAULT, "subsets", "training_loss"])
    return folder


@pytest.fixture(scope="module")
def result(folder):
    return collected(TOY, "toy", folder)


def check_answers(answers, ready):
    rows, asked = len(ready.labels), len(ready.validation[1])
    assert answers.pairs is None or answers.pairs.shape == (rows, asked)
    assert answers.pairs is not None or answers.own
    for values in (answers.pairs, *answers.own.values()):
        assert values is None or (np.isfinite(values).all() and np.std(values) > 0)


@pytest.fixture(scope="module")
def asked_of_rows(ready):
    """Trainings whose validation rows are the first rows; to an end, for a Hessian that is positive where it counts."""
    few, longer = slice(len(ready.validation[1])), replace(ready.plain, epochs=20)
    asked = replace(ready, plain=longer, validation=(ready.inputs[few], ready.labels[few]))
    return Trainings(asked, seed=0, checkpoints=2)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in PEERS]
)
def test_a_baseline_answers_for_every_row_and_says_that_a_row_helps_itself(name, asked_of_rows):
    if PEERS[name].missing:
        pytest.skip(f"{PEERS[name].needs} is not installed: make -C bench packages installs it")
    answers = PEERS[name].answer(asked_of_rows)
    check_answers(answers, asked_of_rows.ready)
    # Conjugate gradients need a Hessian with more regularization than dattri's examples have.
    if answers.pairs is not None and name != "cg":
        itself, others = answers.pairs.diagonal(), np.median(answers.pairs, 0)
        assert itself.mean() > 0
        assert (itself > others).mean() > 0.8


@pytest.mark.parametrize(
    "name",
    ["tod", "replicas", "probability", DEFAULT, "subsets", "training_loss", "aum", "forgetting", "leave_one_out_head"],
)
def test_our_own_methods_answer_for_every_row(name, ready, trainings):
    check_answers(methods(TOY)[name].answer(trainings), ready)


def test_aum_is_the_mean_margin_over_all_epochs(ready, trainings):
    trained = trainings.plain_by_epoch()
    assert len(trained.states) == ready.config.epochs
    model, margins = ready.plain.build().eval(), []
    for state in trained.states:
        model.load_state_dict(state)
        with torch.no_grad():
            for outputs, label in zip(model(ready.inputs).tolist(), ready.labels.tolist(), strict=True):
                margins.append(outputs.pop(label) - max(outputs))
    expected = np.reshape(margins, (len(trained.states), -1)).mean(0)
    np.testing.assert_allclose(area_under_margin(trainings).own["self"], -expected, rtol=1e-4, atol=1e-5)


def test_cells_have_figures_by_both_ground_truths_and_what_they_cost(folder):
    cells = {(cell["method"], cell["seed"]): cell for cell in read_cells(folder / "digits")}
    assert {seed for _, seed in cells} == {0}
    found = cells[DEFAULT, 0]
    for name in ("lds_plain", "lds_full", "mean_auc", "mean_found", "train_seconds", "score_seconds", "peak_bytes"):
        assert name in found, name
    assert -1 <= found["lds_plain"] <= 1
    assert "lds_plain" not in cells["training_loss", 0]


def test_a_finished_cell_is_not_measured_again(folder, ready):
    def fail(trainings):
        raise AssertionError("measured again")

    file = cell_file(folder / "digits", "tod", 0)
    before = file.read_text()
    run_cells(ready, {"tod": Method("", fail)}, [(0, "tod")], checkpoints=2, folder=folder / "digits")
    assert file.read_text() == before


def test_a_folder_of_other_settings_is_refused(folder):
    other = replace(TOY, tasks={"digits": replace(TOY.tasks["digits"], epochs=4)})
    with pytest.raises(ExperimentError, match=r"other settings \(epochs: there 3, now 4\)"):
        run(other, folder, tasks=["digits"], method_names=["tod"])


LDS = ("lds_plain", "lds_full", "mean_auc")
ALL = (*LDS, "mean_found", "self_found", "train_seconds", "score_seconds")


def figures(value, names=ALL, *, sd=0.01):
    """Return figures of a method, all with the same mean over seeds."""
    return {name: {"mean": value, "sd": sd, "seeds": 1 if sd is None else 3} for name in names}


def test_a_leave_one_out_head_finds_wrong_labels_that_the_network_was_trained_on(ready, trainings):
    # Of 16 wrong labels among 160 the AUC has a standard error of .08: this is two of them above chance.
    answers = methods(TOY)["leave_one_out_head"].answer(trainings)
    assert detection(answers, ready.wrong)["self_auc"] > 0.66
