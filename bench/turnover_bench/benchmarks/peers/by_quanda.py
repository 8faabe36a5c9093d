"""quanda's benchmarks on digits: explainers of its own and ours beside each other.

quanda downloads models and data sets for its published settings; here its benchmarks get a small network and digits of
scikit-learn. What judges is quanda's: `ClassDetection`, `SubclassDetection`, `MislabelingDetection`.
"""

import contextlib
import io
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from . import torchvision_operators  # noqa: F401 # isort: skip - before quanda imports torchvision

import torch
from quanda.benchmarks.downstream_eval import ClassDetection, MislabelingDetection, SubclassDetection
from quanda.explainers import RandomExplainer
from quanda.explainers.wrappers import CaptumSimilarity, CaptumTracInCPFast
from quanda.utils.datasets.transformed import LabelFlippingDataset, LabelGroupingDataset
from quanda.utils.datasets.transformed.metadata import LabelFlippingMetadata, LabelGroupingMetadata
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset
from tqdm import tqdm

from turnover_bench.experiments.runner import kept

from .digits import ADAM, Config, digit_rows, fitted, masked
from .likeness import BATCH, measure_likeness, one_hidden_layer
from .quanda_explainer import QuandaExplainer

_EPOCHS = 30
_GROUPS = {label: label % 2 for label in range(10)}  # even and odd digits as superclasses


def measure(config: Config, folder: Path) -> dict[str, Any]:
    """Return the score of every explainer in every benchmark and seed, with processor seconds.

    What is finished lies in a folder.
    """
    epochs = config.epochs or _EPOCHS
    found: dict[str, dict[str, list[float]]] = {}
    for seed in tqdm(config.seeds, desc="quanda"):
        for task in ("class", "subclass", "mislabeling"):
            measured = kept(folder / f"{task}-{seed}.json", partial(_scores, config, task, epochs, seed))
            for name, (score, seconds) in measured.items():
                found.setdefault(name, {}).setdefault(task, []).append(score)
                found[name].setdefault("seconds", []).append(seconds)
    likeness: dict[str, dict[str, list[float]]] = {}
    for seed in config.seeds:
        measured = kept(folder / f"likeness-{seed}.json", partial(measure_likeness, config, epochs, seed))
        for name, figures in measured.items():
            for figure, value in figures.items():
                likeness.setdefault(name, {}).setdefault(figure, []).append(value)
    return {"methods": found, "likeness": likeness, "epochs": epochs}


def _scores(config: Config, task: str, epochs: int, seed: int) -> dict[str, tuple[float, float]]:
    """Return score and seconds of every explainer in one benchmark."""
    data, classes, judge = _tasks(config, seed)[task]
    networks = {masks: _trained(data, classes, epochs, seed, masks=masks) for masks in (False, True)}
    found = {}
    for name, (explainer, options, masks) in _explainers(seed).items():
        with tempfile.TemporaryDirectory() as scratch, _quiet():
            weights = Path(scratch) / "weights.pt"
            torch.save(networks[masks].state_dict(), weights)
            more = {"cache_dir": scratch, "model_id": "digits"} if explainer is CaptumSimilarity else {}
            began = time.process_time()
            score = judge(networks[masks], str(weights)).evaluate(explainer, {**options, **more}, batch_size=50)
            found[name] = float(score["score"]), time.process_time() - began
    return found


def _tasks(config: Config, seed: int) -> dict[str, tuple[Any, int, Callable[[nn.Module, str], Any]]]:
    """Return training data, number of outputs, and what makes the benchmark for a network and its weights."""
    rows, tests = map(_Digits, digit_rows(config))
    grouped = [
        LabelGroupingDataset(part, LabelGroupingMetadata(seed=seed), class_to_group=_GROUPS) for part in (rows, tests)
    ]
    flipped = LabelFlippingDataset(rows, LabelFlippingMetadata(p=0.1, seed=seed, n_classes=10))

    def made(kind: Any, train: Any, test: Any, model: nn.Module, weights: str, **options: Any) -> Any:
        return kind(
            model=model,
            train_dataset=train,
            eval_dataset=test,
            checkpoints=[weights],
            checkpoints_load_func=_load,
            **options,
        )

    # Asked about predictions: of given labels quanda 0.5 misses a key.
    subclasses = partial(made, SubclassDetection, *grouped, class_to_group=_GROUPS, use_predictions=True)
    return {
        "class": (rows, 10, partial(made, ClassDetection, rows, tests)),
        "subclass": (grouped[0], 2, subclasses),
        "mislabeling": (flipped, 10, partial(made, MislabelingDetection, flipped, tests)),
    }


class _Digits(Dataset[tuple[Tensor, int]]):
    """Rows whose labels are plain integers, as quanda takes them."""

    def __init__(self, rows: TensorDataset) -> None:
        self.inputs, self.labels = rows.tensors[0], rows.tensors[1].tolist()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        return self.inputs[row], self.labels[row]


def _load(model: nn.Module, path: str) -> float:
    model.load_state_dict(torch.load(path))
    model.eval()
    return 1.0


def _trained(data: Any, classes: int, epochs: int, seed: int, *, masks: bool) -> nn.Module:
    inputs, labels = zip(*(data[row] for row in range(len(data))), strict=True)
    rows = torch.stack(inputs), torch.tensor([int(label) for label in labels])
    build = partial(one_hidden_layer, classes)
    if masks:
        build = partial(masked, build, ["2"], seed=seed)
    return fitted(build, rows, ADAM, epochs=epochs, batch_size=BATCH, seed=seed)


def _explainers(seed: int) -> dict[str, tuple[type, dict[str, Any], bool]]:
    """Return explainers, their options, and whether they ask the network with masks."""
    fast = {"final_fc_layer": "3", "loss_fn": nn.CrossEntropyLoss(reduction="sum"), "batch_size": 100}
    return {
        # Another seed: quanda draws the flipped labels from this one, by the same generator.
        "quanda: random": (RandomExplainer, {"seed": 1000 + seed}, False),
        "quanda: captum's similarity": (CaptumSimilarity, {"layers": "2"}, False),
        "quanda: captum's TracInCPFast": (CaptumTracInCPFast, fast, False),
        "turnover: one finished network": (QuandaExplainer, {}, False),
        "turnover: 8 replicas with masks": (QuandaExplainer, {}, True),
        "turnover: 8 replicas with masks, original estimator": (QuandaExplainer, {"estimator": "tod"}, True),
    }


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
