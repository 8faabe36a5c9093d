"""The demo's task: changed labels are found, and the curves say what they should."""

import pytest
import torch

pytest.importorskip("sklearn", reason="needs the extra cli")

from turnover.tasks.digits import DigitsConfig, load_digits, run_digits


@pytest.fixture(scope="module")
def result():
    return run_digits(DigitsConfig(epochs=12, hidden=256))


def test_a_tenth_of_the_training_labels_is_changed_and_the_same_for_one_seed():
    data = load_digits(DigitsConfig(seed=5))
    assert int(data.changed.sum()) == round(0.1 * len(data.labels))
    assert torch.equal(data.labels, load_digits(DigitsConfig(seed=5)).labels)
    assert not torch.equal(data.labels, load_digits(DigitsConfig(seed=6)).labels)


def test_most_changed_labels_are_among_the_top_tenth_by_self_influence(result):
    assert len(result.suspects) == 144
    assert result.found >= 90


def test_the_keep_half_memorises_and_the_flipped_half_does_not(result):
    assert result.curves.keep[-1] < 0.1 < 1.0 < result.curves.flip[-1]
    assert result.accuracy > 0.9


def test_the_half_that_never_saw_a_wrong_label_mostly_gives_the_true_one(result):
    changed = result.data.changed
    right = (result.unseen_labels == result.data.true_labels)[changed]
    assert right.float().mean() > 0.75
