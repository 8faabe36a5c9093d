"""Data sets of the hub, as saved to disk: splits and class names are kept; without a network the message helps."""

import numpy as np
import pytest

from turnover.errors import DataFileError
from turnover.runs._reading import read_rows
from turnover.runs._splits import split_rows
from turnover.runs.config import RunConfig

datasets = pytest.importorskip("datasets", reason="needs datasets: pip install 'turnover[text]'")


def sentences(name, labels):
    features = datasets.Features(
        {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["negative", "positive"])}
    )
    texts = [f"a {name} sentence, number {number}" for number in range(len(labels))]
    return datasets.Dataset.from_dict({"sentence": texts, "label": labels}, features=features)


def saved(tmp_path, **splits):
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "saved")
    return str(tmp_path / "saved")


def test_splits_and_names_of_classes_are_kept(tmp_path):
    where = saved(
        tmp_path,
        train=sentences("train", [0, 1] * 10),
        validation=sentences("validation", [0, 1] * 3),
        test=sentences("test", [1, 0]),
        unsupervised=sentences("other", [-1] * 5),
    )
    rows = read_rows(RunConfig(where))
    assert rows.kind == "text"
    assert rows.label_names == ("negative", "positive")
    assert rows.splits.tolist() == [0] * 20 + [1] * 6 + [2] * 2
    assert rows.names[-1] == "test row 2"
    assert rows.values[0] == "a train sentence, number 0"
    assert "Splits skipped: 'unsupervised'." in rows.notes


def test_a_test_split_without_labels_is_left_out_and_taken_from_training_rows_instead(tmp_path):
    where = saved(
        tmp_path,
        train=sentences("train", [0, 1] * 20),
        validation=sentences("validation", [0, 1] * 3),
        test=sentences("test", [-1] * 9),
    )
    config = RunConfig(where)
    rows = read_rows(config)
    assert "The test split has no labels and is skipped." in rows.notes
    assert np.bincount(split_rows(rows, config)).tolist() == [36, 6, 4]


def test_one_split_alone_is_split(tmp_path):
    sentences("only", [0, 1] * 20).save_to_disk(tmp_path / "one")
    config = RunConfig(str(tmp_path / "one"))
    rows = read_rows(config)
    assert (rows.splits == -1).all()
    assert set(split_rows(rows, config)) == {0, 1, 2}


def test_images_are_decoded(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'turnover[cli]'")
    pixels = np.random.default_rng(0).integers(0, 256, (8, 6, 6, 3), np.uint8)
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
    data = {"image": [image.fromarray(one) for one in pixels], "label": [0, 1] * 4}
    part = datasets.Dataset.from_dict(data, features=features)
    rows = read_rows(RunConfig(saved(tmp_path, train=part, test=part), image_size=6))
    assert rows.kind == "image"
    assert np.array_equal(rows.values, np.concatenate([pixels, pixels]))
    assert rows.label_names == ("cat", "dog")
    assert "image" not in rows.data.column_names


def test_without_a_network_a_name_says_what_to_do(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataFileError, match=r"no file or folder 'nobody/nothing'.*hub.*save_to_disk\(folder\)"):
        read_rows(RunConfig("nobody/nothing"))


def test_splits_without_training_rows_and_extra_files_are_refused(tmp_path):
    where = saved(tmp_path, one=sentences("a", [0, 1]), two=sentences("b", [0, 1]))
    with pytest.raises(DataFileError, match=r"splits 'one', 'two' and none called 'train'"):
        read_rows(RunConfig(where))
    with pytest.raises(DataFileError, match="brings its own splits"):
        read_rows(RunConfig(where, test_data="more.csv"))


def test_a_damaged_folder_is_refused(tmp_path):
    where = saved(tmp_path, train=sentences("a", [0, 1] * 5))
    for file in (tmp_path / "saved" / "train").glob("*.arrow"):
        file.unlink()
    with pytest.raises(DataFileError, match="cannot be opened as a saved data set"):
        read_rows(RunConfig(where))
