"""Variants: a toy run trains and judges every one, resumes, and the page says what the numbers say."""

import pytest

from turnover_bench.experiments.variants.experiment import VARIANTS, findings


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


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"full_network": {"lds": 0.9}}, "The paper saw no such gain"),
        ({"full_network": {"lds": 0.0}}, "“no large improvements” holds."),
        ({"mixout": {"accuracy": 0.99}}, "Accuracy gains from mixout"),
        ({"mixout": {"accuracy": 0.1}, "backward": {"accuracy": 0.1}}, "Neither remedy clearly gains accuracy"),
        ({"codebook": {"lds": 0.9}}, "hash-composed masks: LDS differs"),
        ({"codebook": {"lds": 0.3}, "volatile": {"lds": 0.3}}, "estimates of the same quality"),
        ({"short": {"accuracy": 0.5, "self_auc": 0.4}}, "as in the paper, and the longer training gives better"),
        ({"short": {"accuracy": 0.2, "self_auc": 0.9}}, "reach less accuracy here"),
    ],
)
def test_the_sentences_follow_the_numbers(toy, change, said):
    result = toy.result
    for name, cells in result["variants"].items():
        known = {"accuracy": 0.5, "lds": 0.3, "self_auc": 0.8} if VARIANTS[name].masks else {"accuracy": 0.5}
        cells[0].update(known | change.get(name, {}))
    assert any(said in one.agreement for one in findings(result))
