"""One run, three media: the same findings in the same order with the same numbers."""

import json
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
pytest.importorskip("fastapi", reason="needs the extra serve")

from fastapi.testclient import TestClient
from typer.testing import CliRunner

from tests.ui.web.conftest import ADDRESS, until_ready
from turnover.runs import open_run
from turnover.ui.terminal.app import make_app
from turnover.ui.web.app import make_app as make_server


@pytest.fixture(scope="module")
def folder(report_run):
    return report_run.folder.path


@pytest.fixture(scope="module")
def command(folder):
    app = make_app()

    def call(name, *options):
        done = CliRunner().invoke(app, [name, str(folder), *options, "--json"])
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    return call


@pytest.fixture(scope="module")
def report(command):
    return json.loads(Path(command("report")["data"]).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(folder):
    with TestClient(make_server(open_run(folder)), base_url=ADDRESS) as client:
        until_ready(client)
        yield client


def numbers(found):
    """Return a finding with its numbers to six digits: one query and many differ in the last bits of float32."""
    if isinstance(found, dict):
        return {name: numbers(value) for name, value in found.items()}
    if isinstance(found, list):
        return [numbers(value) for value in found]
    return float(f"{found:.4g}") if isinstance(found, float) else found


def test_the_command_explains_the_errors_of_the_report(command, report):
    errors = command("explain", "--errors", "--most", "24", "-k", "6")
    assert report["errors"]["items"]
    assert {name: errors[name] for name in report["errors"]} == report["errors"]


@pytest.mark.parametrize("name", ["memorized", "likely_label_errors", "near_duplicates"])
def test_the_command_shows_what_the_report_says_is_memorized_mislabeled_or_repeated(command, report, name):
    assert command("memorized")[name] == report[name]
    assert report[name]["items"]


def test_the_command_drops_the_first_harmful_examples_of_the_report(command, report, tmp_path):
    dropped = command("cleanse", "--drop", "3", "--out", str(tmp_path / "clean.csv"))["dropped"]
    assert dropped == report["harmful"]["items"][: len(dropped)]
    assert dropped


def test_the_page_lists_the_errors_and_label_errors_of_the_report_in_its_order(page, report):
    errors = page.get("/api/rows", params={"order": "errors", "most": 200}).json()
    assert errors["total"] == report["errors"]["count"]
    assert [row["row"] for row in errors["rows"]][:24] == [one["row"] for one in report["errors"]["items"]]
    labels = page.get("/api/rows", params={"split": "train", "most": 200}).json()["rows"]
    listed = [row for row in labels if row["likely_label_error"]]
    assert listed == labels[: len(listed)]
    shared = ("row", "name", "label", "held_out_label", "held_out_probability", "label_quality")
    of_report = [{name: one[name] for name in shared} for one in report["likely_label_errors"]["items"]]
    assert numbers([{name: row[name] for name in shared} for row in listed]) == numbers(of_report)


def test_the_page_explains_an_error_as_the_report_does(page, report):
    for one in report["errors"]["items"][:3]:
        answer = page.post("/api/explain", json={"row": one["row"], "k": 6}).json()
        same = ("predicted", "label", "error", "significant_supporting", "significant_opposing", "shared_spans")
        assert {name: answer[name] for name in same} == {name: one[name] for name in same}
        for side in ("supporting", "opposing"):
            examples = [{name: value for name, value in found.items() if name != "shown"} for found in answer[side]]
            rows, of_report = [found["row"] for found in examples], [found["row"] for found in one[side]]
            assert rows == of_report
            scores = [found["score"] for found in examples]
            assert scores == pytest.approx([found["score"] for found in one[side]], rel=1e-3)
            assert [found.keys() for found in examples] == [found.keys() for found in one[side]]


def test_headlines_of_a_run_are_those_of_its_report(folder, report):
    options = ["--config", str(folder / "config.toml"), "--out", str(folder), "--json"]
    done = CliRunner().invoke(make_app(), ["run", *options])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["headlines"] == report["headlines"]
