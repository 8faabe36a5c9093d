"""From real runs to what their reports say."""

import json
import tomllib

import numpy as np
import pytest

from tests.ui.html.conftest import CHANGED
from turnover.runs.config import RunConfig
from turnover.runs.run import start_run
from turnover.ui.html import collect
from turnover.ui.html.data import ReportData
from turnover.ui.html.overview import settings_of
from turnover.ui.html.sections import sections_of


@pytest.fixture(scope="module")
def text_data(text_run) -> ReportData:
    return collect(text_run)


def test_every_row_that_is_spoken_of_is_shown_once(text_data):
    named = {one.row for part in ("mistakes", "doubtful", "harmful", "memorized") for one in getattr(text_data, part)}
    named |= {entry.row for one in text_data.mistakes for entry in (*one.pushed, *one.against)}
    named |= {row for group in text_data.duplicates for row in group.rows}
    named |= {row for one in text_data.doubtful for row in one.duplicates}
    numbers = [row.row for row in text_data.rows]
    assert named == set(numbers)
    assert len(numbers) == len(set(numbers))


def test_wrong_labels_come_first_and_the_right_one_is_suggested(text_data, text_run):
    places = text_run.places("train")
    wrong = {int(row) for row in places if row < CHANGED}
    first = {one.row for one in text_data.doubtful[: len(wrong)]}
    assert len(first & wrong) >= len(wrong) - 1
    for one in text_data.doubtful:
        assert one.suggested != one.given
        assert one.given == text_data.by_number[one.row].label
        assert one.given_probability < one.suggested_probability
    margins = [one.given_probability - one.suggested_probability for one in text_data.doubtful]
    assert margins == sorted(margins)


def test_counts_are_those_of_the_lists(text_data):
    counts = text_data.counts
    assert counts.disbelieved == len(text_data.doubtful)
    assert counts.doubtful == sum(one.firm for one in text_data.doubtful)
    assert counts.mistakes == len(text_data.mistakes)
    assert counts.harmful == sum(one.stands_out for one in text_data.harmful)
    assert counts.duplicates == len(text_data.duplicates)
    assert counts.contradictions == sum(not group.labels_agree for group in text_data.duplicates) > 0
    assert counts.across_splits == sum(group.splits_differ for group in text_data.duplicates) > 0
    assert counts.unseen == sum(one.unseen for one in text_data.classes)
    assert counts.unseen - counts.mistakes == sum(one.right for one in text_data.classes)
    assert counts.unseen == sum(pair.rows for pair in text_data.confusions)


def test_lists_are_in_the_order_that_they_claim(text_data):
    harm = [one.score for one in text_data.harmful]
    assert harm == sorted(harm)
    assert harm[0] < 0
    own = [one.score for one in text_data.memorized]
    assert own == sorted(own, reverse=True)
    sure = [one.probability for one in text_data.mistakes]
    assert sure == sorted(sure, reverse=True)


def test_mistakes_are_rows_that_were_not_trained_and_what_is_behind_them_was(text_data):
    assert text_data.mistakes
    for one in text_data.mistakes:
        assert text_data.by_number[one.row].split != "train"
        assert one.predicted != one.given
        assert all(text_data.by_number[entry.row].split == "train" for entry in (*one.pushed, *one.against))
        assert all(text_data.by_number[entry.row].label == one.predicted for entry in one.pushed)
        assert all(entry.score > 0 for entry in one.pushed)
        assert all(entry.score < 0 for entry in one.against)


def test_marks_are_words_that_both_texts_have(text_data):
    marked = 0
    for one in text_data.mistakes:
        query = text_data.by_number[one.row].text.lower()
        for entry in one.pushed:
            for start, end in entry.marks:
                assert text_data.by_number[entry.row].text[start:end].lower() in query
                marked += 1
    assert marked


def test_near_duplicates_say_whether_their_labels_agree(text_data):
    by_texts = {
        tuple(sorted(text_data.by_number[row].text for row in group.rows)): group for group in text_data.duplicates
    }
    same = by_texts["Same words, twice!", "same words twice"]
    assert same.exact
    assert not same.labels_agree


