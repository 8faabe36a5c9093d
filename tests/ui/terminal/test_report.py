"""`turnover report`: both files, and their paths."""

import shutil
from pathlib import Path


def test_the_report_and_its_twin_are_written_and_named(turnover_, text_run, tmp_path):
    shutil.copytree(text_run, tmp_path / "RUN")
    said = turnover_("report", "RUN", "--json")
    assert said.code == 0, said.err
    assert Path(said.data["report"]) == Path("RUN/report.html")
    assert Path(said.data["report"]).is_file()
    assert Path(said.data["data"]).is_file()
    assert "RUN/report.html" in turnover_("report", "RUN").words
