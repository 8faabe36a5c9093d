"""A network that has learned nothing: terminal, JSON, report and live page say so before they list anything."""

import json

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extras cli and serve")

from fastapi.testclient import TestClient

from tests.ui.small_runs import SMALL
from tests.ui.terminal.conftest import call_turnover
from tests.ui.web.conftest import ADDRESS, until_ready
from turnover.runs import Run, RunConfig, open_run, start_run
from turnover.ui.html import nothing_learned, write_report
from turnover.ui.web.app import make_app

SENTENCE = "As far as 64 validation and test rows can tell, the network has learned nothing"


@pytest.fixture(scope="module", params=["classes", "numbers"])
def useless(request, tmp_path_factory) -> Run:
    folder, rng = tmp_path_factory.mktemp("random"), np.random.default_rng(0)
    labels = rng.choice(["yes", "no"], 160) if request.param == "classes" else rng.normal(size=160).round(5)
    lines = [f"{a:.4f},{b:.4f},{label}" for (a, b), label in zip(rng.normal(size=(160, 2)), labels, strict=True)]
    (folder / "random.csv").write_text("\n".join(["a,b,y", *lines]))
    return start_run(RunConfig(str(folder / "random.csv"), label="y", **{**SMALL, "hidden": 4}), folder / "run")


def test_the_report_says_it_in_its_first_headline(useless, tmp_path):
    page = write_report(useless, tmp_path / "report.html")
    data = json.loads(page.with_suffix(".json").read_text())
    assert SENTENCE in data["headlines"][0]["sentence"]
    assert data["headlines"][0]["tone"] == "look"
    assert data["overview"]["results"]["chance_p_value"] > 0.05
    assert SENTENCE in " ".join(page.read_text().replace("\N{NO-BREAK SPACE}", " ").split())


@pytest.mark.parametrize("command", [("memorized",), ("explain", "--row", "0"), ("cleanse", "--force")], ids=" ".join)
def test_commands_say_it_in_words_and_in_json(useless, command):
    name, *options = command
    said = call_turnover(name, useless.folder.path, *options)
    assert said.code == 0, said.err
    assert said.words.startswith(SENTENCE)
    data = call_turnover(name, useless.folder.path, *options, "--json").data
    assert data["warning"] == nothing_learned(useless)


def test_the_live_page_and_its_json_say_it(useless):
    with TestClient(make_app(open_run(useless.folder.path)), base_url=ADDRESS) as client:
        until_ready(client)
        assert SENTENCE in client.get("/rows").text
        assert client.get("/api/run").json()["warning"] == nothing_learned(useless)


def test_nothing_is_said_where_the_rows_are_too_few_to_tell(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{value:.4f},{rng.choice(['yes', 'no'])}" for value in rng.normal(size=40)]
    (tmp_path / "random.csv").write_text("\n".join(["a,y", *lines]))
    run = start_run(RunConfig(str(tmp_path / "random.csv"), label="y", **{**SMALL, "hidden": 4}), tmp_path / "run")
    assert len(run.places("validation")) + len(run.places("test")) < 20
    assert nothing_learned(run) == ""
    assert "chance_p_value" not in run.about.results


def test_nothing_is_said_of_a_network_that_learned(text_run, number_run):
    assert nothing_learned(text_run) == nothing_learned(number_run) == ""
