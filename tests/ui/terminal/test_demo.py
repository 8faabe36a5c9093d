"""`turnover demo`: the whole story in one epoch."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


def test_the_demo_finds_changed_labels_and_ends_with_the_report_and_how_to_serve_it(turnover_, folder):
    said = turnover_("demo", "--epochs", "1", "--out", folder / "demo")
    assert said.code == 0, said.err
    for part in (
        "of the 144 changed labels are among the 144 digits",
        "training digits, flipped subnetwork",
        f"turnover serve {folder / 'demo'}",
        f"{folder / 'demo'}/report.html",
    ):
        assert part in said.words
    assert (folder / "demo" / "report.html").is_file()


def test_again_it_shows_the_same_without_training_and_as_json(turnover_, folder):
    found = turnover_("demo", "--epochs", "1", "--out", folder / "demo", "--json").data
    assert found["changed"] == 144
    assert found["found_in_top_10_percent"] > 3 * 14  # three times chance after one epoch
    assert len(found["top_rows"]) == 144
    assert len(found["curves"]["flip"]) == 1
    assert len(found["self_influence"]) == 1437


def test_a_folder_with_another_run_is_left_alone(turnover_, text_run):
    before = (text_run / "config.toml").read_text()
    said = turnover_("demo", "--out", text_run)
    assert said.code == 2
    assert "holds another run" in said.err
    assert "--out NEW" in said.err
    assert (text_run / "config.toml").read_text() == before


def test_a_bad_option_ends_with_code_2_and_no_traceback(turnover_):
    said = turnover_("demo", "--epochs", "0")
    assert said.code == 2
    assert "Traceback" not in said.err
    assert not Path("runs").exists()
