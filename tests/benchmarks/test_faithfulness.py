"""The comparison of scores: its methods run, its cells are kept, and its page says what the numbers say."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.faithfulness.cells import cell_file, measured, read_cells, run_cells
from benchmarks.faithfulness.choose import best, choose, chosen
from benchmarks.faithfulness.config import SIZES
from benchmarks.faithfulness.explored import EXPLORED
from benchmarks.faithfulness.further import last_layer_influence, shrunk_across_queries
from benchmarks.faithfulness.goals import goals
from benchmarks.faithfulness.methods import Method, methods, our_methods, rivals
from benchmarks.faithfulness.ours import REPORTED
from benchmarks.faithfulness.page import page
from benchmarks.faithfulness.run import explore, publish, run
from benchmarks.faithfulness.table import collected
from benchmarks.faithfulness.tasks import prepare
from benchmarks.faithfulness.trainings import Trainings
from experiments.runner import ExperimentError

# A few rows are few for the engine's check that they were trained under these ids, and for subsets of them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:the self-influence of these"),
    pytest.mark.filterwarnings("ignore:.*rows are in all or in none"),
]

TOY = SIZES["toy"]
PEERS = {name: method for name, method in rivals(TOY).items() if method.needs is not None}
# Those that differ from another by a number, and the one that takes seconds to begin.
SLOW = ("trak_5", "ekfac", "ekfac_damped")


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    return prepare(TOY.tasks["digits"], tmp_path_factory.mktemp("features"))


@pytest.fixture(scope="module")
def trainings(ready):
    return Trainings(ready, seed=0, checkpoints=TOY.checkpoints)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faithfulness")
    choose(TOY, folder, tasks=["digits"], methods_wanted=["paper", "replicas_ridge"])
    explore(TOY, folder, tasks=["digits"], methods_wanted=list(EXPLORED)[:1])
    run(TOY, folder, tasks=["digits"], methods_wanted=["paper", "replicas_ridge", "subsets", "training_loss"])
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


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in PEERS]
)
def test_a_rival_answers_for_every_row(name, ready, trainings):
    if PEERS[name].missing:
        pytest.skip(f"{PEERS[name].needs} is not installed: make bench-faithfulness installs it")
    check_answers(PEERS[name].answer(trainings), ready)


@pytest.mark.parametrize("name", [*our_methods(TOY, REPORTED), "subsets", "training_loss"])
def test_our_own_methods_answer_for_every_row(name, ready, trainings):
    check_answers(methods(TOY)[name].answer(trainings), ready)


def test_methods_that_share_a_training_share_the_model(trainings):
    before = trainings.seconds
    assert trainings.plain() is trainings.plain()
    assert trainings.plain().states[0].keys() == trainings.plain().model.state_dict().keys()
    assert trainings.seconds >= before


def test_cells_have_figures_by_both_ground_truths_and_what_they_cost(folder):
    cells = {(cell["method"], cell["seed"]): cell for cell in read_cells(folder / "digits")}
    assert {seed for _, seed in cells} == {0, 100}
    found = cells["replicas_ridge", 0]
    for name in ("lds_plain", "lds_full", "mean_auc", "mean_found", "train_seconds", "score_seconds", "peak_bytes"):
        assert name in found, name
    assert -1 <= found["lds_plain"] <= 1
    assert "lds_plain" not in cells["training_loss", 0]


def test_a_finished_cell_is_not_measured_again(folder, ready):
    def fail(trainings):
        raise AssertionError("measured again")

    file = cell_file(folder / "digits", "paper", 0)
    before = file.read_text()
    run_cells(ready, {"paper": Method("", fail)}, [(0, "paper")], checkpoints=2, folder=folder / "digits")
    assert file.read_text() == before


def test_a_folder_of_other_settings_is_refused(folder):
    other = replace(TOY, tasks={"digits": replace(TOY.tasks["digits"], epochs=4)})
    with pytest.raises(ExperimentError, match=r"other settings \(epochs: there 3, now 4\)"):
        run(other, folder, tasks=["digits"], methods_wanted=["paper"])


def test_a_method_that_fails_is_kept_with_its_reason(trainings):
    def fail(trainings):
        raise ValueError("no such luck")

    cell, answers = measured("unlucky", Method("", fail), trainings)
    assert answers is None
    assert cell["failed"] == "ValueError: no such luck"


def test_the_default_is_chosen_on_seeds_that_are_not_reported(folder, result):
    assert not set(TOY.chosen_on) & {*TOY.seeds, *TOY.own_seeds}
    full = SIZES["full"]
    assert not set(full.chosen_on) & {*full.seeds, *full.own_seeds}
    assert chosen(folder) == result["choice"]["default"]
    assert set(result["choice"]["shares"]) == {"paper", "replicas_ridge"}


def test_an_estimate_that_lacks_a_task_is_not_chosen():
    def figures(value):
        return {name: {"mean": value} for name in ("lds_plain", "lds_full", "mean_auc")}

    measured = {"one": {"a": figures(0.1), "b": figures(0.9)}, "two": {"a": figures(0.1)}}
    assert best(measured)["default"] == "a"
    assert best({"one": {}})["default"] is None


def test_the_page_names_what_is_missing_and_what_failed(folder, tmp_path):
    (folder / "digits" / "cells" / "ekfac-0.json").write_text(
        json.dumps({"method": "ekfac", "seed": 0, "failed": "RuntimeError: singular"})
    )
    text = publish(TOY, "toy", folder, tmp_path).read_text()
    (folder / "digits" / "cells" / "ekfac-0.json").unlink()
    assert "ekfac, seed 0 failed: RuntimeError: singular" in text
    assert "Not measured: " in text
    assert "TracInCP (captum)" in text
    assert "(the default)" in text
    assert (tmp_path / "faithfulness.svg").stat().st_size > 0
    assert json.loads((tmp_path / "faithfulness.json").read_text())["size"] == "toy"


def test_a_page_can_be_written_of_nothing(tmp_path):
    result = collected(TOY, "toy", tmp_path / "nowhere")
    assert "Not chosen yet" in page(result, tmp_path)


def test_goals_say_missed_where_a_rival_is_better():
    def figures(value):
        names = ("lds_plain", "lds_full", "mean_auc", "mean_found", "self_found", "train_seconds", "score_seconds")
        return {name: {"mean": value, "sd": 0.01, "seeds": 3} for name in names}

    found = {"paper": figures(0.1), "ridge": figures(0.5), "ekfac": figures(0.6), "tracin": figures(0.4)}
    task = {"setting": {"title": "T"}, "methods": found}
    titles = {name: name for name in found}
    lines = goals({"choice": {"default": "ridge"}, "tasks": {"t": task}, "titles": titles})
    assert "- T: reached: LDS (plain) above the paper's estimate by more than one sd and twice as high: " in lines[0]
    rival = next(line for line in lines if "LDS (plain) above every rival's" in line)
    assert "MISSED" in rival
    assert "above tracin" in rival
    assert "not above ekfac 0.600" in rival
    assert "not measured: tracin_fast, trak_1" in rival


def test_goals_say_where_one_seed_is_all_there_is():
    names = ("lds_plain", "lds_full", "mean_auc", "mean_found", "self_found", "train_seconds", "score_seconds")
    found = {
        name: {figure: {"mean": value, "sd": None, "seeds": 1} for figure in names}
        for name, value in (("paper", 0.1), ("ridge", 0.5))
    }
    task = {"setting": {"title": "T"}, "methods": found}
    lines = goals({"choice": {"default": "ridge"}, "tasks": {"t": task}, "titles": {}})
    assert lines
    assert all("partly by one seed only" in line for line in lines)


def test_shrinkage_across_queries_brings_noisy_scores_nearer_to_the_truth():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(500, 1)) * rng.normal(size=(1, 10))
    noise, null = rng.normal(size=(500, 10)), rng.normal(size=(500, 10))
    shrunk = shrunk_across_queries(truth + noise, null)
    assert np.square(shrunk - truth).mean() < 0.5 * np.square(noise).mean()


def test_last_layer_influence_is_the_gradient_product_after_one_newton_step():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4, bias=False))
    x, y = torch.randn(6, 3), torch.arange(6) % 4
    gradients = []
    for row in range(6):
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(x[row : row + 1]), y[row : row + 1]).backward()
        gradients.append(model[0].weight.grad.flatten().clone())
    g = torch.stack(gradients).double()
    damping = 0.03 * (g @ g.T).diagonal().mean()
    # (K + λ)⁻¹ G q = G (GᵀG + λ)⁻¹ q: the damped inverse Fisher matrix between row and query.
    wanted = g @ torch.linalg.solve(g.T @ g + damping * torch.eye(12), g[:2].T)
    found = last_layer_influence(model, (x, y), (x[:2], y[:2]))
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-3, atol=1e-5)


def test_missing_data_leaves_the_other_tasks_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TURNOVER_DATA", str(tmp_path))
    config = replace(TOY, tasks={"cifar10": SIZES["full"].tasks["cifar10"]})
    run(config, tmp_path, tasks=["cifar10"], methods_wanted=["paper"])
    assert "cifar10 is left out: there is no file" in capsys.readouterr().out


def test_an_unknown_method_is_told_which_there_are(tmp_path):
    with pytest.raises(SystemExit, match=r"no method nothing is reported; there are paper"):
        run(SIZES["toy"], tmp_path, tasks=["digits"], methods_wanted=["nothing"], seeds=None)
