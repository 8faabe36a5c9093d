"""A peer's influence functions: EK-FAC of kronfluence, which fits factors of the curvature in place of a recursion."""

import copy
import importlib.util
import logging
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import turnover

from .seconds import seconds
from .task import Task, Trimmed, padded

_BATCH = 8


def missing() -> str | None:
    """Return why the peer cannot be measured, or None."""
    if importlib.util.find_spec("kronfluence") is None:
        return "kronfluence is not installed: pip install kronfluence"
    return None


def peer_seconds(task: Task, rows: Sequence[int], modules: Sequence[str], scratch: Path) -> float:
    """Return the seconds in which factors are fitted on rows and the same rows scored on the target.

    Args:
        task: the instances, the target and the model.
        rows: which instances.
        modules: that were trained; of them the Linear layers count.
        scratch: folder for its files.
    """
    from kronfluence.analyzer import Analyzer, prepare_model

    model = copy.deepcopy(Trimmed(turnover.unwrap(task.model))).eval()
    layers = {
        name: part
        for name, part in model.named_modules()
        if isinstance(part, nn.Linear) and any(name.startswith(f"model.{module}") for module in modules)
    }
    for name, layer in layers.items():
        if list(layer.children()):  # the place of a mask within, for which it passes the layer over
            model.set_submodule(name, _without_children(layer))
    # Sorted by length, so that little padding is computed.
    some = task.train.of(sorted(rows, key=lambda row: len(task.train.tokens[row])))
    data, target = (TensorDataset(*padded(part), part.labels) for part in (some, task.target))
    shutil.rmtree(scratch, ignore_errors=True)
    own = _task(list(layers))
    options: dict[str, Any] = {"output_dir": str(scratch), "disable_tqdm": True, "log_level": logging.ERROR}

    def answer() -> None:
        analyzer: Any = Analyzer("runtime", model=prepare_model(model, own), task=own, cpu=True, **options)
        analyzer.fit_all_factors("factors", dataset=data, per_device_batch_size=_BATCH)
        analyzer.compute_pairwise_scores(
            "scores",
            factors_name="factors",
            query_dataset=target,
            train_dataset=data,
            per_device_query_batch_size=1,
            per_device_train_batch_size=_BATCH,
        )
        if not bool(analyzer.load_pairwise_scores("scores")["all_modules"].isfinite().all()):
            raise ValueError("kronfluence gave scores that are not finite.")

    # Its own warnings are about how torch saves and loads; it draws labels for its factors.
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spent = seconds(answer)
    shutil.rmtree(scratch, ignore_errors=True)
    return spent


def _without_children(layer: nn.Linear) -> nn.Linear:
    plain = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None)
    plain.load_state_dict(layer.state_dict())
    return plain


def _task(tracked: list[str]) -> Any:
    from kronfluence.task import Task as PeerTask

    class Classification(PeerTask):
        def compute_train_loss(self, batch: tuple[Tensor, ...], model: nn.Module, sample: bool = False) -> Tensor:
            *inputs, labels = batch
            outputs = model(*inputs)
            if sample:
                labels = torch.multinomial(outputs.detach().softmax(1), 1).flatten()
            return functional.cross_entropy(outputs, labels, reduction="sum")

        def compute_measurement(self, batch: tuple[Tensor, ...], model: nn.Module) -> Tensor:
            return self.compute_train_loss(batch, model)

        def get_influence_tracked_modules(self) -> list[str]:
            return tracked

    return Classification()
