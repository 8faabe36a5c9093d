"""`turnover run`: from a file to a report; replayed, resumed, rejected."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.small_runs import reviews
from tests.ui.terminal.conftest import SAME, call_turnover, rejected
from turnover.runs.config import RunConfig
from turnover.runs.folder import RunFolder
from turnover.storage import digest_of, to_record
from turnover.ui.terminal.run import _folder_for


@pytest.fixture
def csv(tmp_path):
    file = tmp_path / "reviews.csv"
    file.write_text(reviews())
    return file


def test_a_run_ends_with_accuracy_findings_a_report_and_what_to_type_next(finished):
    folder, said = finished
    for part in ("Accuracy on test rows", "Findings", "turnover explain RUN --query", "RUN/report.html"):
        assert part in said.words
    assert "not counting the start of Python and its packages" in said.words.rpartition("It took ")[2]
    assert (folder / "RUN" / "report.html").read_text().startswith("<!doctype html>")


def test_options_become_the_settings_of_the_run_and_paths_are_kept_in_full(finished):
    folder, _ = finished
    kept = RunConfig.read(folder / "RUN" / "config.toml")
    assert (kept.seed, kept.balance, kept.hidden, kept.test) == (3, False, 64, 0.2)
    assert kept.data == str(folder / "reviews.csv")


def test_the_same_command_again_resumes_without_training_and_names_all_as_json(finished, monkeypatch):
    folder, first = finished
    monkeypatch.chdir(folder)
    assert "already" not in first.err
    before = Path("RUN/model").stat().st_mtime_ns
    said = call_turnover(*SAME, "--json")
    assert "There is a run in RUN already; the same settings resume it." in said.err
    assert Path("RUN/model").stat().st_mtime_ns == before
    assert said.data["rows"] == {"train": 36, "validation": 12, "test": 12}
    assert said.data["labels"] == ["bad", "good"]
    assert said.data["run"] == "RUN"
    assert Path(said.data["report"]).is_file()
    assert {"figure", "sentence"} <= said.data["headlines"][0].keys()
    assert {"reading", "training", "scoring", "report"} <= said.data["seconds"].keys()


def test_a_repeated_run_goes_beside_the_first_and_has_the_same_scores(finished, monkeypatch):
    folder, _ = finished
    monkeypatch.chdir(folder)
    again = call_turnover("run", "--config", "RUN/config.toml", "--json").data
    first = call_turnover(*SAME, "--json").data
    assert again["run"] == "RUN-2"
    assert again["results"] == first["results"]
    assert again["headlines"] == first["headlines"]


def test_a_folder_with_other_settings_is_left_alone(finished, monkeypatch):
    folder, _ = finished
    monkeypatch.chdir(folder)
    before = Path("RUN/config.toml").read_text()
    said = call_turnover(*SAME, "--seed", "5")
    assert said.code == 2
    assert "seed 3 there, 5 here" in said.err
    assert Path("RUN/config.toml").read_text() == before


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("/data/reviews.csv", "reviews"),
        ("/data/my reviews.csv", "my-reviews"),
        ("stanfordnlp/sst2", "sst2"),
        ("images/", "images"),
    ],
)
def test_a_run_without_a_folder_goes_to_runs_by_the_name_of_its_data(tmp_path, monkeypatch, data, name):
    monkeypatch.chdir(tmp_path)
    assert _folder_for(RunConfig(data), None, None) == Path("runs") / name


def test_changed_data_is_rejected_in_the_former_folder_and_told_in_a_new_one(turnover_, csv, text_run, tmp_path):
    shutil.copytree(text_run, tmp_path / "RUN")
    folder = RunFolder("RUN")
    settings, about = RunConfig.read(folder.config), folder.read_about()
    settings = replace(settings, data=str(csv.resolve()))
    folder.config.write_text(settings.as_toml())
    about.files, about.data = {}, {str(csv.resolve()): digest_of(csv)}
    folder.write_about(about)
    csv.write_text(csv.read_text().replace("fine", "grand"))
    said = turnover_("run", "--config", "RUN/config.toml", "--out", "RUN")
    assert said.code == 2
    assert "changed since the run in 'RUN'" in " ".join(said.err.split())
    said = turnover_("run", "--config", "RUN/config.toml", "--out", "NEW")
    assert said.code == 0, said.err
    assert "changed since the run whose settings are repeated" in " ".join(said.err.split())


def test_an_unfinished_run_is_taken_up_in_its_folder_and_a_finished_one_gets_another(tmp_path):
    run = tmp_path / "RUN"
    run.mkdir()
    settings = RunConfig("a.csv")
    (run / "config.toml").write_text(settings.as_toml())
    about = {"format": 1, "state": "begun", "created": "", "versions": {}}
    (run / "run.json").write_bytes(to_record(about))
    assert _folder_for(settings, run / "config.toml", None) == run
    (run / "run.json").write_bytes(to_record({**about, "state": "complete"}))
    assert _folder_for(settings, run / "config.toml", None) == tmp_path / "RUN-2"
    assert _folder_for(settings, run / "config.toml", Path("other")) == Path("other")


@pytest.mark.parametrize("kind", ["table", "image"])
def test_data_of_every_kind_ends_with_a_report(turnover_, runs, kind):
    said = turnover_("run", "--config", runs[kind] / "config.toml", "--out", runs[kind], "--json")
    assert said.code == 0, said.err
    assert said.data["kind"] == kind
    assert Path(said.data["report"]).is_file()


@pytest.mark.parametrize("option", ["--epochs", "--hidden", "--replicas", "--learning-rate"])
def test_nothing_is_not_taken_for_the_default(turnover_, csv, option):
    rejected(turnover_("run", csv, "--text", "text", "--label", "label", option, "0"), f"{option} must be > 0, got 0")


def test_ctrl_c_while_the_data_is_read_says_that_nothing_is_kept(turnover_, csv, monkeypatch):
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("turnover.ui.terminal.run.start_run", stopped)
    said = turnover_("run", csv, "--text", "text", "--label", "label", "--out", "R")
    assert said.code == 130
    assert "nothing is kept. The same command starts again" in said.err
