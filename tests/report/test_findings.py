"""Headlines: what would alarm a reader without reason is explained, and what asks for something says what to do."""

import pytest

from turnover.report.data import Counts, Overview
from turnover.report.findings import findings_of
from turnover.report.overview import NGRAMS


def said(section, *, model="two convolutions", kind="image", **counts):
    overview = Overview(
        title="data",
        kind=kind,
        rows={"train": 100, "validation": 10, "test": 10},
        labels=("a", "b"),
        facts=(("model", f"{model}, then a layer"),),
        notes=(),
        results={},
        baseline=None,
    )
    found = findings_of(overview, Counts(**counts), doubtful=(), harmful=(), groups=(), leaks=None, trust=None, rows={})
    return next(finding for finding in found if finding.section == section)


@pytest.mark.parametrize("memorised", [10, 89])
def test_that_most_rows_are_known_better_for_having_been_seen_is_explained_and_few_need_no_explanation(memorised):
    found = said("memorised", memorised=memorised)
    assert found.figure.replace("\xa0", " ") == f"{memorised} %"
    assert ("usual for a network with many weights" in found.sentence) == (memorised == 89)
    assert found.tone == "plain"


def test_for_words_and_n_grams_the_reason_is_named():
    assert "few other texts share the rare ones" in said("memorised", model=NGRAMS, kind="text", memorised=89).sentence
    assert "few other texts" not in said("memorised", model="an encoder", kind="text", memorised=89).sentence


def test_near_duplicates_on_both_sides_of_a_split_come_with_advice():
    both = said("duplicates", duplicates=5, across_splits=2).sentence
    assert "2 both in training and among the rows to test on" in both
    assert "remove one side of each" in both
    assert "--group" in both
    assert "--group" not in said("duplicates", duplicates=5).sentence
