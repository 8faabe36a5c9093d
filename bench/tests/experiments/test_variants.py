"""Variants: a toy run trains and judges every one, resumes, and the page says what the numbers say."""

from turnover_bench.experiments.variants.experiment import VARIANTS


def test_every_variant_is_judged_and_those_without_masks_by_accuracy_alone(toy):
    assert set(toy.result["variants"]) == set(VARIANTS)
    for name, (cell,) in toy.result["variants"].items():
        assert 0 <= cell["accuracy"] <= 1
        assert ("lds" in cell) == (VARIANTS[name].masks is not None)
        assert all(-1 <= cell[key] <= 1 for key in cell)


def test_against_the_full_network_other_scores_come_from_the_same_training(toy):
    base, full = (toy.result["variants"][name][0] for name in ("base", "full_network"))
    assert base["accuracy"] == full["accuracy"]
    assert base["lds"] != full["lds"]


def test_every_kind_of_masks_is_timed(toy):
    assert all(kind["shuffled"] > 0 for kind in toy.result["masks"]["kinds"].values())
    assert toy.result["masks"]["kept_bytes"] == 2 * 32 * 512 // 8
