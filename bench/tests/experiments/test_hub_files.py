"""Files made of data sets of the hub: saved data sets stand in for it, and loaders read what was in them."""

import io

import numpy as np
import pytest

from turnover.errors import DataFileError
from turnover_bench.experiments.datasets import MissingDataError
from turnover_bench.experiments.datasets.files import HUB_TOPICS
from turnover_bench.experiments.datasets.images import load_cifar10
from turnover_bench.experiments.datasets.texts import TOPICS, load_sst2, load_yahoo

datasets = pytest.importorskip("datasets")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder that stands in for the hub, and an empty data folder."""
    monkeypatch.setenv("TURNOVER_HUB", str(tmp_path / "hub"))
    monkeypatch.setenv("TURNOVER_DATA", str(tmp_path / "data"))
    return tmp_path / "hub"


def save(folder, name, features=None, **splits):
    made = {split: datasets.Dataset.from_dict(columns, features=features) for split, columns in splits.items()}
    datasets.DatasetDict(made).save_to_disk(folder / name)


def test_sentences_keep_their_labels_and_lose_their_tabs(hub):
    kind = datasets.Features(
        {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["negative", "positive"])}
    )
    save(hub, "stanfordnlp/sst2", kind, train={"sentence": ["a\tfine film ", "dull"], "label": [1, 0]})
    found = load_sst2("train", seed=None)
    assert (found.texts, found.labels.tolist()) == (["a fine film", "dull"], [1, 0])


def test_the_file_is_made_once(hub):
    save(hub, "SetFit/sst2", test={"text": ["good"], "label": [1], "label_text": ["positive"]})
    assert load_sst2("test").labels.tolist() == [1]
    save(hub, "SetFit/sst2", test={"text": ["bad"], "label": [0], "label_text": ["negative"]})
    assert load_sst2("test").texts == ["good"]


def test_questions_are_joined_with_their_answers(hub):
    topic, text = datasets.ClassLabel(names=list(HUB_TOPICS)), datasets.Value("string")
    kind = datasets.Features({"topic": topic, "question_title": text, "question_content": text, "best_answer": text})
    rows = {"topic": [5], "question_title": ["who won?"], "question_content": [""], "best_answer": ["the\nreds"]}
    save(hub, "community-datasets/yahoo_answers_topics", kind, train=rows)
    found = load_yahoo()
    assert (found.texts, TOPICS[found.labels[0]]) == (["who won? the reds"], "sports")


def test_images_keep_their_pixels_and_order(hub):
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
    encoded = []
    for one in pixels:
        file = io.BytesIO()
        Image.fromarray(one).save(file, "png")
        encoded.append({"bytes": file.getvalue(), "path": None})
    names = "airplane automobile bird cat deer dog frog horse ship truck".split()
    kind = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=names)})
    rows = {"img": encoded, "label": [3, 9]}
    save(hub, "uoft-cs/cifar10", kind, train=rows, test=rows)
    found = load_cifar10("train")
    assert np.array_equal(found.pixels, pixels)
    assert found.labels.tolist() == [3, 9]


def test_a_data_set_that_is_not_there_says_what_to_do_and_leaves_no_file(hub, tmp_path):
    with pytest.raises(DataFileError, match="save_to_disk"):
        load_sst2("train")
    assert not list((tmp_path / "data").rglob("*.*"))


def test_without_the_variable_nothing_is_loaded_and_the_error_names_it(hub, monkeypatch):
    save(hub, "SetFit/sst2", test={"text": ["good"], "label": [1]})
    monkeypatch.delenv("TURNOVER_HUB")
    with pytest.raises(MissingDataError, match="export TURNOVER_HUB=1"):
        load_sst2("test")
