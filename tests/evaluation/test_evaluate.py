"""Several methods on one recipe: the same ground truth for all, and methods that other distributions offer."""

import json

import numpy as np
import pytest
from torch.utils.data import TensorDataset

import turnover
from tests.evaluation.digits import Broken, Similarity, digits_task
from turnover.errors import ScoresError
from turnover.evaluation import Row, evaluate, find_method


class Short:
    def pairwise(self, queries):
        return np.zeros((20, 2))


# Sixty rows are few for the engine's check that they were trained under these ids.
@pytest.mark.filterwarnings("ignore::turnover.errors.WeakSignalWarning")
def test_turn_over_dropout_and_a_method_of_ones_own_stand_in_one_table(tmp_path):
    recipe, queries, wrong = digits_task(rows=60, queries=6, masked=True)
    rows = turnover.with_instance_ids(TensorDataset(recipe.inputs, recipe.targets))
    methods = {
        "turn-over": lambda: turnover.Influence(recipe.fit(seed=0), train=rows),
        "similarity": lambda: Similarity(recipe),
        "broken": Broken,
    }
    settings = {"wrong": wrong, "subsets": 12, "cache": tmp_path}
    table = evaluate(methods, recipe, queries, **settings)
    ours, similar, broken = table.rows
    assert table.view == "full"
    for row in (ours, similar):
        assert not row.problems
        assert -1 <= row.lds.value <= 1
        assert row.seconds > 0
        assert row.mislabels_mean.wrong == 6
    assert similar.lds.value > 0.2
    assert ours.mislabels_self.auc > 0.8
    assert broken == Row("broken", problems={"method": "ZeroDivisionError: no such luck"})
    data = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert data["rows"][1]["lds"]["value"] == pytest.approx(similar.lds.value)
    again = evaluate({"similarity": lambda: Similarity(recipe)}, recipe, queries, **settings)
    assert again.rows[0].lds.value == similar.lds.value


def test_ground_truth_may_retrain_the_plain_model():
    recipe, queries, _ = digits_task(rows=20, queries=3, masked=True, epochs=2)
    methods = {"similarity": lambda: Similarity(recipe)}
    table = evaluate(methods, recipe, queries, metrics=["lds"], subsets=4, view="plain")
    assert table.view == "plain"
    assert table.ceiling is not None


def test_without_known_wrong_labels_and_retraining_nothing_is_measured():
    recipe, queries, _ = digits_task(rows=20, queries=3, epochs=2)
    table = evaluate({"similarity": lambda: Similarity(recipe)}, recipe, queries, metrics=["mislabels", "self"])
    row = table.rows[0]
    assert row.lds is row.mislabels_mean is row.mislabels_self is table.ceiling is None


def test_what_fails_is_named_in_its_row():
    recipe, queries, wrong = digits_task(rows=20, queries=3, epochs=2)
    methods = {"short": Short, "similarity": lambda: Similarity(recipe)}
    short, similar = evaluate(methods, recipe, queries, wrong=~(wrong | True), metrics=["mislabels"]).rows
    assert "[20, 2]" in short.problems["method"]
    assert "0 of 20 rows are wrong" in similar.problems["mislabels"]


def test_unknown_metrics_and_no_methods_are_errors():
    recipe, queries, _ = digits_task(rows=20, queries=3, epochs=1)
    with pytest.raises(ScoresError, match="speed"):
        evaluate({"broken": Broken}, recipe, queries, metrics=["speed"])
    with pytest.raises(ScoresError, match="no method"):
        evaluate({}, recipe, queries)


def test_methods_of_other_distributions_are_found_by_their_entry_point(monkeypatch):
    class Entry:
        def load(self):
            return {"similar": SimilarityMethod}

    class SimilarityMethod:
        title, trainings = "similarity", 0

        @staticmethod
        def check():
            pass

    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: [Entry()])
    assert find_method("similar") is SimilarityMethod
    with pytest.raises(ScoresError, match=r"'other'.*similar"):
        find_method("other")


def test_a_missing_method_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: [])
    with pytest.raises(ScoresError, match=r"'trak'.*pip install turnover-bench.*pip install ./bench"):
        find_method("trak")
