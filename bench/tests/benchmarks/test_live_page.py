"""The benchmark of the live page runs, and tells right answers from wrong ones."""

import pytest

pytest.importorskip("fastapi", reason="fastapi is missing: pip install 'turnover[serve]'")

from tests.ui.small_runs import text_run
from turnover.ui.web import open_server
from turnover_bench.benchmarks import live_page


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return text_run(tmp_path_factory.mktemp("live"))


def test_all_answers_of_many_clients_are_those_of_the_library(run, monkeypatch, capsys):
    monkeypatch.setattr(live_page, "_TOGETHER", 24)
    sentences = ["a bright film", "a boring plot", "number 7"]
    with open_server(run, port=0) as server:
        while live_page._asked(server, "GET", "/api/state")[1]["state"] == "warming up":
            pass
        live_page._alone(run, server, sentences)
        live_page._together(run, server, sentences)
    told = capsys.readouterr().out
    assert "24 questions of 8 clients: 24 right;" in told
    assert "plain forward pass" in told
