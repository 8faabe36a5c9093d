"""From real runs to findings and what their reports say."""

import json
import math
import tomllib
from dataclasses import replace

import numpy as np
import pytest

from tests.ui import small_runs
from tests.ui.html.made_data import HOSTILE, made_data
from turnover.applications import Duplicates, find_near_duplicates
from turnover.runs import RunConfig, start_run
from turnover.ui.html import collect, shown_row
from turnover.ui.html.sections import ReportData, settings_of

SIZE = "<b>size</b>"


@pytest.fixture(scope="module")
def text_data(report_run) -> ReportData:
    return collect(report_run)


@pytest.fixture(scope="module")
def lonely_run(tmp_path_factory):
    """A run with one network, so that nothing is known from replicas."""
    return small_runs.table_run(tmp_path_factory.mktemp("lonely"), replicas=1, hidden=256, epochs=30)


@pytest.fixture(scope="module")
def table_data(lonely_run) -> ReportData:
    return collect(lonely_run)


@pytest.fixture(scope="module")
def found(text_data):
    return text_data.findings


def test_every_row_that_is_named_is_shown_once(text_data, found):
    named = {one.row for part in (found.errors, found.harmful, found.memorized) for one in part.items}
    named |= {one.row for one in found.likely_label_errors.items}
    named |= {example.row for one in found.errors for example in (*one.supporting, *one.opposing)}
    named |= {row for group in found.near_duplicates.items for row in group.rows}
    named |= {row for one in found.likely_label_errors.items for row in one.duplicates}
    numbers = [row.row for row in text_data.rows]
    assert named == set(numbers)
    assert numbers == sorted(set(numbers))


def test_wrong_labels_come_first_with_the_right_one_as_held_out_prediction(text_data, found, report_run):
    wrong = {int(row) for row in report_run.places("train") if row % 20 == 5}
    errors = found.likely_label_errors.items
    assert len({one.row for one in errors[: len(wrong)]} & wrong) >= len(wrong) - 1
    for one in errors:
        assert one.likely_label_error
        assert one.label == text_data.by_number[one.row].label
        assert one.label_quality < one.held_out_probability
    wrong_first = [one.p_wrong for one in errors]
    assert wrong_first == sorted(wrong_first, reverse=True)
    assert found.likely_label_errors.expected_errors == round(sum(wrong_first))


def test_counts_are_those_of_the_lists(found):
    labels, duplicates, errors = found.likely_label_errors, found.near_duplicates, found.errors
    assert labels.count == len(labels.items) == sum(one.likely_label_errors for one in found.classes)
    assert labels.confident == sum(one.confident for one in labels.items)
    assert errors.count == len(errors)
    assert found.harmful.count == sum(one.significant for one in found.harmful.items)
    assert found.memorized.count == sum(one.significant for one in found.memorized.items)
    assert duplicates.count == len(duplicates.items)
    assert duplicates.contradictions == sum(not group.labels_agree for group in duplicates.items) > 0
    assert duplicates.across_splits == sum(group.across_splits for group in duplicates.items) > 0
    assert errors.unseen_rows == sum(one.unseen for one in found.classes) == sum(pair.rows for pair in found.confusions)
    assert errors.unseen_rows - errors.count == sum(one.correct for one in found.classes)
    assert errors.accuracy == pytest.approx(1 - errors.count / errors.unseen_rows)


def test_lists_are_in_the_order_that_they_claim(found):
    harm = [one.score for one in found.harmful.items]
    assert harm == sorted(harm)
    assert harm[0] < 0
    own = [one.self_influence for one in found.memorized.items]
    assert own == sorted(own, reverse=True)
    confident = [one.probability for one in found.errors]
    assert confident == sorted(confident, reverse=True)


def test_errors_are_rows_that_were_not_trained_on_and_examples_behind_them_were(text_data, found):
    assert len(found.errors)
    for one in found.errors:
        assert text_data.by_number[one.row].split != "train"
        assert one.error
        behind = (*one.supporting, *one.opposing)
        assert all(text_data.by_number[example.row].split == "train" for example in behind)
        assert all(example.label == one.predicted and example.score > 0 for example in one.supporting)
        assert all(example.score < 0 for example in one.opposing)


def test_shared_spans_are_words_that_both_texts_have(text_data, found):
    marked = 0
    for one in found.errors:
        query = text_data.by_number[one.row].text.lower()
        for example in one.supporting:
            for start, end in example.shared_spans:
                assert text_data.by_number[example.row].text[start:end].lower() in query
                marked += 1
    assert marked


def test_near_duplicates_say_whether_their_labels_agree(text_data, found):
    by_texts = {
        tuple(sorted(text_data.by_number[row].text for row in group.rows)): group
        for group in found.near_duplicates.items
    }
    same = by_texts["Same words, twice!", "same words twice"]
    assert same.exact
    assert not same.labels_agree


