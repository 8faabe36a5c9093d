"""Errors and their supporting rows: toy runs on all three data sets, figures, retraining, and what is said of it."""

import copy

import pytest

from turnover_bench.experiments.errors import findings, text_figure


@pytest.fixture(scope="module", params=["error_sst2", "error_yahoo", "error_cifar10"])
def toy(request, run_toy):
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
    ("corrected", "verdict"), [(6, "holds"), (3, "holds in part"), (0, "does not hold here")], ids=str
)
def test_an_error_is_due_to_rows_without_which_most_are_corrected(toy, corrected, verdict):
    result = copy.deepcopy(toy)
    each = [float(place < corrected) for place in range(8)]
    result["repair"] |= {"tried": 8, "repaired": {"tod": 0, "recommended": corrected, "random": 0}}
    result["repair"]["by_error"] = {"tod": each, "recommended": each, "random": [0.0] * 8}
    assert findings(result)[-1].verdict == verdict


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
