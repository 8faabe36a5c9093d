"""`turnover audit`: the verdict in words and as data."""

import json
import shutil
from pathlib import Path

import pytest


@pytest.mark.parametrize("kind", ["text", "table", "image"])
def test_runs_of_every_kind_can_be_audited(turnover_, runs, kind):
    said = turnover_("audit", runs[kind], "--json")
    assert said.code == 0, said.err
    assert said.data["rows"] == 8
    assert said.data["verdict"]


def test_texts_without_an_encoder_leak_nothing(turnover_, text_run):
    assert "No leak found" in turnover_("audit", text_run).words


def test_what_leaks_is_listed_with_its_cure(turnover_, runs):
    said = turnover_("audit", runs["image"])
    assert "Leaks" in said.words
    assert "what to change" in said.words


def test_the_report_has_the_same_audit(turnover_, runs, tmp_path):
    shutil.copytree(runs["image"], tmp_path / "RUN")
    written = json.loads(Path(turnover_("report", "RUN", "--json").data["data"]).read_text(encoding="utf-8"))
    assert turnover_("audit", "RUN", "--json").data == written["leaks"]
