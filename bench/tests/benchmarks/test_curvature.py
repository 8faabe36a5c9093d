"""The comparison with kronfluence: what it says without it, and that both score the same pairs."""

import importlib.util

import numpy as np
import pytest
import torch

from turnover.evaluation import spearman
from turnover_bench.benchmarks import curvature


def test_without_kronfluence_it_is_skipped_with_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(curvature.importlib.util, "find_spec", lambda name: None)
    curvature.main()
    assert "skipped: kronfluence is not installed" in capsys.readouterr().out


@pytest.mark.parametrize("build", [curvature.cnn_task, curvature.transformer_task])
def test_our_scores_of_a_task_are_finite_and_one_per_pair(build):
    torch.manual_seed(0)
    scores = curvature.ours(build(rows=24, queries=3), temperature=1.0)
    assert scores.shape == (24, 3)
    assert np.isfinite(scores).all()


@pytest.mark.skipif(importlib.util.find_spec("kronfluence") is None, reason="kronfluence is not installed")
def test_k_fac_of_both_agrees_on_a_network_of_one_position():
    torch.manual_seed(0)
    task = curvature.mlp_task(rows=500, queries=8)
    ours, theirs = curvature.ours(task, temperature=1.0), curvature.peer(task, strategy="kfac")
    # Each draws labels of its own.
    assert all(float(spearman(*columns)) > 0.5 for columns in zip(ours.T, theirs.T, strict=True))
