"""Wrong labels: a toy run makes all lists, resumes, and the page tells who finds more."""

import pytest

from experiments.datasets.folder import MissingDataError
from experiments.datasets.sst2 import load_sst2
from experiments.wrong_labels.experiment import SIZES, page, verdict
from experiments.wrong_labels.experiment import run as measure


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("wrong_labels")


@pytest.fixture(scope="module")
def toy(folder):
    pytest.importorskip("cleanlab")
    try:
        load_sst2("train", rows=1)
    except MissingDataError as error:
        pytest.skip(str(error))
    return measure(SIZES["toy"], folder)


def test_every_list_is_as_long_as_labels_were_changed(toy):
    assert toy["changed"] == 12
    assert all(0 <= found <= 12 for found in toy["mean"].values())


def test_what_was_measured_is_not_measured_again(toy, folder):
    assert measure(SIZES["toy"], folder) == toy


def test_the_page_shows_every_list(toy, tmp_path):
    assert page(toy, tmp_path).count("| ") > 12


@pytest.mark.parametrize(("ours", "said"), [(280, "more than"), (231, "as many as"), (180, "fewer than")])
def test_the_verdict_follows_the_numbers(ours, said):
    sd = {"turnover": 5.0, "cleanlab": 6.0, "cleanlab_logistic": 4.0}
    assert said in verdict({"mean": {"turnover": ours, "cleanlab": 228, "cleanlab_logistic": 210}, "sd": sd})