def test_the_histogram_counts_every_training_row(text_data, text_run):
    assert sum(text_data.self_influence.counts) == len(text_run.places("train"))
    assert sum(text_data.trust.mean_influence.counts) == len(text_run.places("train"))
    assert np.isclose(sum(text_data.trust.mean_influence.noise), len(text_run.places("train")))


def test_findings_name_figures_of_the_report(text_data):
    sections = {finding.section: finding for finding in text_data.findings}
    assert {"classes", "doubtful", "harmful", "memorized", "trust"} <= set(sections)
    assert set(sections) <= {section.id for section in sections_of(text_data)}
    assert sections["doubtful"].figure == str(text_data.counts.doubtful)
    assert sections["memorized"].sentence.count(str(text_data.counts.memorized)) >= 1


def test_the_making_says_how_to_make_it_again(text_data, text_run):
    assert str(text_run.folder.config) in text_data.making.command
    assert text_data.making.config == text_run.config.as_toml().replace(
        "learning_rate = 0.0\n", "learning_rate = 0.001  # by the kind of data\n"
    )
    assert text_data.making.seconds["training"] > 0


def test_one_network_without_standard_errors_has_a_report_too(table_run):
    data = collect(table_run)
    assert data.trust is not None
    assert data.trust.replicas == 1
    assert data.by_number[data.memorized[0].row].cells[0][0] == "size"
    json.loads(data.as_json())


def test_values_of_a_table_are_the_same_where_they_are_near(table_run):
    data = collect(table_run)
    spread = table_run.rows.values["size"].std()
    entries = [(one.row, entry) for one in data.mistakes for entry in one.pushed]
    assert entries
    for query, entry in entries:
        one, other = (table_run.rows.values.iloc[row] for row in (query, entry.row))
        assert ("color" in entry.same) == (one["color"] == other["color"])
        assert ("size" in entry.same) == (abs(one["size"] - other["size"]) <= 0.1 * spread)


def test_pictures_are_in_the_data(image_run):
    data = collect(image_run)
    assert data.rows
    assert all(row.image.startswith("data:image/png;base64,") for row in data.rows)
    assert data.leaks.parts  # convolutions lie before the masks


def test_groups_take_the_place_of_rows_where_groups_were_trained(group_run):
    data = collect(group_run)
    assert data.harmful == ()
    assert data.groups[0].group == "annotator 7"
    assert data.groups[0].score < 0
    assert sum(group.rows for group in data.groups) == data.overview.rows["train"]
    assert all(entry.group for one in data.mistakes for entry in one.pushed)
    assert next(finding for finding in data.findings if finding.section == "groups")


def test_settings_that_were_left_open_are_shown_as_they_were_used(tmp_path):
    lines = [f"{number},{'large' if number > 20 else 'small'}" for number in range(40)]
    (tmp_path / "things.csv").write_text("\n".join(["size,kind", *lines]), encoding="utf-8")
    run = start_run(RunConfig(str(tmp_path / "things.csv"), label="kind", replicas=3), tmp_path / "run")
    settings = settings_of(run)
    assert "\nreplicas = 3\n" in settings
    for name, value in {"epochs": 30, "hidden": 512, "learning_rate": 0.002}.items():
        assert f"\n{name} = {value}  # by the kind of data\n" in settings
        assert tomllib.loads(settings)[name] == value
    assert len(run.curves.keep) == 30


def test_there_is_one_baseline_the_one_that_the_run_names(text_data, text_run):
    assert text_data.overview.baseline == pytest.approx(text_run.about.results["most_frequent_share"])


def test_mean_influence_says_its_unit(text_data, text_run):
    assert text_data.mean_unit == text_run.mean_influence.unit == "the usual loss of each query"
    assert [one.unit for one in text_data.trust.of] == ["loss", text_data.mean_unit, "loss"]
