"""dattri's network for MNIST, its retraining, and its metrics, on digits: its methods and ours beside each other.

Everything that judges is dattri's: `retrain_lds`, `calculate_lds_ground_truth`, `lds`, `mislabel_detection_auc`. MNIST
is not at hand without a download, so that the rows are digits of scikit-learn, enlarged to 28 × 28 pixels.
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

import numpy as np
import torch
from dattri.algorithm import IFAttributorCG, IFAttributorDataInf, TracInAttributor, TRAKAttributor
from dattri.benchmark.datasets.mnist import create_mlp_model, loss_mnist_mlp, train_mnist_mlp
from dattri.metric import calculate_lds_ground_truth, lds, mislabel_detection_auc
from dattri.model_util.retrain import retrain_lds
from dattri.task import AttributionTask
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

from turnover_bench.baselines import DATTRI_SOLVERS
from turnover_bench.experiments.runner import kept

from .dattri_attributor import DattriAttributor
from .digits import SGD, Config, digit_rows, fitted, masked, with_wrong_labels

_EPOCHS = 50  # of train_mnist_mlp
_BATCH = 64
_MODELS = 5
_CG, _DATAINF = "dattri: influence functions, conjugate gradients", "dattri: influence functions, DataInf"
_TRAK, _COSINE = f"dattri: TRAK, {_MODELS} models", "dattri: Grad-Cos"
# It would solve for every row; takes no rows once they are cached; is 1 for every row.
_WITHOUT_SELF = (_CG, _DATAINF, _TRAK, _COSINE)


def measure(config: Config, folder: Path) -> dict[str, Any]:
    """Return LDS and AUC of every method and seed, with processor seconds; what is finished lies in a folder."""
    rows, tests = digit_rows(config, side=28)
    epochs = config.epochs or _EPOCHS
    values, halves = kept(folder / "truth.json", lambda: _ground_truth(rows, tests, config.halves, epochs))
    truth = torch.tensor(values), torch.tensor(halves)
    found: dict[str, dict[str, list[float]]] = {}
    for seed in tqdm(config.seeds, desc="dattri"):
        measured = {
            "lds": kept(folder / f"lds-{seed}.json", partial(_lds, rows, tests, epochs, seed, truth)),
            "auc": kept(folder / f"auc-{seed}.json", partial(_auc, rows, epochs, seed)),
        }
        for part in measured.values():
            for name, figures in part.items():
                for figure, value in figures.items():
                    found.setdefault(name, {}).setdefault(figure, []).append(value)
    return {"methods": found, "epochs": epochs}


def _lds(
    rows: TensorDataset, tests: TensorDataset, epochs: int, seed: int, truth: tuple[Tensor, Tensor]
) -> dict[str, dict[str, float]]:
    found = {}
    for name, build in _methods(rows, epochs, seed).items():
        with quiet():
            began = time.process_time()
            scores = build().attribute(_loader(rows, whole=True), _loader(tests, whole=True))
            seconds = time.process_time() - began
        found[name] = {"lds": float(lds(scores.detach().float(), truth)[0].nanmean()), "seconds": seconds}
    return found


def _auc(rows: TensorDataset, epochs: int, seed: int) -> dict[str, dict[str, float]]:
    """Return how well wrong labels are found by self-attribution."""
    noisy, wrong = with_wrong_labels(rows)
    found = {}
    for name, build in _methods(noisy, epochs, seed).items():
        if name not in _WITHOUT_SELF:
            with quiet():
                own = build().self_attribute(_loader(noisy, whole=True)).detach()
            found[name] = {"auc": float(mislabel_detection_auc(own, torch.from_numpy(wrong))[0])}
    return found


def _loader(rows: TensorDataset, *, whole: bool = False, shuffle: bool = False) -> DataLoader[Any]:
    # In one batch: dattri's influence functions solve for all queries anew at every batch of rows.
    return DataLoader(rows, batch_size=len(rows) if whole else _BATCH, shuffle=shuffle)


def _ground_truth(rows: TensorDataset, tests: TensorDataset, halves: int, epochs: int) -> list[Any]:
    """Return what networks retrained on halves say of the tests, and the rows of the halves."""
    with quiet(), tempfile.TemporaryDirectory() as folder:
        train = partial(train_mnist_mlp, epoch_num=epochs)
        train.__name__ = "train_mnist_mlp"  # pyright: ignore[reportAttributeAccessIssue] - dattri writes it down
        retrain_lds(train, _loader(rows), folder, num_subsets=halves, seed=1)
        return [part.tolist() for part in calculate_lds_ground_truth(loss_mnist_mlp, folder, _loader(tests))]


def _methods(rows: TensorDataset, epochs: int, seed: int) -> dict[str, Callable[[], Any]]:
    """Return what trains and prepares each method; trainings of the plain network are shared."""
    trained: dict[int, nn.Module] = {}

    def plain(number: int) -> nn.Module:
        if number not in trained:
            loader = _loader(rows, shuffle=True)
            trained[number] = train_mnist_mlp(loader, seed=100 + seed + 1000 * number, epoch_num=epochs).eval()
        return trained[number]

    def of_task(kind: Any, *, models: int = 1, whole: bool = False, **options: Any) -> Any:
        model = plain(0)
        states = [plain(number).state_dict() for number in range(models)]
        attributor = kind(
            task=AttributionTask(loss_func=partial(_loss, model), model=model, checkpoints=states), **options
        )
        if whole:
            attributor.cache(_loader(rows, whole=True))
        return attributor

    def trak() -> Any:
        model = plain(0)
        states = [plain(number).state_dict() for number in range(_MODELS)]
        task = AttributionTask(loss_func=partial(_log_odds, model), model=model, checkpoints=states)
        attributor = TRAKAttributor(
            task=task,
            correct_probability_func=partial(_probability, model),
            projector_kwargs={"proj_dim": 128, "proj_max_batch_size": 32, "proj_seed": seed, "device": "cpu"},
        )
        attributor.cache(_loader(rows, whole=True))
        return _CachedTrak(attributor)

    def finished(models: int) -> DattriAttributor:
        networks = [plain(number) for number in range(models)]
        return _cached(DattriAttributor(networks if models > 1 else networks[0]), rows)

    def with_masks(**options: Any) -> DattriAttributor:
        # Its network has dropout layers, which become masks.
        build = partial(masked, partial(create_mlp_model, "mnist"), None, seed=seed)
        inputs, labels = rows.tensors
        model = fitted(build, (inputs, labels), SGD, epochs=epochs, batch_size=_BATCH, seed=seed)
        return _cached(DattriAttributor(model, **options), rows)

    ones = torch.ones(1)
    return {
        "dattri: Grad-Dot": partial(of_task, TracInAttributor, weight_list=ones, normalized_grad=False),
        _COSINE: partial(of_task, TracInAttributor, weight_list=ones, normalized_grad=True),
        _CG: partial(of_task, IFAttributorCG, whole=True, **DATTRI_SOLVERS["cg"].options),
        _DATAINF: partial(of_task, IFAttributorDataInf, whole=True, **DATTRI_SOLVERS["datainf"].options),
        _TRAK: trak,
        "turnover: one finished network": partial(finished, 1),
        f"turnover: {_MODELS} finished networks": partial(finished, _MODELS),
        "turnover: 8 replicas with masks": with_masks,
        "turnover: 8 replicas with masks, original estimator": partial(with_masks, estimator="tod"),
    }


class _CachedTrak:
    """dattri's TRAK takes no loader of training rows where they are cached."""

    def __init__(self, attributor: TRAKAttributor) -> None:
        self._attributor = attributor

    def attribute(self, _: DataLoader[Any], tests: DataLoader[Any]) -> Tensor:
        return self._attributor.attribute(tests)


def _cached(attributor: DattriAttributor, rows: TensorDataset) -> DattriAttributor:
    attributor.cache(_loader(rows, whole=True))
    return attributor


def _loss(model: nn.Module, weights: dict[str, Tensor], row: tuple[Tensor, Tensor]) -> Tensor:
    outputs = torch.func.functional_call(model, weights, row[0])
    return functional.cross_entropy(outputs, row[1].reshape(-1).long())


def _log_odds(model: nn.Module, weights: dict[str, Tensor], row: tuple[Tensor, Tensor]) -> Tensor:
    logarithm = -_loss(model, weights, row)
    return logarithm - torch.log1p(-torch.exp(logarithm))


def _probability(model: nn.Module, weights: dict[str, Tensor], row: tuple[Tensor, Tensor]) -> Tensor:
    return torch.exp(-_loss(model, weights, row))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide bars and warnings of the package."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
