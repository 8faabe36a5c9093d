"""Errors and their supporting rows: toy runs on all three data sets, figures, retraining, and what is said of it."""

import copy

import numpy as np
import pytest

from turnover_bench.experiments.datasets.folder import MissingDataError
from turnover_bench.experiments.datasets.yahoo import TOPICS, load_yahoo
from turnover_bench.experiments.errors import _broken, _pieces, _score, findings, text_figure


@pytest.fixture(scope="module", params=["error_sst2", "error_yahoo", "error_cifar10"])
def toy(request, run_toy):
    """The result of a toy run."""
    return run_toy(request.param).result


def test_errors_are_wrong_and_their_supporting_rows_have_the_predicted_label(toy):
    assert toy["wrong"] == round((1 - toy["accuracy"]) * toy["test_rows"])
    for error in toy["shown"]:
        assert error["label"] != error["predicted"]
        assert all(row["label"] == error["predicted"] and row["score"] > 0 for row in error["supporting"])


def test_marked_subwords_are_in_both_texts(toy):
    if toy["setting"]["data"] == "cifar10":
        assert toy["shared"] is None
        return
    for error in toy["shown"]:
        words = {error["text"][low:high].lower() for low, high in error["marks"]}
        marked = {row["text"][low:high].lower() for row in error["supporting"] for low, high in row["marks"]}
        assert words == marked


def test_as_many_rows_are_removed_as_asked_and_repairs_are_counted(toy):
    repair = toy["repair"]
    assert repair["removed"] == max(1, round(0.01 * toy["train_rows"]))
    assert all(0 <= count <= repair["tried"] for count in repair["repaired"].values())
    assert set(repair["repaired"]) == {"tod", "recommended", "random"}


@pytest.mark.parametrize(
    ("ours", "chance", "said"),
    [
        ([1.0] * 8, [0.0] * 8, "corrects it more often than"),
        ([0.0] * 8, [1.0] * 8, "corrects it less often than"),
        ([1.0, 0.0] * 4, [0.0, 1.0] * 4, "does not clearly correct it more often than"),
    ],
)
def test_the_sentence_on_repair_follows_the_numbers(toy, ours, chance, said):
    result = copy.deepcopy(toy)
    result["repair"]["by_error"] |= {"tod": ours, "recommended": ours, "random": chance}
    assert any(said in one.agreement for one in findings(result))


@pytest.mark.parametrize(
    ("corrected", "verdict"), [(6, "holds"), (3, "holds in part"), (0, "does not hold here")], ids=str
)
def test_an_error_is_due_to_rows_without_which_most_are_corrected(toy, corrected, verdict):
    result = copy.deepcopy(toy)
    each = [float(place < corrected) for place in range(8)]
    result["repair"] |= {"tried": 8, "repaired": {"tod": 0, "recommended": corrected, "random": 0}}
    result["repair"]["by_error"] = {"tod": each, "recommended": each, "random": [0.0] * 8}
    assert findings(result)[-1].verdict == verdict


@pytest.mark.parametrize(("supporting", "said"), [(2.0, "holds on average"), (0.5, "no more subwords")])
def test_the_sentence_on_shared_subwords_follows_the_numbers(toy, supporting, said):
    result = copy.deepcopy(toy)
    result["shared"] = {"supporting": supporting, "random": 1.0}
    assert said in findings(result)[0].agreement


def test_texts_are_never_read_as_formulas(tmp_path):
    row = {
        "label": "b",
        "text": "it was $5 or $6",
        "marks": [(3, 6)],
        "score": 1.0,
        "stderr": None,
        "significant": True,
    }
    error = {**row, "label": "a", "predicted": "b", "probability": 0.7, "supporting": [row]}
    text_figure([error], tmp_path / "figure.svg")
    assert "<!-- $5 -->" in (tmp_path / "figure.svg").read_text(encoding="utf-8")


def test_words_are_cut_where_marks_begin_and_end():
    assert _pieces("christmas", 4, [(4, 10)]) == [("christ", True), ("mas", False)]
    assert _pieces("plain", 0, []) == [("plain", False)]


def test_a_long_text_is_broken_into_lines_and_cut():
    lines = _broken("word " * 200, [(0, 4)], 100.0, "normal")
    assert len(lines) > 1
    assert lines[0][0][1:] == ("word", True)
    assert lines[-1][-1][1] == "…"


def test_questions_have_topics_and_come_once():
    try:
        rows = load_yahoo()
    except MissingDataError as error:
        pytest.skip(str(error))
    assert len(set(rows.texts)) > 0.99 * len(rows)
    assert set(np.unique(rows.labels)) == set(range(len(TOPICS)))
    assert load_yahoo(rows=5).texts == rows.texts[:5]


@pytest.mark.parametrize(
    ("score", "stderr", "words"),
    [
        (0.0123, 0.004, "+0.012 ± 0.004 *"),
        (-41.55, None, "-42 *"),
        (101.1, 6.31, "+101 ± 6.3 *"),
        (99.6, 120.4, "+100 ± 120 *"),
    ],
)
def test_scores_of_a_figure_have_no_exponents(score, stderr, words):
    assert _score({"score": score, "stderr": stderr, "significant": True}) == words
