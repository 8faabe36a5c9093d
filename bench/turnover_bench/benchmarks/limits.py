"""What the limits for many rows cost: fewer epochs, and heads of the training record that are fitted on some rows.

    python -m turnover_bench.benchmarks.limits 10000
    python -m turnover_bench.benchmarks.limits 40000 --replicas 1 --epochs 3 --heads

Tables are generated: eight numbers, a category of twelve, four classes that they do not fully determine. 5 % of the
training labels are changed to another class, and the network is the one of `turnover run`. One training goes through
all epochs, and is looked at after some of them: its order of rows depends on the epoch alone, so that a shorter
training would have been the same. It takes minutes; `make bench` leaves it out.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata, spearmanr
from torch import Tensor, nn
from torch.nn import functional

import turnover
from turnover.applications import RowRecord, TrainingRecord, wrong_labels

_CHANGED, _VALIDATION, _QUERIES = 0.05, 2000, 500
_WIDTH, _BATCH = 512, 64


@dataclass(frozen=True)
class Rows:
    """Rows to train on, and to validate with."""

    x: Tensor
    y: Tensor
    ids: Tensor
    validation_x: Tensor
    validation_y: Tensor


@dataclass(frozen=True)
class Table:
    """A generated table of classes; `wrong` says which training labels were changed."""

    rows: Rows
    wrong: np.ndarray
    classes: int

    @classmethod
    def of(cls, count: int) -> "Table":
        """Return a table of so many training rows."""
        rng, classes = np.random.default_rng(0), 4
        numbers, regions = rng.normal(size=(count + _VALIDATION, 8)), rng.integers(0, 12, count + _VALIDATION)
        scores = numbers @ rng.normal(size=(8, classes)) + rng.normal(size=(12, classes))[regions]
        scores += 2 * np.tanh(numbers[:, :4]) * numbers[:, 4:] + 0.5 * rng.gumbel(size=scores.shape)
        x, y = np.concatenate([numbers, np.eye(12)[regions]], 1), scores.argmax(1)
        wrong = rng.random(count) < _CHANGED
        given = np.where(wrong, (y[:count] + rng.integers(1, classes, count)) % classes, y[:count])
        features, labels = torch.from_numpy(x).float(), torch.from_numpy(np.concatenate([given, y[count:]]))
        ids = torch.arange(count)
        rows = Rows(features[:count], labels[:count], ids, features[count:], labels[count:])
        return cls(rows, wrong, classes)

    def record(self, model: nn.Module, **options: Any) -> TrainingRecord:
        """Return the record of a training that begins, which fits the heads."""
        rows = self.rows
        train, validation = (rows.x, rows.y, rows.ids), (rows.validation_x, rows.validation_y)
        return TrainingRecord(model, train=train, validation=validation, **options)

    def found(self, record: RowRecord) -> str:
        """Return how well wrong labels are found: AUC of their probabilities; how many are listed, how many of them."""
        labels = wrong_labels(record)
        hits = int(self.wrong[labels.likely].sum())
        auc = _auc(labels.p_wrong, self.wrong)
        return f"AUC {auc:.4f}, {int(labels.likely.sum()):,} listed, {hits:,} of {self.wrong.sum():,} wrong among them"


class Looks:
    """Looks at a training after some of its epochs."""

    def __init__(self, table: Table, record: TrainingRecord, epochs: list[int]) -> None:
        """Record a training."""
        self.table, self.record, self.epochs = table, record, epochs
        self.means: dict[int, np.ndarray] = {}

    def __call__(self, model: nn.Module) -> None:
        """Take note of an epoch."""
        self.record(model)
        epoch, rows = self.record.epochs, self.table.rows
        if epoch not in self.epochs:
            return
        train = turnover.with_instance_ids(torch.utils.data.TensorDataset(rows.x, rows.y))
        inf = turnover.Influence(model, train=train)
        queries = rows.validation_x[:_QUERIES], rows.validation_y[:_QUERIES]
        self.means[epoch] = inf.mean(queries, progress=False).values
        model.eval()
        with torch.no_grad():
            accuracy = float((model(rows.validation_x).argmax(1) == rows.validation_y).float().mean())
        harmful = _auc(-self.means[epoch], self.table.wrong)
        found = self.table.found(self.record.finish())
        print(
            f"  after {epoch:2} epochs: accuracy {accuracy:.4f}; likely label errors: {found}; "
            f"mean influence: AUC {harmful:.4f}",
            flush=True,
        )


def network(table: Table, replicas: int) -> nn.Module:
    """Return the network that `turnover run` has for tables, before its training."""
    torch.manual_seed(0)
    layers = [nn.Linear(table.rows.x.shape[1], _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, table.classes, bias=False)]
    torch.manual_seed(1)
    return turnover.wrap(nn.Sequential(*layers), at=["1"], replicas=replicas)


def train(model: nn.Module, rows: Rows, epochs: int, after_epoch: Callable[[nn.Module], None]) -> None:
    """Train as `turnover run` does."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4, fused=True)
    for epoch in range(epochs):
        order = torch.randperm(len(rows.y), generator=torch.Generator().manual_seed(epoch))
        model.train()
        for batch in order.split(_BATCH):
            with turnover.instances(rows.ids[batch]) as active:
                outputs = model(rows.x[batch])
            loss = functional.cross_entropy(outputs, active.repeat(rows.y[batch]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        after_epoch(model)


def main() -> None:
    """Train once, and print what shorter trainings and heads on fewer rows would have given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=int, help="number of training rows")
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--epochs", default="3,6,12,24,30", help="after which to look; the last is that of all")
    parser.add_argument("--heads", action="store_true", help="compare only heads on some rows with those on all")
    given = parser.parse_args()
    epochs = [int(one) for one in given.epochs.split(",")]
    torch.set_num_threads(1)
    start, table = time.process_time(), Table.of(given.rows)
    model = network(table, given.replicas)
    print(f"{given.rows:,} rows, {int(table.wrong.sum()):,} labels changed, {given.replicas} replicas", flush=True)
    recorded = table.record(model)
    if given.heads:
        everywhere = table.record(model, most_fitted=given.rows)
        train(model, table.rows, epochs[-1], recorded)
        record = recorded.finish()
        heads = {"left_out": everywhere.left_out, "validation_left_out": everywhere.validation_left_out}
        print(f"  heads on as many rows as by default: {table.found(record)}")
        print(f"  heads on all rows: {table.found(replace(record, **heads))}")
    else:
        looks = Looks(table, recorded, epochs)
        train(model, table.rows, epochs[-1], looks)
        for epoch in epochs[:-1]:
            same = spearmanr(looks.means[epoch], looks.means[epochs[-1]])[0]
            print(f"  mean influence after {epoch} and {epochs[-1]} epochs: rank correlation {same:.3f}")
    print(f"  {time.process_time() - start:.0f} processor seconds")


def _auc(values: np.ndarray, wrong: np.ndarray) -> float:
    """Return the chance that a wrong label has a higher value than a correct one."""
    ranks, count = rankdata(values), int(wrong.sum())
    return float((ranks[wrong].sum() - count * (count + 1) / 2) / (count * (len(wrong) - count)))


if __name__ == "__main__":
    main()
