"""Data sets of the experiments: what is read is what is in the files, and missing files say so."""

from pathlib import Path

import numpy as np
import pytest

from turnover.errors import TurnOverError
from turnover_bench.experiments.datasets import MissingDataError
from turnover_bench.experiments.datasets.files import read_tsv
from turnover_bench.experiments.datasets.images import (
    change_labels,
    labels_by_people,
    load_cifar10,
    load_cscores,
)
from turnover_bench.experiments.datasets.texts import (
    load_electronics,
    load_mnli,
    load_sst2,
    load_wikitext2,
    load_yahoo,
    minilm_folder,
)
from turnover_bench.experiments.self_influence.experiment import SIZES, text_task


@pytest.mark.parametrize(
    ("load", "source"),
    [
        (lambda: load_sst2("dev"), "sst2/dev.tsv.*https://"),
        (lambda: text_task(SIZES["toy"].text, Path("nowhere")), "sst2/train.tsv.*https://"),
        (lambda: load_cifar10("test"), "cifar10_12k.npz.*https://"),
        (lambda: labels_by_people(rows=1), "cifar10n_labels.npz.*https://"),
        (lambda: load_cscores(rows=1), "cifar10_cscores.npz.*https://"),
        (lambda: load_mnli("train"), "mnli/train.tsv.*https://"),
        (lambda: load_wikitext2("valid"), "wikitext-2/valid.txt.*https://"),
        (load_electronics, "electronics.tsv.*https://"),
        (load_yahoo, "yahoo_answers_topics on the Hugging Face hub"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_missing_data_says_where_to_get_it_and_how_to_point_to_it(monkeypatch, tmp_path, load, source):
    monkeypatch.setenv("TURNOVER_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=f"{source}.*export TURNOVER_DATA=") as caught:
        load()
    assert str(tmp_path) in str(caught.value)
    assert isinstance(caught.value, TurnOverError)


def test_quotes_in_a_table_are_text_and_ragged_lines_are_named(tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text('sentence\tlabel\nsay "what\t1\nand "so" on\t0\n', encoding="utf-8")
    assert [row["sentence"] for row in read_tsv(path)] == ['say "what', 'and "so" on']
    path.write_text("sentence\tlabel\nfine\t1\na tab\there\t0\n", encoding="utf-8")
    with pytest.raises(MissingDataError, match="line 3"):
        read_tsv(path)


def test_sst2_rows_are_those_of_the_file_and_a_seed_draws_without_repeats(monkeypatch, tmp_path):
    monkeypatch.setenv("TURNOVER_DATA", str(tmp_path))
    (tmp_path / "sst2").mkdir()
    lines = [f"sentence {place} \t{place % 2}" for place in range(20)]
    (tmp_path / "sst2/dev.tsv").write_text("\n".join(["sentence\tlabel", *lines]), encoding="utf-8")
    first = load_sst2("dev", rows=3, seed=None)
    assert first.texts == ["sentence 0", "sentence 1", "sentence 2"]
    drawn, more = load_sst2("dev", rows=5, seed=1), load_sst2("dev", rows=8, seed=1)
    assert drawn.texts == more.texts[:5]
    assert len(set(more.texts)) == 8
    assert [int(text.split()[1]) % 2 for text in more.texts] == more.labels.tolist()


def test_cifar10_labels_by_people_differ_from_the_true_ones_at_the_known_rate(monkeypatch, data_file):
    monkeypatch.setenv("TURNOVER_DATA", str(data_file("cifar10/cifar10_12k.npz").parents[1]))
    test = load_cifar10("test", rows=100)
    assert test.pixels.shape == (100, 32, 32, 3)
    train = load_cifar10("train")
    assert np.array_equal(labels_by_people("clean", rows=len(train)), train.labels)
    assert np.mean(labels_by_people("aggre", rows=len(train)) != train.labels) == pytest.approx(0.09, abs=0.01)


def test_the_asked_share_of_labels_is_changed_and_every_other_class_occurs():
    labels = np.arange(1000) % 5
    some = change_labels(labels, share=0.1, classes=5, seed=3)
    assert some.changed.sum() == 100
    assert np.array_equal(some.given != labels, some.changed)
    assert set((some.given - labels)[some.changed] % 5) == {1, 2, 3, 4}
    assert np.array_equal(change_labels(labels, share=0.1, classes=5, seed=3).given, some.given)
    assert not np.array_equal(change_labels(labels, share=0.1, classes=5, seed=4).given, some.given)


@pytest.fixture
def minilm():
    try:
        return minilm_folder()
    except MissingDataError as error:
        pytest.skip(str(error))
