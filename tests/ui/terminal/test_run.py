"""`turnover run`: from a file to a report; replayed, resumed, refused."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from tests.ui.terminal.conftest import SMALL_OPTIONS, reviews
from tests.ui.terminal.test_bad_input import refused
from turnover.runs.config import RunConfig
from turnover.runs.run import open_run
from turnover.ui.terminal.finished_run import print_next, took
from turnover.ui.terminal.run import _folder_for
from turnover.ui.terminal.terminal import Terminal


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
    assert "not counting the start of Python" in said.words.rpartition("It took ")[2]
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
    assert _folder_for(settings, run / "config.toml", None) == run
    (run / "run.json").write_text(json.dumps({**about, "state": "complete"}))
    assert _folder_for(settings, run / "config.toml", None) == tmp_path / "RUN-2"
    assert _folder_for(settings, run / "config.toml", Path("other")) == Path("other")


@pytest.mark.parametrize("kind", ["table", "image", "lm"])
def test_data_of_every_kind_ends_with_a_report(turnover_, runs, kind):
    said = turnover_("run", "--config", runs[kind] / "config.toml", "--out", runs[kind], "--json")
    assert said.code == 0, said.err
    assert said.data["kind"] == kind
    assert Path(said.data["report"]).is_file()


def test_how_long_a_run_took_names_its_stages_and_the_report():
    slow, quick = (SimpleNamespace(about=SimpleNamespace(seconds={"training": seconds})) for seconds in (3.2, 0.1))
    assert took(slow, 2.0).startswith("It took 5.2 s (training 3.2 s, report 2.0 s)")
    assert took(quick, 0.2).startswith("It took 0.3 s, ")


@pytest.mark.parametrize("option", ["--epochs", "--hidden", "--replicas", "--learning-rate"])
def test_nothing_is_not_taken_for_the_default(turnover_, csv, option):
    refused(turnover_("run", csv, "--text", "text", "--label", "label", option, "0"), f"{option} must be > 0, got 0")


def test_a_run_that_is_taken_up_again_says_so(turnover_, csv):
    asked = ("run", csv, "--text", "text", "--label", "label", "--out", "R", "--epochs", "1", "--hidden", "16")
    assert "Resuming" not in turnover_(*asked).err
    assert "Resuming the run in R." in turnover_(*asked).err


def test_ctrl_c_while_the_data_is_read_says_that_nothing_is_kept(turnover_, csv, monkeypatch):
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("turnover.ui.terminal.run.start_run", stopped)
    said = turnover_("run", csv, "--text", "text", "--label", "label", "--out", "R")
    assert said.code == 130
    assert "nothing is kept. The same command starts again" in said.err


def test_commands_stay_whole_where_they_do_not_fit_beside_what_they_are_for(text_run):
    run, narrow = open_run(text_run), Terminal(as_json=False)
    for width in (60, 200):
        narrow.words = Console(width=width, file=io.StringIO(), highlight=False)
        print_next(run, narrow)
        assert isinstance(narrow.words.file, io.StringIO)
        text = narrow.words.file.getvalue()
        assert "rows that harm, and a file without them" in text
        assert ("without them:" in text) == (width == 60)
