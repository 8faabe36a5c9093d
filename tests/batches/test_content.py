"""Equal content has one digest, in any process; different content another."""

import numpy as np
import pytest
import torch

from tests.batches.rows import Example
from turnover.batches.rows import digest


class Unknown:
    pass


class Picture:
    def __init__(self, raw):
        self.raw = raw

    def tobytes(self):
        return self.raw


def itself():
    rows = []
    rows.append(rows)
    return rows


DIFFERENT = [
    0,
    1,
    True,
    0.0,
    1j,
    None,
    "",
    "0",
    b"0",
    (),
    (0,),
    [0],
    ((0,),),
    (0, 1),
    {"a": 0},
    {"a": 1},
    {"b": 0},
    Example(0),
    Example(1),
    Picture(b"a"),
    Picture(b"b"),
    np.zeros(2),
    np.zeros((1, 2)),
    np.zeros(2, np.float32),
    np.float64(0),
    np.array(["a"], dtype=object),
    np.array(["b"], dtype=object),
    torch.zeros(2),
    torch.zeros(2, 1),
    torch.zeros(2, dtype=torch.bfloat16),
    torch.ones(2, dtype=torch.bfloat16),
    torch.tensor(0.0),
    torch.zeros(2, dtype=torch.bool),
    torch.zeros(1, dtype=torch.complex64),
    torch.ones(1, dtype=torch.complex64),
    torch.zeros(0),
]


def test_different_content_has_different_digests():
    assert len({digest(value) for value in DIFFERENT}) == len(DIFFERENT)


@pytest.mark.parametrize("value", DIFFERENT, ids=lambda value: repr(value)[:20])
def test_a_digest_repeats_and_has_64_bits(value):
    assert digest(value) == digest(value)
    assert 0 <= digest(value) < 2**64


def test_strides_do_not_matter():
    square = torch.arange(4.0).reshape(2, 2)
    assert digest(square.T) == digest(square.T.contiguous())
    assert digest(square.numpy().T) == digest(square.numpy().T.copy())


def test_a_lazy_conjugate_counts_as_what_it_shows():
    wave = torch.tensor([1 + 2j])
    assert digest(wave.conj()) == digest(torch.tensor([1 - 2j])) != digest(wave)


def test_unknown_objects_count_by_their_type():
    assert digest(Unknown()) == digest(Unknown())


def test_sparse_tensors_and_rows_that_hold_themselves_come_to_an_end():
    assert digest(torch.eye(2).to_sparse()) == digest(torch.eye(2).to_sparse())
    assert digest(itself()) == digest(itself())


def test_a_digest_is_the_same_in_another_process():
    # Computed in another process, whose own hashes of strings are others.
    assert digest({"a": ("x", 1, 2.5)}) == 8827611629947428410
