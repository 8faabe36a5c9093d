"""Whether predictions have anything to do with labels, by shuffled labels."""

import numpy as np
import pytest

from turnover.applications import chance_p_value

RNG = np.random.default_rng(1)
LABELS = RNG.integers(0, 2, 80)
RARE = np.arange(100) < 5


@pytest.mark.parametrize(
    ("predicted", "labels", "learned"),
    [
        (np.full((80, 2), [0.7, 0.3]), LABELS, False),  # always the same
        (np.eye(2)[1 - LABELS], LABELS, False),  # always wrong
        (np.eye(2)[LABELS], LABELS, True),
        (np.eye(2)[np.zeros(3, int)], np.zeros(3, int), False),  # one class: nothing to tell apart
        # The rare class is never predicted, so accuracy is that of the majority class; but its rows are known.
        (np.where(RARE[:, None], [0.6, 0.4], [0.9, 0.1]), RARE.astype(int), True),
        (np.zeros(80), LABELS + 0.5, False),  # numbers
        (LABELS + RNG.normal(size=80), LABELS * 10.0, True),
        (-LABELS + RNG.normal(size=80), LABELS * 10.0, False),
    ],
)
def test_predictions_that_fit_labels_better_than_shuffled_ones_show_that_something_was_learned(
    predicted, labels, learned
):
    assert (chance_p_value(predicted, labels) <= 0.05) == learned


def test_of_predictions_by_chance_one_in_twenty_seems_to_have_learned():
    rng = np.random.default_rng(0)
    p_values = [chance_p_value(rng.dirichlet([1, 1, 1], 60), rng.integers(0, 3, 60)) for _ in range(400)]
    assert 0.02 < np.mean(np.array(p_values) <= 0.05) < 0.09
