"""Mask words and bits as NumPy arrays, for the tests of masks."""

import numpy as np
import torch

from turnover.masks import Stream


def words_of(source, ids, width, site="fc1", keep=0.5):
    pieces = torch.as_tensor(ids).split(max(1024, 2**22 // width))
    words = [source.words(piece, [Stream(site, width, keep)])[0] for piece in pieces]
    return torch.cat(words).numpy().astype("<i4", copy=False)


def bits_of(*args, **kwargs):
    return np.unpackbits(words_of(*args, **kwargs).view(np.uint8), axis=1, bitorder="little")
