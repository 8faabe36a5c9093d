"""`turnover cleanse`: the cleaned file, the list of removed rows, and the retraining check."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.ui.terminal.conftest import rejected
from turnover.runs import RunFolder, open_run


def test_the_cleaned_file_is_the_original_without_the_removed_lines(turnover_, text_run):
    found = turnover_("cleanse", text_run, "--drop", "3", "--out", "clean.csv", "--json").data
    gone = {entry["row"] for entry in found["removed"]}
    assert 1 <= len(gone) <= 3
    lines = (text_run.parent / "reviews.csv").read_text().splitlines(keepends=True)
    assert Path("clean.csv").read_text() == "".join(line for n, line in enumerate(lines) if n - 1 not in gone)
    assert found["cleaned_rows"] == 60 - len(gone)


def test_removed_rows_are_listed_with_reasons_and_their_own_columns(turnover_, text_run):
    found = turnover_("cleanse", text_run, "--drop", "5%", "--out", "clean.csv", "--json").data
    with Path("removed.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["row"]) for row in rows] == [entry["row"] for entry in found["removed"]]
    for row in rows:
        assert float(row["score"]) < 0
        assert "mean influence" in row["reason"]
        assert row["text"].endswith(f"number {row['row']}")
        assert row["label"] in ("good", "bad")


def test_only_training_rows_are_removed(turnover_, text_run):
    found = turnover_("cleanse", text_run, "--drop", "20%", "--out", "clean.csv", "--json").data
    splits = open_run(text_run).splits
    assert all(splits[entry["row"]] == 0 for entry in found["removed"])


def test_files_that_are_there_are_not_overwritten_without_force(turnover_, text_run):
    Path("clean.csv").write_text("mine")
    rejected(turnover_("cleanse", text_run, "--out", "clean.csv"), "'clean.csv' would be overwritten", "--force")
    assert Path("clean.csv").read_text() == "mine"
    assert not Path("removed.csv").exists()
    assert turnover_("cleanse", text_run, "--out", "clean.csv", "--force").code == 0
    assert Path("clean.csv").read_text().startswith("text,label,truth\n")


AMOUNTS = [("0%", "between 0% and 100%"), ("200%", "between 0% and 100%"), ("many", "an amount"), ("60", "from 1 to")]


@pytest.mark.parametrize(("drop", "part"), AMOUNTS)
def test_an_amount_that_is_none_is_told_first_and_in_words_of_the_command_line(turnover_, text_run, drop, part):
    Path("clean.csv").write_text("mine")
    said = turnover_("cleanse", text_run, "--drop", drop, "--out", "clean.csv")
    rejected(said, "turnover: --drop: ", part, '"1%"')
    assert "drop=" not in said.err
    assert "overwritten" not in said.err
    assert Path("clean.csv").read_text() == "mine"


def test_a_level_that_is_no_share_and_a_check_without_test_rows_are_told_before_anything_is_written(
    turnover_, text_run, tmp_path
):
    said = turnover_("cleanse", text_run, "--level", "5", "--out", "clean.csv")
    rejected(said, "--level must be between 0 and 1, got 5")
    shutil.copytree(text_run, tmp_path / "RUN")
    without_test, rows = RunFolder("RUN"), open_run("RUN").rows
    rows.with_splits(np.where(rows.splits == 2, 1, rows.splits)).save(without_test)
    about = without_test.read_about()
    del about.files["rows.parquet"]
    without_test.write_about(about)
    rejected(turnover_("cleanse", "RUN", "--retrain", "--out", "clean.csv"), "needs test rows", "--test 0.1")
    assert not Path("clean.csv").exists()


def test_the_retraining_check_compares_nothing_random_and_cleansed_on_test_rows(turnover_, text_run, tmp_path):
    shutil.copytree(text_run, tmp_path / "RUN")
    said = turnover_("cleanse", "RUN", "--drop", "2", "--retrain", "--seeds", "2", "--out", "clean.csv")
    assert said.code == 0, said.err
    assert "6 trainings for the retraining check" in said.err
    for part in ("2 random rows", "the 2 harmful rows", "12 test rows", "±", "95 % interval", "p ="):
        assert part in said.words


def test_a_retraining_check_of_one_seed_says_that_there_is_no_test_and_what_to_type(turnover_, text_run, tmp_path):
    shutil.copytree(text_run, tmp_path / "RUN")
    said = turnover_("cleanse", "RUN", "--drop", "2", "--retrain", "--seeds", "1", "--out", "clean.csv")
    assert said.code == 0, said.err
    assert "1 training each" in said.words
    assert "--seeds 5" in said.words
    assert "±" not in said.words[said.words.index("Retraining check") :]


def test_a_folder_of_images_is_copied_without_the_removed_ones(turnover_, runs):
    found = turnover_("cleanse", runs["image"], "--drop", "2", "--out", "clean", "--json").data
    left = {file.relative_to("clean").as_posix() for file in Path("clean").rglob("*.png")}
    gone = {entry["name"] for entry in found["removed"]}
    assert gone
    assert not left & gone
    assert len(left) == 60 - len(gone) == found["cleaned_rows"]


def test_a_group_goes_with_all_its_training_rows(turnover_, runs):
    found = turnover_("cleanse", runs["group"], "--drop", "1", "--out", "clean.csv", "--json").data
    assert len(found["removed"]) == 15
    assert [entry["rows"] for entry in found["dropped"]] == [15]
    said = turnover_("cleanse", runs["group"], "--drop", "1", "--out", "clean.csv", "--force")
    assert "Most harmful groups" in said.words
    assert "Dropped: 15 rows of" in said.words