def test_only_groups_with_a_training_row_and_an_unseen_one_lie_across_splits(report_run):
    train, validation, test = (report_run.places(split).tolist() for split in ("train", "validation", "test"))
    groups = ((validation[0], test[0]), (train[0], train[1]), (train[2], validation[1]), (train[3], test[1]))
    duplicates = Duplicates(groups, (True,) * 4, np.full(len(report_run.rows), -1), 0.9)
    across = {group.rows: group.across_splits for group in find_near_duplicates(report_run.examples, duplicates).items}
    assert [across[rows] for rows in groups] == [False, False, True, True]


def test_unseen_rows_are_predicted_by_flipped_subnetworks_as_training_rows_are(table_run):
    # Training rows asked in the same way are asked of their own subnetworks: the answers must be those of the run.
    again = table_run.held_out(table_run.train_data)
    assert np.allclose(again.probs, table_run.out_of_sample.probs, atol=1e-5)


def test_settings_that_were_left_open_are_shown_as_they_were_used(tmp_path):
    lines = [f"{number},{'large' if number > 20 else 'small'}" for number in range(40)]
    (tmp_path / "things.csv").write_text("\n".join(["size,kind", *lines]), encoding="utf-8")
    run = start_run(RunConfig(str(tmp_path / "things.csv"), label="kind", replicas=3), tmp_path / "run")
    settings = settings_of(run)
    assert "\nreplicas = 3\n" in settings
    for name, value in {"epochs": 60, "hidden": 512, "learning_rate": 0.002}.items():
        assert f"\n{name} = {value}  # default for this kind of data\n" in settings
        assert tomllib.loads(settings)[name] == value
    assert len(run.curves.keep) == 60


def test_one_network_without_standard_errors_has_a_report_too(table_data):
    assert table_data.findings.trust.replicas == 1
    assert table_data.by_number[table_data.findings.memorized.items[0].row].cells[0][0] == SIZE
    json.loads(table_data.as_json())


def test_columns_are_near_by_one_rule(table_data, lonely_run):
    values = lonely_run.rows.values
    deviation = values[SIZE].iloc[lonely_run.places("train")].std()
    pairs = [(one.row, example) for one in table_data.findings.errors for example in one.supporting]
    assert pairs
    for query, example in pairs:
        one, other = (values.iloc[row] for row in (query, example.row))
        assert ("color" in example.near_columns) == (one["color"] == other["color"])
        assert (SIZE in example.near_columns) == (abs(one[SIZE] - other[SIZE]) <= 0.1 * deviation)


def test_groups_take_the_place_of_rows_where_groups_were_trained(group_run):
    data = collect(group_run)
    found = data.findings
    assert found.harmful.items == ()
    assert found.groups.items[0].group == "annotator 3"
    assert found.groups.items[0].score < 0
    assert sum(group.rows for group in found.groups.items) == data.overview["rows"]["train"]
    assert all(example.group for one in found.errors for example in one.supporting)
    assert next(headline for headline in data.headlines if headline.section == "groups")


def test_the_twin_has_every_part_of_the_data():
    twin = json.loads(made_data().as_json())
    assert {"overview", "headlines", "making", "curves", "rows"} < set(twin)
    assert {"errors", "likely_label_errors", "harmful", "memorized", "near_duplicates", "groups"} < set(twin)
    assert twin["format"] == 1
    assert twin["rows"][3]["text"].startswith(HOSTILE)
    assert twin["errors"]["items"][0]["supporting"][0]["shared_spans"] == [[2, 10]]


def test_numbers_that_are_not_finite_are_null():
    data = made_data()
    harmful = data.findings.harmful
    odd = replace(harmful, items=(replace(harmful.items[0], score=math.nan, p_value=math.inf),))
    twin = json.loads(replace(data, findings=replace(data.findings, harmful=odd)).as_json())
    assert twin["harmful"]["items"][0]["score"] is None


# Rows as readers see them


def test_rows_are_shown_with_their_split_and_label(table_run):
    row = shown_row(table_run.examples, 3)
    assert dict(row.cells)["weight"] == "missing"
    assert row.label == table_run.rows.data.column("kind")[3].as_py()
    assert 3 in table_run.places(row.split)


def test_columns_that_are_left_out_are_counted(tmp_path):
    wide = [f"column{number}" for number in range(30)]
    lines = [",".join([str(row * 37 % (place + 7)) for place in range(30)] + ["ab"[row % 2]]) for row in range(40)]
    (tmp_path / "wide.csv").write_text("\n".join([",".join([*wide, "kind"]), *lines]), encoding="utf-8")
    config = RunConfig(str(tmp_path / "wide.csv"), label="kind", hidden=16, replicas=1, epochs=1)
    row = shown_row(start_run(config, tmp_path / "run").examples, 0)
    assert len(row.cells) == 12
    assert row.more_cells == 18
