"""Self-influence: a toy run asks every row about itself, and the page tells whether most are positive."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")

from turnover_bench.experiments.encoders import open_encoder
from turnover_bench.experiments.runner import ExperimentError
from turnover_bench.experiments.self_influence.experiment import (
    SIZES,
    image_task,
    page,
)
from turnover_bench.experiments.self_influence.experiment import run as measure


def test_cscores_of_other_images_are_refused(monkeypatch, data_file, tmp_path):
    real = data_file("cifar10/cifar10_12k.npz").parent
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "cifar10_12k.npz").symlink_to(real / "cifar10_12k.npz")
    np.savez(tmp_path / "cifar10" / "cifar10_cscores.npz", scores=np.ones(96), labels=np.zeros(96))
    monkeypatch.setenv("TURNOVER_DATA", str(tmp_path))
    with pytest.raises(ExperimentError, match="original order"):
        image_task(SIZES["toy"].image)


def test_trained_rows_have_positive_self_influence_and_null_ids_do_not(toy):
    # Features of a pretrained encoder are memorized within a few epochs, even by a toy.
    for one in toy.result["tasks"]["sst2"]["runs"]["1"]:
        assert one["positive"] > 0.75
        assert one["mean"] > 3 * abs(one["null_mean"])
        assert 0.3 < one["null_positive"] < 0.7


def test_a_whole_encoder_and_vgg_are_trained_by_the_same_recipe(toy, tmp_path):
    del toy  # its fixture skips where data is missing
    config = SIZES["toy"]
    text = replace(config.text, rows=24, encoder=open_encoder(tmp_path, blocks=2), rates=(1e-3,), epochs=1)
    image = replace(config.image, rows=24, vgg=0.03125, milestones=(1,), epochs=2)
    result = measure(replace(config, text=text, image=image, replicas=(1,), seeds=(0,), test_rows=8), tmp_path / "run")
    assert result["tasks"]["sst2"]["agreement"] == {"1": None}
    assert "VGG19 of 0.03125 times" in page(result, tmp_path)
