"""What masks cost with many classes: a toy run, the letters, and what settings vary."""

import numpy as np
import torch

from turnover_bench.experiments.mask_cost_classes.experiment import (
    letter_rows,
)


def test_a_twentieth_of_the_letters_has_a_wrong_label_in_training_and_none_in_the_test():
    x, given, held, held_labels = letter_rows(400, 100, 26, 0.05, 0)
    clean = letter_rows(400, 100, 26, 0.0, 0)
    assert torch.equal(x, clean[0])
    assert torch.equal(held, clean[2])
    assert int((given != clean[1]).sum()) == 20
    assert np.array_equal(held_labels, clean[3])
