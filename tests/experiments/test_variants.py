"""Variants: a toy run trains and judges every one, resumes, and the page says what the numbers say."""

import copy
import json

import pytest

from experiments.variants.config import SIZES
from experiments.variants.page import findings, page
from experiments.variants.run import VARIANTS
from experiments.variants.run import run as measure


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("variants")


@pytest.fixture(scope="module")
def toy(folder):
    return json.loads(json.dumps(measure(SIZES["toy"], folder)))


def test_every_variant_is_judged_and_those_without_masks_by_accuracy_alone(toy):
    assert set(toy["variants"]) == set(VARIANTS)
    for name, (cell,) in toy["variants"].items():
        assert 0 <= cell["accuracy"] <= 1
        assert ("lds" in cell) == (VARIANTS[name].masks is not None)
        assert all(-1 <= cell[key] <= 1 for key in cell)


def test_against_the_full_network_other_scores_come_from_the_same_training(toy):
    base, full = (toy["variants"][name][0] for name in ("base", "full_network"))
    assert base["accuracy"] == full["accuracy"]
    assert base["lds"] != full["lds"]


def test_every_kind_of_masks_is_timed(toy):
    assert all(kind["shuffled"] > 0 for kind in toy["masks"]["kinds"].values())
    assert toy["masks"]["kept_bytes"] == 2 * 32 * 512 // 8


def test_what_was_measured_is_not_measured_again(toy, folder):
    cell = folder / "cells" / "base-0.json"
    cell.write_text('{"seconds": 1, "found": {"accuracy": 0.123}}')
    assert measure(SIZES["toy"], folder)["variants"]["base"] == [{"accuracy": 0.123}]


def test_the_page_shows_every_variant_and_kind(toy, tmp_path):
    text = page(toy, tmp_path)
    assert all(variant.title in text for variant in VARIANTS.values())
    assert (tmp_path / "variants.svg").stat().st_size > 1000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"full_network": {"lds": 0.9}}, "The paper saw no such gain"),
        ({"full_network": {"lds": 0.0}}, "That agrees with the paper."),
        ({"mixout": {"accuracy": 0.99}}, "Accuracy gains from mixout"),
        ({"mixout": {"accuracy": 0.1}, "backward": {"accuracy": 0.1}}, "Neither remedy gains accuracy"),
        ({"codebook": {"lds": 0.9}}, "hash-composed masks: LDS differs"),
        ({"codebook": {"lds": 0.3}, "volatile": {"lds": 0.3}}, "estimates of the same quality"),
        ({"short": {"accuracy": 0.5, "self_auc": 0.4}}, "as in the paper, and the longer training estimates better"),
        ({"short": {"accuracy": 0.2, "self_auc": 0.9}}, "reach less accuracy here"),
    ],
)
def test_the_sentences_follow_the_numbers(toy, change, said):
    result = copy.deepcopy(toy)
    for name, cells in result["variants"].items():
        known = {"accuracy": 0.5, "lds": 0.3, "self_auc": 0.8} if VARIANTS[name].masks else {"accuracy": 0.5}
        cells[0].update(known | change.get(name, {}))
    assert any(said in one.agreement for one in findings(result))
