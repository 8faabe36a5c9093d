"""Headlines: what would alarm a reader without reason is explained, and what asks for something says what to do."""

import pytest

from turnover.ui.html.data import Counts, Overview
from turnover.ui.html.data_rows import DoubtfulLabel, ShownRow
from turnover.ui.html.findings import doubts_words, findings_of
from turnover.ui.html.overview import NGRAMS


def said(section, *, model="two convolutions", kind="image", doubts=(), baseline=None, **counts):
    overview = Overview(
        title="data",
        kind=kind,
        rows={"train": 100, "validation": 10, "test": 10},
        labels=("a", "b"),
        facts=(("model", f"{model}, then a layer"),),
        notes=(),
        results={},
        baseline=baseline,
    )
    rows = {one.row: ShownRow(one.row, f"line {one.row}", "train", one.given) for one in doubts}
    found = findings_of(
        overview, Counts(**counts), doubtful=doubts, harmful=(), groups=(), leaks=None, trust=None, rows=rows
    )
    return next(finding for finding in found if finding.section == section)


@pytest.mark.parametrize("memorized", [10, 89])
def test_that_most_rows_are_known_better_for_having_been_seen_is_explained_and_few_need_no_explanation(memorized):
    found = said("memorized", memorized=memorized)
    assert found.figure == f"{memorized} %"
    assert ("usual for a network with many weights" in found.sentence) == (memorized == 89)
    assert found.tone == "plain"


def test_for_words_and_n_grams_the_reason_is_named():
    assert "few other texts share the rare ones" in said("memorized", model=NGRAMS, kind="text", memorized=89).sentence
    assert "few other texts" not in said("memorized", model="an encoder", kind="text", memorized=89).sentence


def test_near_duplicates_on_both_sides_of_a_split_come_with_advice():
    both = said("duplicates", duplicates=5, across_splits=2).sentence
    assert "2 both in training and among the rows to test on" in both
    assert "remove one side of each" in both
    assert "--group" in both
    assert "--group" not in said("duplicates", duplicates=5).sentence


DOUBTS = (DoubtfulLabel(3, "a", "b", 0.1, 0.9, True),)


@pytest.mark.parametrize(
    ("doubtful", "disbelieved", "follows"),
    [
        (20, 5, "5 of the training rows: at least so many of the 20 are to be expected of right labels."),
        (20, 15, "15 of the training rows: at least so many of the 20 are to be expected of right labels."),
        (20, 0, "which would be 0 of the training rows."),
        (20, 30, "errors of its own may explain all of these."),
    ],
)
def test_a_doubted_label_is_not_called_wrong_and_the_card_says_what_to_expect(doubtful, disbelieved, follows):
    # Of 100 training rows; the part that never saw them was asked about 200 others.
    found = said("doubtful", doubts=DOUBTS, doubtful=doubtful, asked=200, asked_disbelieved=2 * disbelieved)
    assert found.figure == str(doubtful)
    assert "labels are doubtful" in found.sentence
    assert "look wrong" not in found.sentence
    assert found.sentence.endswith(follows)


def test_without_unseen_rows_nothing_is_said_of_how_many_doubts_to_expect():
    assert doubts_words(Counts(doubtful=3), 100) == ""
    assert doubts_words(Counts(asked=10, asked_disbelieved=1), 100) == ""


def test_the_baseline_is_named():
    found = said("classes", baseline=0.6, unseen=20, mistakes=2)
    assert "60.0 %, the share of the most frequent label among the training rows" in found.sentence
    assert found.tone == "plain"
    assert said("classes", baseline=0.95, unseen=20, mistakes=2).tone == "look"
