"""`turnover evaluate`: foretold, measured against retraining, resumed."""

import shutil
import sys

import pytest

from tests.ui.terminal.conftest import call_turnover, rejected
from turnover.ui.terminal.evaluate import _runnable

FEW = ("--subsets", "3", "--queries", "6")


@pytest.fixture(scope="module")
def run(runs, tmp_path_factory):
    """A copy of a run, in which all tests of this file keep their trainings."""
    return shutil.copytree(runs["text"], tmp_path_factory.mktemp("evaluated") / "RUN")


@pytest.fixture(scope="module")
def evaluated(run):
    return call_turnover("evaluate", run, *FEW)


def test_scores_are_compared_with_retraining_after_a_word_on_how_long_it_takes(evaluated):
    assert evaluated.code == 0, evaluated.err
    assert "6 trainings of this run's network; that of the run took" in evaluated.err
    for part in ("LDS", "ceiling set by retraining noise", "original estimator"):
        assert part in evaluated.words


def _fail(*_):
    raise AssertionError("a training was run again")


def test_json_has_every_figure_and_finished_trainings_are_not_run_again(turnover_, run, evaluated, monkeypatch):
    monkeypatch.setattr(sys.modules["turnover.training.retrain"], "_train", _fail)  # the function has this name, too
    table = turnover_("evaluate", run, *FEW, "--json").data
    lds = table["rows"][0]["lds"]["value"]
    assert -1 <= lds <= 1
    assert f"{lds:.3f} [" in evaluated.words
    assert table["view"] == "plain"


def test_wrong_labels_that_are_known_are_counted(turnover_, run):
    said = turnover_("evaluate", run, "--metrics", "self,mislabels", "--truth", "truth", "--queries", "6", "--json")
    assert said.code == 0, said.err
    assert said.data["rows"][0]["mislabels_self"]["auc"] > 0.8
    assert "training" not in said.err  # none is needed


def test_baselines_are_compared_on_the_rows_of_the_run(turnover_, run, evaluated):
    pytest.importorskip("turnover_bench", reason="turnover-bench is missing: pip install ./bench")
    pytest.importorskip("captum", reason="captum is missing: pip install 'turnover[captum]'")
    said = turnover_("evaluate", run, "--metrics", "lds", *FEW, "--method", "captum-tracin-fast", "--method", "tracin")
    assert said.code == 0, said.err
    assert "8 trainings" in said.err  # of three halves twice, and one per baseline
    for part in ("as the run scores", "original estimator", "TracInCPFast (captum)", "TracIn "):
        assert part in said.words
    data = turnover_("evaluate", run, "--metrics", "lds", *FEW, "--method", "tracin", "--json").data
    row = data["rows"][-1]
    assert (row["method"], row["problems"]) == ("TracIn", {})
    assert -1 <= row["lds"]["value"] <= 1


@pytest.mark.slow
def test_every_method_that_is_installed_is_measured_on_the_rows_of_a_table(turnover_, runs, tmp_path):
    table = shutil.copytree(runs["table"], tmp_path / "RUN")
    said = turnover_("evaluate", table, "--metrics", "lds", *FEW, "--method", "all", "--json")
    assert said.code == 0, said.err
    assert len(said.data["rows"]) == 2 + len(_runnable())
    assert {row["method"]: row["problems"] for row in said.data["rows"] if row["problems"]} == {}


def test_all_stands_for_every_method_that_is_installed(monkeypatch):
    pytest.importorskip("turnover_bench", reason="turnover-bench is missing: pip install ./bench")
    monkeypatch.setattr("turnover_bench.baselines.packages.is_installed", lambda package: package == "captum")
    assert "captum-tracin" in _runnable()
    assert "trak" not in _runnable()


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--method", "ekfac"], "'ekfac'"),
        (["--metrics", "lsd"], "'lsd'"),
        (["--metrics", "self"], "--truth"),
        (["--metrics", "self", "--truth", "color"], "'color'"),
    ],
)
def test_what_cannot_be_measured_is_told(turnover_, run, options, part):
    rejected(turnover_("evaluate", run, *options), part)
