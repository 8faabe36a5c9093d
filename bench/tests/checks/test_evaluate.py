"""The whole table, on real digits."""

from dataclasses import replace

import pytest
from torch.utils.data import TensorDataset

import turnover
from tests.evaluation.digits import Broken, Similarity, digits_task
from turnover.evaluation import Bootstrap
from turnover_bench.checks import EvaluationConfig, Row, Task, evaluate

SMALL = EvaluationConfig(
    subsets=12, loo_rows=8, ks=(5, 15), brittle_queries=2, loo_seeds=(0,), bootstrap=Bootstrap(draws=100)
)


def digits(**options):
    return Task("digits", *digits_task(**options))


def turn_over(task, seed=0):
    rows = turnover.with_instance_ids(TensorDataset(task.recipe.inputs, task.recipe.targets))
    return turnover.Influence(task.recipe.fit(seed=seed), train=rows)


# Sixty rows are few for the engine's check that they were trained under these ids.
@pytest.mark.filterwarnings("ignore::turnover.errors.WeakSignalWarning")
def test_turn_over_dropout_and_a_method_of_ones_own_stand_in_one_table(tmp_path):
    task = digits(rows=60, queries=6, masked=True)
    methods = {"turn-over": lambda: turn_over(task), "similarity": lambda: Similarity(task.recipe), "broken": Broken}
    config = replace(SMALL, cache=tmp_path)
    table = evaluate(task, methods, config=config)
    ours, similar, broken = table.rows
    assert table.view == "full"
    for row in (ours, similar):
        assert not row.problems
        assert -1 <= row.lds.value <= 1
        assert row.loo.rows == 8
        assert set(row.brittleness) == {5, 15}
        assert row.seconds > 0
        assert row.mislabels_mean.wrong == 6
    assert similar.lds.value > 0.2
    assert ours.mislabels_self.auc > 0.8
    assert ours.storage_bytes > 4 * (64 * 64 + 64 * 3)  # its weights at least
    assert similar.storage_bytes == 0
    assert broken == Row("broken", problems={"method": "ZeroDivisionError: no such luck"})
    assert table.agreement.names == ("turn-over", "similarity")

    text = table.to_markdown()
    assert "the masked model" in text
    assert "broken, method: ZeroDivisionError: no such luck" in text
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1

    again = evaluate(task, {"similarity": lambda: Similarity(task.recipe)}, config=config)
    assert again.rows[0].lds.value == similar.lds.value
    assert again.rows[0].brittleness == similar.brittleness


def test_metrics_that_are_switched_off_or_not_known_leave_no_column():
    task = replace(digits(rows=20, queries=3, epochs=2), wrong=None)
    table = evaluate(task, {"similarity": lambda: Similarity(task.recipe)}, metrics=["mislabels", "self"])
    row = table.rows[0]
    assert row.lds is row.loo is row.mislabels_mean is row.mislabels_self is row.brittleness is None
    assert "LDS" not in table.to_markdown()


def test_a_metric_that_fails_is_named_and_the_others_go_on():
    task = digits(rows=20, queries=3, epochs=2)
    table = evaluate(
        task,
        {"similarity": lambda: Similarity(task.recipe)},
        metrics=["mislabels", "brittleness"],
        config=replace(SMALL, ks=(20,)),
    )
    assert table.rows[0].mislabels_mean is not None
    assert "got ks=(20,)" in table.rows[0].problems["brittleness"]
