"""What masks cost with many classes: a toy run, the letters, and what settings vary."""

import numpy as np
import pytest
import torch

import turnover
from turnover_bench.experiments.mask_cost_classes.experiment import (
    LETTERS,
    OTHERS,
    Setting,
    _changed,
    letter_rows,
    masked_sites,
    network,
)


def test_masks_at_all_sites_of_the_network_have_no_warning():
    torch.manual_seed(0)
    model, places = network("letters", Setting(), 3)
    planned = turnover.plan(model, at=masked_sites(places, "all"))
    assert [site.zero.keeps for site in planned.sites] == [True] * 4
    assert model(torch.randn(2, 3, 12, 12)).shape == (2, 26)


def test_one_site_is_the_last_or_that_before_it():
    places = [(name, "channels") for name in "abcd"]
    found = [list(masked_sites(places, place)) for place in ("last", "before", "all")]
    assert found == [["d"], ["c"], ["a", "b", "c", "d"]]


def test_a_twentieth_of_the_letters_has_a_wrong_label_in_training_and_none_in_the_test():
    x, given, held, held_labels = letter_rows(400, 100, 26, 0.05, 0)
    clean = letter_rows(400, 100, 26, 0.0, 0)
    assert torch.equal(x, clean[0])
    assert torch.equal(held, clean[2])
    assert int((given != clean[1]).sum()) == 20
    assert np.array_equal(held_labels, clean[3])


def test_only_the_last_stage_grows_with_the_width():
    shapes = [
        {name: weights.shape for name, weights in network("letters", Setting(width=width), 3)[0].named_parameters()}
        for width in (16, 256)
    ]
    same = {name for name in shapes[0] if shapes[0][name] == shapes[1][name]}
    assert {"stem.0.weight", "stages.0.0.conv2.weight", "stages.1.0.conv2.weight"} <= same
    assert not [name for name in same if name.startswith(("stages.2", "classifier"))]


def test_every_setting_has_a_name_of_its_own():
    names = [_changed(vars(setting)) for setting in LETTERS]
    assert len(set(names)) == len(names)
    assert "10 classes and the same rows" in names
    assert "10 classes and the same rows per class" in names
    assert "10 classes and the same rows and epochs per class" in names
    assert _changed(vars(Setting())) == ""


@pytest.mark.parametrize("kind", ["letters", "mlp", "vgg", "resnet"])
def test_every_setting_is_trained_with_masks_and_without(toy, kind):
    points = toy.result["kinds"][kind]
    assert len(points) == len(LETTERS if kind == "letters" else OTHERS)
    for point in points:
        (one,) = point["seeds"]
        assert ("recalibrated" in one) == (kind != "mlp")
        assert all(0 <= value <= 1 for value in one.values())
