"""A frozen encoder: features of a text are its own, and what cannot be opened says what to type."""

import io
import json
import shutil
from pathlib import Path

import pytest
import torch

from turnover.errors import DataFileError
from turnover_bench.experiments.datasets import MissingDataError
from turnover_bench.experiments.datasets.texts import minilm_folder

pytest.importorskip("transformers", reason="needs transformers: pip install 'turnover[text]'")

from turnover.integrations import TextEncoder, text_classifier, token_numbers

TEXTS = ["a very good film", "bad", "a very good film that goes on for a long , long time", "", "gut 😀 好"]


@pytest.fixture(scope="module")
def encoder():
    try:
        return TextEncoder(minilm_folder())
    except MissingDataError as error:
        pytest.skip(str(error))


@pytest.fixture
def copied(encoder, tmp_path):
    folder = tmp_path / "encoder"
    shutil.copytree(encoder.where, folder)
    return folder


def test_features_are_the_mean_of_the_last_states_over_the_tokens_of_each_text(encoder):
    found = encoder.features(TEXTS)
    assert torch.equal(found, encoder.features(TEXTS))  # no dropout
    assert not any(parameter.requires_grad for parameter in encoder.model.parameters())
    assert found.shape == (5, encoder.width)
    assert found.dtype == torch.float32
    for text, features in zip(TEXTS, found, strict=True):
        with torch.no_grad():
            states = encoder.model(**encoder.tokenizer(text, return_tensors="pt")).last_hidden_state
        assert torch.allclose(features, states[0].mean(0), atol=1e-5)


def test_features_do_not_depend_on_order_or_on_the_other_texts(encoder):
    many = [f"{'word ' * (number % 7)} {number}" for number in range(130)]
    calls = []
    together = encoder.features(many, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(64, 130), (128, 130), (130, 130)]
    assert torch.allclose(encoder.features(many[::-1]).flip(0), together, atol=1e-5)
    assert torch.allclose(encoder.features(many[70:71])[0], together[70], atol=1e-5)
    assert encoder.features([]).shape == (0, encoder.width)


def test_only_the_first_tokens_of_a_long_text_are_read_and_never_more_than_the_model_takes(encoder):
    short = TextEncoder(encoder.where, longest=10)
    start = "one two three four five six seven eight"
    assert torch.equal(short.features([start + " nine ten"]), short.features([start + " something else"]))
    long = TextEncoder(encoder.where, longest=10**6)
    assert torch.isfinite(long.features(["word " * 2000])).all()


def test_the_digest_follows_weights_vocabulary_and_length_but_not_the_place(encoder, copied):
    assert TextEncoder(copied).digest() == encoder.digest()
    assert TextEncoder(copied, longest=64).digest() != encoder.digest()
    (copied / "1_Pooling").mkdir(exist_ok=True)
    (copied / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    assert TextEncoder(copied).digest() != encoder.digest()
    (copied / "1_Pooling" / "config.json").unlink()
    changed = TextEncoder(copied)
    with torch.no_grad():
        changed.model.embeddings.word_embeddings.weight[500, 3] += 1e-3
    assert changed.digest() != encoder.digest()


def test_a_checkpoint_without_a_pooler_has_the_same_digest_each_time(encoder, copied):
    from safetensors.torch import load_file, save_file

    weights = load_file(copied / "model.safetensors")
    save_file({name: value for name, value in weights.items() if "pooler" not in name}, copied / "model.safetensors")
    torch.manual_seed(1)
    first = TextEncoder(copied)
    torch.manual_seed(2)
    assert first.digest() == TextEncoder(copied).digest() == encoder.digest()
    assert torch.allclose(first.features(TEXTS), encoder.features(TEXTS))


def test_missing_weights_are_rejected_instead_of_being_random(copied):
    from safetensors.torch import load_file, save_file

    weights = load_file(copied / "model.safetensors")
    save_file({name: value for name, value in weights.items() if "layer.3" not in name}, copied / "model.safetensors")
    with pytest.raises(DataFileError, match=r"no weights for \d+ parts.*layer\.3.*save_pretrained"):
        _ = TextEncoder(copied).width


def test_a_pickle_that_would_run_code_is_not_loaded(copied, tmp_path):
    class Harm:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "harmed",))

    (copied / "model.safetensors").unlink()
    torch.save({"weights": Harm()}, copied / "pytorch_model.bin")
    with pytest.raises(DataFileError, match="holds more than numbers"):
        _ = TextEncoder(copied).width
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize("answer", ["", "y\n"])
def test_code_that_comes_with_a_model_is_not_run_whatever_standard_input_says(copied, tmp_path, monkeypatch, answer):
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    config = json.loads((copied / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "evil.Model", "AutoConfig": "evil.Config"}
    config["model_type"] = "of-its-own"
    (copied / "config.json").write_text(json.dumps(config))
    (copied / "evil.py").write_text(f"open({str(tmp_path / 'harmed')!r}, 'w')\n")
    with pytest.raises(DataFileError, match="cannot be opened as an encoder"):
        _ = TextEncoder(copied).width
    assert not (tmp_path / "harmed").exists()


def test_a_name_that_is_nowhere_says_what_to_type(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataFileError, match=r"no folder 'nobody/nothing'.*hub.*Give the path of a folder"):
        _ = TextEncoder("nobody/nothing").width
    with pytest.raises(DataFileError, match="`longest` must be an integer >= 1"):
        TextEncoder("anything", longest=0)


def tiny_encoder(folder: Path, **pooling: bool) -> TextEncoder:
    """Return a tiny encoder whose folder says, as sentence-transformers does, how it pools."""
    import transformers

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "very", "good", "bad", "film"]
    transformers.BertTokenizerFast(vocab={word: place for place, word in enumerate(words)}).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    torch.manual_seed(0)
    transformers.BertModel(transformers.BertConfig(**sizes, vocab_size=len(words))).save_pretrained(folder)
    if pooling:
        (folder / "1_Pooling").mkdir()
        config = {"word_embedding_dimension": 16, **pooling}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return TextEncoder(folder)


POOLING = {
    "none": ({}, lambda states: states.mean(0)),
    "mean": ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, lambda states: states.mean(0)),
    "cls": ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, lambda states: states[0]),
    "max": ({"pooling_mode_max_tokens": True}, lambda states: states.amax(0)),
}


@pytest.mark.parametrize("kind", POOLING)
def test_pooling_is_that_of_the_folder(tmp_path, kind):
    config, by_hand = POOLING[kind]
    encoder = tiny_encoder(tmp_path, **config)
    texts = ["a very good film", "bad"]
    classifier = text_classifier(encoder, 3)
    with torch.no_grad():
        scores = classifier(token_numbers(encoder, texts))
        for text, features, score in zip(texts, encoder.features(texts), scores, strict=True):
            states = encoder.model(**encoder.tokenizer(text, return_tensors="pt")).last_hidden_state[0]
            assert torch.allclose(features, by_hand(states), atol=1e-5)
            assert torch.allclose(score, classifier.output(by_hand(states)), atol=1e-5)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"pooling_mode_lasttoken": True}, "pooling_mode_lasttoken; known are"),
        ({"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}, "pooling_mode_cls_token and"),
        ({"pooling_mode_mean_tokens": False}, "pools by nothing"),
    ],
)
def test_pooling_that_is_not_known_is_rejected_by_name(tmp_path, config, message):
    with pytest.raises(DataFileError, match=message):
        tiny_encoder(tmp_path, **config).features(["a film"])
