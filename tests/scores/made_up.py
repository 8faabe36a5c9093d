"""Scores that hypothesis makes up: ties, failed pairs, infinities, minus zero and repeated ids among them."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from turnover.scores import Scores

NUMBERS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.nan, np.inf, -np.inf]) | st.floats(-3, 3, width=32)
FINITE = st.sampled_from([0.0, 1.0, -1.0, np.nan]) | st.floats(-3, 3, width=32)
IDS = st.integers(0, 9) | st.integers(2**62, 2**63 - 1)


@st.composite
def tables(draw, *, numbers=NUMBERS, unique=False, rows=12, queries=3):
    n, m = draw(st.integers(0, rows)), draw(st.integers(1, queries))
    values = draw(hnp.arrays(np.float32, (n, m), elements=numbers))
    ids = draw(st.lists(IDS, min_size=n, max_size=n, unique=unique))
    return values, ids


@st.composite
def scores(draw, *, pairs=None, unique=True):
    values, ids = draw(tables(numbers=FINITE, unique=unique))
    n, m = values.shape
    pairs = draw(st.booleans()) if pairs is None else pairs
    shape = (n, m) if pairs else (n,)
    per_query = st.sampled_from([None, "query", "row"])

    def numbers(*size):
        return np.random.default_rng(draw(st.integers(0, 99))).random(size, np.float32)

    def about_queries():
        kind = draw(per_query)
        if kind is None:
            return None
        return numbers(m) if pairs else numbers(n) if kind == "row" else numbers()

    return Scores(
        values if pairs else values[:, 0],
        ids=ids,
        queries=draw(st.sampled_from([None, ["a", "b", "c"][:m], [7, "x", 8][:m]])) if pairs else None,
        unit=draw(st.sampled_from(["loss", "margin"])),
        stderr=numbers(*shape) if draw(st.booleans()) else None,
        null=numbers(4, m)[:, : m if pairs else 1].reshape((4, m) if pairs else (4,)) if draw(st.booleans()) else None,
        null_spread=about_queries(),
        offset=about_queries(),
        path=draw(st.sampled_from(["", "generic"])),
        replicas=draw(st.integers(1, 3)),
        provenance=draw(st.sampled_from([{}, {"seed": 0, "model": {"sites": ["fc1"], "keep": 0.5}}])),
        standardized=draw(st.booleans()),
    )
