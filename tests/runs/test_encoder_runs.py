"""Runs on texts with a pretrained encoder: frozen, and with adapters that learn."""

import json
from itertools import product

import numpy as np
import pytest
import torch

from turnover.errors import DataFileError, RunError
from turnover.integrations import TextEncoder
from turnover.runs import open_run, start_run
from turnover.runs.config import RunConfig, unwatched
from turnover.runs.folder import RunFolder
from turnover.runs.inputs import encoded_texts

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'turnover[text]'")

GOOD, BAD = "lovely funny warm bright".split(), "dull slow cold empty".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a small untrained encoder and 96 reviews."""
    folder = tmp_path_factory.mktemp("encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *"a the film plot cast was".split()]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    transformers.BertTokenizerFast(vocab={word: place for place, word in enumerate(words)}).save_pretrained(folder)
    torch.manual_seed(0)
    shape = transformers.BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48
    )
    transformers.BertModel(shape).save_pretrained(folder)
    lines = ["text,label"]
    for noun, one, other, label in product(("film", "plot", "cast"), range(4), range(4), (0, 1)):
        words = GOOD if label else BAD
        lines.append(f"the {noun} was {words[one]} {words[other]},{label}")
    (folder / "reviews.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder


def _config(folder, **changed):
    return RunConfig(
        str(folder / "reviews.csv"),
        text="text",
        label="label",
        model=str(folder),
        epochs=8,
        learning_rate=1e-2,
        **changed,
    )


@pytest.fixture(scope="module", params=[0, 8], ids=["frozen", "adapters"])
def run(request, folder):
    return start_run(_config(folder, adapters=request.param, hidden=64), folder / f"run-{request.param}")


def test_a_run_learns_and_is_opened_again(run):
    again = open_run(run.folder.path)
    texts = ["the film was lovely funny", "the plot was dull slow"]
    assert np.allclose(again.predict(texts), run.predict(texts), atol=1e-6)
    assert run.curves.keep[-1] < run.curves.keep[0] - 0.1  # the encoder knows nothing: adapters learn it slowly
    assert run.config.adapters or run.about.results["validation_accuracy"] > 0.8


def test_every_training_row_has_its_scores(run):
    places = run.places("train")
    assert run.self_influence.ids.tolist() == places.tolist()
    assert np.isfinite(run.mean_influence.values).all()
    assert run.out_of_sample.probs.shape == (len(places), 2)
    # Other rows are shown to a part of the network, but not through all of an encoder.
    assert ("mask-bias correction" in run.held_out().path) == (not run.config.adapters)


def test_questions_are_answered_by_curvature_with_and_without_adapters(run):
    scores = run.influence.pairwise(run.data("validation"), progress=False)
    assert (scores.method, run.mean_influence.method) == ("curvature", "curvature")


def test_only_adapters_and_outputs_are_kept_of_a_frozen_encoder(run):
    base = json.loads((run.folder.model / "turnover.json").read_text())["base_sha256"]
    assert bool(base) == bool(run.config.adapters)


def test_another_encoder_is_refused(folder, run, tmp_path):
    import shutil

    shutil.copytree(run.folder.path, tmp_path / "run")
    inputs = tmp_path / "run" / "inputs.json"
    inputs.write_text(inputs.read_text().replace(run.preparation.digest, "another"))
    about = RunFolder(tmp_path / "run").read_about()
    del about.files["inputs.json"]
    RunFolder(tmp_path / "run").write_about(about)
    with pytest.raises(RunError, match="not the one this run was trained on"):
        open_run(tmp_path / "run").predict(["the film was dull"])


def test_an_encoder_that_does_not_open_leaves_no_folder(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    config = RunConfig(str(folder / "reviews.csv"), text="text", label="label", model=str(tmp_path / "empty"))
    with pytest.raises(DataFileError, match="cannot be opened as an encoder"):
        start_run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_features_of_texts_are_computed_once_across_runs(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNOVER_CACHE", str(tmp_path / "cache"))
    encoder, texts = TextEncoder(folder), ["the film was dull", "the cast was warm", "the film was dull"]
    first = encoded_texts(encoder, texts, unwatched)
    assert torch.allclose(first, encoder.features(texts), atol=1e-6)
    asked = []
    features = TextEncoder.features
    monkeypatch.setattr(
        TextEncoder, "features", lambda self, texts, *more: asked.extend(texts) or features(self, texts, *more)
    )
    again = encoded_texts(TextEncoder(folder), [*texts[::-1], "the plot was slow"], unwatched)
    assert asked == ["the plot was slow"]
    assert torch.equal(again[:3], first.flip(0))
    monkeypatch.setenv("TURNOVER_CACHE", "")
    encoded_texts(encoder, texts, unwatched)
    assert sorted(asked[1:]) == sorted(set(texts))
