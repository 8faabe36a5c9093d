"""Wrong labels: a toy run makes all lists, resumes, and the page tells who finds more."""

from turnover_bench.experiments.wrong_labels.experiment import _how_often


def test_lists_are_counted_whose_share_of_wrong_labels_is_near_and_within_the_interval():
    lists = [
        {"called": 100, "expected": 70.0, "range": [60, 80], "wrong": 73},
        {"called": 100, "expected": 70.0, "range": [60, 80], "wrong": 78},
        {"called": 100, "expected": 70.0, "range": [60, 80], "wrong": 90},
        {"called": 0, "expected": 0.0, "range": [0, 0], "wrong": 0},
    ]
    assert _how_often({"said": lists}) == (
        "Lists that are not empty: 3. Share of wrong labels within 5 points of what is said: 1; within the 90 % "
        "interval: 2."
    )
