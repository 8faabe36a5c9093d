"""`turnover run`: from a file to a report; replayed, resumed, refused."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL_OPTIONS, reviews
from turnover.cli.run_folders import folder_for
from turnover.tasks.config import RunConfig


@pytest.fixture
def csv(tmp_path):
    file = tmp_path / "reviews.csv"
    file.write_text(reviews())
    return file


def test_a_run_ends_with_accuracy_findings_a_report_and_what_to_type_next(turnover_, csv):
    said = turnover_("run", csv, "--text", "text", "--label", "label", *SMALL_OPTIONS, "--out", "RUN")
    assert said.code == 0, said.err
    for part in ("Right on test rows", "What was found", "turnover explain RUN --query", "RUN/report.html"):
        assert part in said.words
    assert "report" in said.words.rpartition("It took ")[2]
    assert "not counting the start of Python and its packages" in said.words
    assert Path("RUN/report.html").read_text().startswith("<!doctype html>")


def test_json_is_all_there_is_on_standard_output_and_names_the_report(turnover_, csv):
    said = turnover_("run", csv, *SMALL_OPTIONS, "--json")
    assert said.data["rows"] == {"train": 36, "validation": 12, "test": 12}
    assert said.data["labels"] == ["bad", "good"]
    assert said.data["run"] == "runs/reviews"
    assert Path(said.data["report"]).is_file()
    assert {"figure", "sentence"} <= said.data["findings"][0].keys()
    assert {"reading", "training", "scoring", "report"} <= said.data["seconds"].keys()


def test_options_become_the_settings_of_the_run_and_paths_are_kept_in_full(turnover_, csv):
    turnover_("run", "reviews.csv", *SMALL_OPTIONS, "--seed", "3", "--no-balance", "--out", "RUN")
    kept = RunConfig.read("RUN/config.toml")
    assert (kept.seed, kept.balance, kept.hidden, kept.test) == (3, False, 64, 0.2)
    assert kept.data == str(csv)


def test_the_same_command_again_shows_the_run_without_training_it_again(turnover_, csv):
    turnover_("run", csv, *SMALL_OPTIONS, "--out", "RUN")
    before = Path("RUN/model").stat().st_mtime_ns
    assert turnover_("run", csv, *SMALL_OPTIONS, "--out", "RUN").code == 0
    assert Path("RUN/model").stat().st_mtime_ns == before


def test_a_replayed_run_goes_beside_the_first_and_has_the_same_scores(turnover_, csv):
    first = turnover_("run", csv, *SMALL_OPTIONS, "--out", "RUN", "--json").data
    again = turnover_("run", "--config", "RUN/config.toml", "--json").data
    assert again["run"] == "RUN-2"
    assert again["results"] == first["results"]
    assert again["findings"] == first["findings"]


def test_a_folder_with_other_settings_is_left_alone(turnover_, csv):
    turnover_("run", csv, *SMALL_OPTIONS, "--out", "RUN")
    before = Path("RUN/config.toml").read_text()
    said = turnover_("run", csv, *SMALL_OPTIONS, "--seed", "5", "--out", "RUN")
    assert said.code == 2
    assert "seed 0 there, 5 here" in said.err
    assert Path("RUN/config.toml").read_text() == before


def test_columns_of_a_table_are_given_with_commas(turnover_, tmp_path):
    lines = [f"{n},{n % 3},{n % 2},{'ab'[n % 2]}" for n in range(40)]
    (tmp_path / "table.csv").write_text("\n".join(["one,two,three,y", *lines]))
    said = turnover_("run", "table.csv", "--label", "y", "--columns", "one,three", *SMALL_OPTIONS, "--json")
    assert said.code == 0, said.err
    assert RunConfig.read(Path(said.data["run"]) / "config.toml").columns == ("one", "three")


def test_nothing_given_is_told_with_an_example(turnover_):
    said = turnover_("run")
    assert said.code == 2
    assert "turnover run reviews.csv --text text --label label" in said.err


def test_an_unfinished_run_is_taken_up_in_its_folder_and_a_finished_one_gets_another(tmp_path):
    run = tmp_path / "RUN"
    run.mkdir()
    settings = RunConfig("a.csv")
    (run / "config.toml").write_text(settings.as_toml())
    about = {"format": 1, "state": "begun", "created": "", "versions": {}}
    (run / "run.json").write_text(json.dumps(about))
    assert folder_for(settings, run / "config.toml", None) == run
    (run / "run.json").write_text(json.dumps({**about, "state": "complete"}))
    assert folder_for(settings, run / "config.toml", None) == tmp_path / "RUN-2"
    assert folder_for(settings, run / "config.toml", Path("other")) == Path("other")


@pytest.mark.parametrize("kind", ["table", "image", "lm"])
def test_data_of_every_kind_ends_with_a_report(turnover_, runs, kind):
    said = turnover_("run", "--config", runs[kind] / "config.toml", "--out", runs[kind], "--json")
    assert said.code == 0, said.err
    assert said.data["kind"] == kind
    assert Path(said.data["report"]).is_file()
