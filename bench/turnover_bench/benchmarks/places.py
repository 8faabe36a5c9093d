"""Which estimator finds places of the training text that repeat the words of a query.

`python -m turnover_bench.benchmarks.places RUN` prints a table.
RUN: a run of a language model (`turnover run corpus.txt --task lm`).
Queries are words of its validation text that stand in the training text after the same two words; a place that repeats
the three should come first.
"""

import argparse
import time

import numpy as np
import torch
from torch import Tensor

from turnover.runs import open_run
from turnover_bench.checks import markdown_table

_FIRST = 5


def main() -> None:
    """Print the shares for the estimator of the run and for the original one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="folder of a run of a language model")
    parser.add_argument("--queries", type=int, default=40)
    given = parser.parse_args()
    run = open_run(given.run)
    (x, y, *_), (asked_x, asked_y, *_) = run.train_data, run.data("validation")
    triples, asked = _triples(x, y), _triples(asked_x, asked_y)
    repeated = (asked[:, None] == triples.unique(dim=0)[None]).all(-1).any(1).nonzero()[:, 0].numpy()
    if len(repeated) < given.queries:
        raise SystemExit(f"only {len(repeated)} words of the validation text repeat; give --queries {len(repeated)}.")
    chosen = torch.from_numpy(np.random.default_rng(0).choice(repeated, given.queries, replace=False))
    rows = []
    for name, influence in {"as the run explains": run.influence, "original estimator": run.raw_influence}.items():
        began = time.process_time()
        scores = influence.pairwise((asked_x[chosen], asked_y[chosen]), progress=False).to_torch()
        first = scores.topk(_FIRST, dim=0).indices  # [first, queries]
        same = (triples[first] == asked[chosen]).all(-1).float()
        word = (triples[first][..., -1] == asked[chosen][:, -1]).float()
        shares = [f"{share:.3f}" for share in (same[0].mean(), same.mean(), word.mean())]
        rows.append([name, *shares, f"{time.process_time() - began:.0f}"])
    titles = ["estimator", "such a place is first", f"of the first {_FIRST}", "have the same word", "processor seconds"]
    print(markdown_table(titles, rows))


def _triples(contexts: Tensor, words: Tensor) -> Tensor:
    """Return the word of every position with the two before it [positions, 3]."""
    return torch.cat([contexts[:, -2:], words[:, None]], 1)


if __name__ == "__main__":
    main()
