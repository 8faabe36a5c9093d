"""Cleansing: reviews are written as SST-2 is, a toy run measures every arm once, and the page tells what was found."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

import turnover

pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")

from turnover.training import TrainingRecipe
from turnover_bench.experiments.cleansing.experiment import (
    SIZES,
    Rows,
    mean_influence,
)
from turnover_bench.experiments.cleansing.experiment import run as measure
from turnover_bench.experiments.cleansing.page import (
    findings,
    page,
)
from turnover_bench.experiments.datasets.texts import Sentences, load_electronics, split_reviews
from turnover_bench.experiments.encoders import open_encoder
from turnover_bench.experiments.networks import masked_mlp


def test_equal_and_nearly_equal_reviews_are_on_one_side_of_every_split():
    long = " ".join(f"word{number}" for number in range(60))
    texts = [f"a review of its own number {number} {number**2}" for number in range(36)]
    texts += ["the same words", "the same words", long, f"{long} more"]
    reviews = Sentences(texts, np.arange(40) % 2)
    sides = set()
    for seed in range(12):
        validation, test = split_reviews(reviews, validation=12, seed=seed)
        assert sorted([*validation, *test]) == list(range(40))
        assert np.bincount(reviews.labels[validation]).tolist() == [6, 6]
        chosen = set(validation.tolist())
        assert len(chosen & {36, 37}) != 1
        assert len(chosen & {38, 39}) != 1
        sides.add(bool(chosen & {36, 37}))
    assert sides == {True, False}  # they are not always on the same side


def test_electronics_has_its_known_size_and_as_many_of_both_labels(monkeypatch, data_file):
    monkeypatch.setenv("TURNOVER_DATA", str(data_file("electronics/electronics.tsv").parents[1]))
    reviews = load_electronics()
    assert len(reviews) == 2000
    assert reviews.labels.sum() == 1000
    assert len(set(reviews.texts)) <= 1965
    assert all(text == text.lower() for text in reviews.texts)
    assert load_electronics(rows=10).labels.tolist() == [0] * 5 + [1] * 5


@pytest.mark.filterwarnings("ignore::turnover.errors.TurnOverWarning")  # nothing is learned in so few steps
def test_a_whole_encoder_takes_the_place_of_features(toy, tmp_path):
    del toy  # its fixture skips where data is missing
    encoder = open_encoder(tmp_path, blocks=2)
    config = replace(
        SIZES["toy"],
        rows=24,
        reviews=12,
        validation=4,
        encoder=encoder,
        estimates=("tod", "replicas", "recommended"),
        asked=2,
        bfloat16=True,
        scored_blocks=0,
        rates=(1e-3,),
        epochs=(1,),
        shares=(0.1,),
    )
    result = measure(config, tmp_path / "run")
    assert list(result["seeds"][0]["arms"]) == ["random", *config.estimates]
    text = page(result, tmp_path)
    assert encoder in text
    assert "Other shares" not in text  # there is one
    assert "One rate and number of epochs; no review was looked at." in text
    assert list(tmp_path.glob("*.svg")) == []
    settings = [one.setting for one in findings(result)]
    assert ["scored by all masks on 2 of 4 validation reviews, in bfloat16" in told for told in settings] == [
        True
    ] * 2 + [False] * 4
    assert ["masks before the output layer alone" in told for told in settings] == [False] * 2 + [True] * 2 + [
        False
    ] * 2


def test_mean_influence_in_pieces_is_that_of_all_reviews_and_resumes(tmp_path):
    random = torch.Generator().manual_seed(0)
    reviews = Rows(Sentences([], np.array([])), torch.randn(11, 4, generator=random), torch.arange(11) % 2)
    train = torch.randn(20, 4, generator=random), torch.arange(20) % 2, torch.arange(20)
    recipe = TrainingRecipe(partial(masked_mlp, 4, (16,), 2, seed=0), *train[:2], epochs=2, batch_size=10)
    influence = turnover.Influence(recipe.fit(seed=0), train=train, estimator="tod")
    asked = np.array([9, 1, 4, 7, 2, 8, 0, 3, 10])
    expected = mean_influence(influence, reviews, asked, None)
    assert expected.shape == (20,)
    np.testing.assert_allclose(mean_influence(influence, reviews, asked, tmp_path), expected, atol=1e-6)
    pieces = [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(3)]
    # What was kept is not asked again, and what is missing is.
    (tmp_path / "0.json").write_text(json.dumps(pieces[0] | {"found": [one + 9 for one in pieces[0]["found"]]}))
    (tmp_path / "1.json").unlink()
    np.testing.assert_allclose(mean_influence(influence, reviews, asked, tmp_path), expected + 4, atol=1e-6)
