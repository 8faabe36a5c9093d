"""Laws: a toy run measures every setting once, resumes, and the page shows it."""

import pytest

from experiments.laws.experiment import SIZES, _exponent, page
from experiments.laws.experiment import run as measure


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("laws")


@pytest.fixture(scope="module")
def toy(folder):
    return measure(SIZES["toy"], folder)


def test_every_setting_is_a_point_with_noise_above_zero(toy):
    assert [len(toy[name]["points"]) for name in ("width", "replicas", "rows")] == [3, 3, 3]
    assert all(point["noise"] > 0 for name in ("width", "replicas", "rows") for point in toy[name]["points"])


def test_what_was_measured_is_not_measured_again(toy, folder):
    for file in (folder / "parts").glob("*.json"):
        file.write_text('{"seconds": 0, "found": {"noise": 4.0, "signal": 1.0}}')
    again = measure(SIZES["toy"], folder)
    assert again["reference"] == {"setting": {"hidden": 16}, "noise": 2.0, "signal": 1.0, "ratio": 0.5}


def test_an_exponent_needs_three_settings_in_which_something_was_seen():
    assert _exponent([1, 2, 4], [8.0, 4.0, 2.0])["exponent"] == pytest.approx(-1)
    assert _exponent([1, 2, 4], [8.0, None, 2.0]) is None


def test_the_page_says_where_nothing_was_seen(toy, tmp_path):
    point = {**toy["rows"]["points"][0], "signal": None, "ratio": None}
    text = page({**toy, "rows": {**toy["rows"], "points": [point], "signal": None}}, tmp_path)
    assert "not measurable" in text
    assert "not fitted" in text
