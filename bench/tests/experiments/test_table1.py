"""Table 1, measured: the fit of exponents, the task, a toy run, and the published result."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from turnover_bench.baselines import LeaveOneOut
from turnover_bench.experiments.runner import run
from turnover_bench.experiments.table1.experiment import METHODS, SIZES, make_task
from turnover_bench.experiments.timing import growth

ROOT = Path(__file__).parents[3]


def test_the_standard_error_covers_the_truth_as_often_as_it_should():
    random, x = np.random.default_rng(0), 2.0 ** np.arange(12)
    found = [growth(x, x**1.2 * np.exp(random.normal(0, 0.3, 12))) for _ in range(400)]
    # Two-sided 95 % of Student's t with 10 degrees of freedom.
    covered = np.mean([abs(one.exponent - 1.2) < 2.228 * one.stderr for one in found])
    assert 0.91 < covered < 0.98


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_a_finite_influence_for_each_row(name, tmp_path):
    # 40 subset models: with fewer some rows are in all or in none.
    method = METHODS[name](make_task(_with(subset_models=40), 64, 16), tmp_path)
    method.train()
    found = method.estimate(64)
    assert found.shape == (64,)
    assert np.isfinite(found).all()
    assert found.std() > 0


def test_retraining_every_row_gives_leave_one_out(tmp_path):
    task = make_task(_with(retrained=24), 24, 16)
    method = METHODS["retrain"](task, tmp_path)
    method.train()
    assert method.share == 1
    np.testing.assert_allclose(
        method.estimate(24), LeaveOneOut(task.plain).pairwise(task.query).values[:, 0], atol=1e-6
    )


def test_a_run_that_goes_on_measures_only_what_is_missing(toy, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(toy.folder, out)
    (out / "result.json").unlink()
    missing = next((out / "cells").glob("rows-turnover-64-*"))
    missing.unlink()
    kept = {file.name: file.stat().st_mtime_ns for file in (out / "cells").iterdir()}
    again = run("table1", "toy", out)["result"]
    assert missing.exists()
    assert {name: (out / "cells" / name).stat().st_mtime_ns for name in kept} == kept
    assert again["costs"]["hara"] == toy.result["costs"]["hara"]


def _with(**changes):
    return replace(SIZES["toy"], **changes)
