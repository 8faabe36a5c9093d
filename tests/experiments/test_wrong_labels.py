"""Wrong labels: a toy run makes all lists, resumes, and the page tells who finds more."""

import pytest

from experiments.wrong_labels.experiment import verdict


def test_every_list_is_as_long_as_labels_were_changed(toy):
    assert toy.result["changed"] == 12
    assert all(0 <= found <= 12 for found in toy.result["mean"].values())


def test_the_page_shows_every_list(toy):
    assert toy.page.count("| ") > 12


@pytest.mark.parametrize(("ours", "said"), [(280, "more than"), (231, "as many as"), (180, "fewer than")])
def test_the_verdict_follows_the_numbers(ours, said):
    sd = {"turnover": 5.0, "cleanlab": 6.0, "cleanlab_logistic": 4.0}
    assert said in verdict({"mean": {"turnover": ours, "cleanlab": 228, "cleanlab_logistic": 210}, "sd": sd})
