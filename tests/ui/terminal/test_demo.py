"""`turnover demo`: the whole story in a few epochs."""

from functools import partial
from pathlib import Path

import pytest
import sklearn.datasets

from turnover.runs import DigitsConfig


@pytest.fixture(params=[200, pytest.param(1797, marks=pytest.mark.slow)])
def digits(request, monkeypatch):
    """The number of training digits: of the first 200 digits with three replicas, or of all as users have them."""
    pixels, labels = sklearn.datasets.load_digits(return_X_y=True)
    loaded = pixels[: request.param], labels[: request.param]
    monkeypatch.setattr("sklearn.datasets.load_digits", lambda **_: loaded)
    if request.param == 200:
        monkeypatch.setattr("turnover.runs.digits.DigitsConfig", partial(DigitsConfig, replicas=3))
    return request.param * 4 // 5


def test_the_demo_finds_changed_labels_and_ends_with_the_report_and_how_to_serve_it(turnover_, tmp_path, digits):
    out, changed = tmp_path / "demo", round(digits / 10)
    epochs = 6 if digits < 1000 else 1
    given = ("demo", "--epochs", epochs, "--out", out)
    said = turnover_(*given)
    assert said.code == 0, said.err
    for part in (
        f"of the {changed} changed labels are among the {changed} digits",
        f"turnover serve {out}",
        f"{out}/report.html",
    ):
        assert part in said.words
    assert (out / "report.html").is_file()
    found = turnover_(*given, "--json").data  # the same again, without training
    assert f"row: train {found['top_rows'][0] + 1} " in said.words  # rows have the names of the report
    assert found["changed"] == len(found["top_rows"]) == changed
    assert found["found_in_top_10_percent"] > 3 * changed / 10  # three times chance
    assert len(found["curves"]["flip"]) == epochs
    assert len(found["self_influence"]) == digits


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
