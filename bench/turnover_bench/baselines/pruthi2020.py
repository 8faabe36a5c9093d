"""TracIn (Pruthi et al. 2020, "Estimating Training Data Influence by Tracing Gradient Descent").

At each checkpoint of a training, one plain SGD step on a row alone would lower a query's loss by about the learning
rate times the product of both gradients. TracIn is the sum of these over the checkpoints (their TracInCP):

    score(i, q) = Σ_c η_c ∇L(z_i, θ_c) · ∇L(q, θ_c)
"""

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from turnover.progress import progress_bar
from turnover.scores import Scores
from turnover.storage import ArraySpec, from_record, holds, sha256_of, to_record, write_atomically
from turnover.training import Step, TrainingRecipe, digest_of, plain_text
from turnover_bench.errors import BaselineError

from ._questions import Baseline, Cache, Question, Tile, check_unchanged
from .row_gradients import MEMORY, RowLosses, as_numpy, parameter_names

_INDEX = "checkpoints.json"
_FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """A model before one step of its training.

    Attributes:
        step: number of the step, from 0.
        rates: learning rate of every trainable parameter at that step, by its name.
        weights: the state dict, or the file that holds it.
        sha256: of that file; None where it is not known, of recordings of 0.1.0.
    """

    step: int
    rates: dict[str, float]
    weights: dict[str, Tensor] | Path
    sha256: str | None = None

    def read(self) -> dict[str, Tensor]:
        """Return the state dict."""
        if not isinstance(self.weights, Path):
            return self.weights
        if not self.weights.is_file():
            raise BaselineError(
                f"the checkpoint {self.weights} is missing. Record the training again: "
                "TracIn.train(recipe, folder=...)."
            )
        if self.sha256 is not None and not holds(self.weights, self.sha256):
            raise BaselineError(
                f"the checkpoint {self.weights} is damaged: its checksum is not that of what was written. Record the "
                "training again: TracIn.train(recipe, folder=...)."
            )
        return torch.load(self.weights, weights_only=True)


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of one training.

    Attributes:
        data: checksum of the rows that were trained on.
        items: the checkpoints, in the order of the training.
    """

    data: str
    items: list[Checkpoint]

    def check(self, recipe: TrainingRecipe) -> None:
        """Raise where there are none, or where they come from other rows."""
        if not self.items:
            raise BaselineError(
                "there are no checkpoints. Record some: TracIn.train(recipe, checkpoints=3), or a smaller every=."
            )
        check_unchanged(recipe, self.data, "TracIn.train(recipe)")


class TracIn(Baseline):
    """Influence of training rows by gradient products over checkpoints; `TracIn.train` makes one.

    Positive: a step on the row lowers the query's loss. The unit is the loss, of one such step at each checkpoint; a
    training visits a row more or less often and in batches, so sizes are not those of leave-one-out. The learning rate
    is that of plain SGD; what momentum or Adam make of a gradient is left out. Models are seen in eval mode, wrapped
    ones in full view.

    Args:
        recipe: the rows and loss of the training.
        checkpoints: a folder that `TracIn.train(folder=...)` wrote, or `Checkpoints` in memory.
        parameters: names or globs of parameters or modules to restrict the gradients to; None: all trainable ones.
        memory: bytes that a block of gradients may take; a few such blocks are held at once.
        cache: a folder in which the products of each checkpoint and block of queries are kept, one sub-folder per
            question, 4 bytes per row, query and checkpoint, and from which an interrupted run resumes. Needs zarr:
            pip install 'turnover[store]'.
        identity: what a recipe cannot tell by itself, such as the version of your loss; needed with `cache`.

    Attributes:
        model: the trained model, where `TracIn.train` made this; else None.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> x = torch.randn(20, 3)
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=4)
        >>> tracin = TracIn.train(recipe, seed=1, checkpoints=3)
        >>> tracin.pairwise((x[:5], recipe.targets[:5])).shape
        (20, 5)
        >>> bool((tracin.self_influence().values > 0).all())
        True
    """

    def __init__(
        self,
        recipe: TrainingRecipe,
        *,
        checkpoints: Checkpoints | str | os.PathLike[str],
        parameters: str | Sequence[str] | None = None,
        memory: int = MEMORY,
        cache: str | os.PathLike[str] | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(recipe, cache, identity)
        self.model: nn.Module | None = None
        self._checkpoints = checkpoints if isinstance(checkpoints, Checkpoints) else _open_folder(checkpoints)
        self._checkpoints.check(recipe)
        with torch.random.fork_rng(devices=[]):
            self._model = recipe.build().eval()
        self._losses = RowLosses(recipe, self._model, parameter_names(self._model, parameters), memory)

    @classmethod
    def train(
        cls,
        recipe: TrainingRecipe,
        *,
        seed: int = 0,
        checkpoints: int = 3,
        every: int | None = None,
        folder: str | os.PathLike[str] | None = None,
        parameters: str | Sequence[str] | None = None,
        memory: int = MEMORY,
        cache: str | os.PathLike[str] | None = None,
        identity: Mapping[str, Any] | None = None,
        progress: bool | None = None,
    ) -> "TracIn":
        """Return TracIn of a training that is run now; the trained model is its `model`.

        Args:
            recipe: how to train.
            seed: of the training.
            checkpoints: how many, spread evenly; the last stands before the last step.
            every: take one every so many steps instead.
            folder: an empty folder to keep the checkpoints in; None: in memory.
            parameters: as for the class.
            memory: as for the class.
            cache: as for the class.
            identity: as for the class.
            progress: show a bar of the training; None: on a terminal.
        """
        Cache.of(cache, identity)  # checked before the training
        total = len(recipe.batches(seed))
        steps = _checkpoint_steps(total, checkpoints, every)
        path = None if folder is None else _new_folder(folder)
        items: list[Checkpoint] = []

        def on_step(step: Step) -> None:
            if step.number in steps:
                items.append(_checkpoint_of(step, path))
            bar.update()

        with progress_bar(total, progress, "steps") as bar:
            model = recipe.fit(seed=seed, on_step=on_step)
        recorded = Checkpoints(recipe.data_digest(), items)
        if path is not None:
            _write_index(path, recorded)
        tracin = cls(recipe, checkpoints=recorded, parameters=parameters, memory=memory, cache=cache, identity=identity)
        tracin.model = model
        return tracin

    def _score(self, question: Question, progress: bool | None) -> Scores:
        """Return the sum of products over the checkpoints."""
        self._checkpoints.check(self._recipe)
        lines, columns = question.shape
        # A row alone needs no room beside itself.
        block = columns if question.kind == "self" else min(self._losses.block, columns)
        spec = ArraySpec((len(self._checkpoints.items), lines, columns), "float32", (1, lines, block))
        loaded: tuple[int, Tensor] | None = None

        def compute(tile: int) -> Tile:
            nonlocal loaded
            step, _, places = spec.region(tile)
            if loaded is None or loaded[0] != step.start:
                loaded = step.start, self._load(step.start)
            products = self._products(question, torch.arange(places.start, places.stop), loaded[1])
            bar.update()
            return {"products": products.astype(np.float32)[None]}

        values = np.zeros(spec.shape[1:])
        with progress_bar(spec.tiles, progress, "parts") as bar:
            tiles = self._cache.tiles(
                question, self._identity, {"products": spec}, compute, on_cached=lambda _: bar.update()
            )
            for tile, arrays in enumerate(tiles):
                values[spec.region(tile)[1:]] += arrays["products"][0]
        count = len(self._checkpoints.items)
        path = f"TracIn (Pruthi et al. 2020), {count} checkpoint{'s' if count > 1 else ''}"
        return question.scores(values, path=path, provenance=self._provenance())

    def _products(self, question: Question, places: Tensor, rates: Tensor) -> np.ndarray:
        """Return the products of some columns of a question at the weights that are loaded."""
        if question.queries is None:
            gradients = self._losses.gradients(question.rows[places])
            return np.concatenate([as_numpy((part.square() * rates).sum(1)) for part in gradients])[None]
        of_queries = self._losses.over(question.queries)
        gradients = of_queries.stacked(places) if question.kind == "pairs" else of_queries.mean_gradient()[None]
        return self._losses.products(question.rows, gradients * rates)

    def _load(self, place: int) -> Tensor:
        """Give the model the weights of a checkpoint; return the learning rate of every number among the parameters."""
        checkpoint = self._checkpoints.items[place]
        self._model.load_state_dict(checkpoint.read())
        rates = [
            torch.full_like(value, checkpoint.rates.get(name, 0.0)).reshape(-1)
            for name, value in self._losses.parameters().items()
        ]
        return torch.cat(rates)

    def _provenance(self) -> dict[str, Any]:
        return {
            "method": "TracIn",
            "steps": [checkpoint.step for checkpoint in self._checkpoints.items],
            "rates": [sorted(set(checkpoint.rates.values())) for checkpoint in self._checkpoints.items],
            "parameters": self._losses.names,
            "data": self._checkpoints.data,
        }

    def _identity(self) -> dict[str, Any]:
        return {
            **self._provenance(),
            "rates": [checkpoint.rates for checkpoint in self._checkpoints.items],
            "checkpoints": [digest_of(checkpoint.read()) for checkpoint in self._checkpoints.items],
            "architecture": plain_text(self._model),
            "loss": plain_text(self._recipe.loss),
            "memory": self._losses.memory,
        }


def _checkpoint_steps(total: int, checkpoints: int, every: int | None) -> list[int]:
    """Return the steps before which a checkpoint is taken: the last of each of equal parts of the training."""
    name, count = ("checkpoints", checkpoints) if every is None else ("every", every)
    if not 1 <= count <= total:
        raise BaselineError(f"`{name}` must be an integer from 1 to {total}, the steps of the training, got {count}.")
    if every is not None:
        return list(range(every - 1, total, every))
    return [(place + 1) * total // checkpoints - 1 for place in range(checkpoints)]


def _checkpoint_of(step: Step, folder: Path | None) -> Checkpoint:
    """Return the weights and learning rates of a step, the weights in the folder if there is one."""
    names = {id(parameter): name for name, parameter in step.model.named_parameters()}
    rates = {
        names[id(parameter)]: float(group["lr"])
        for group in step.optimizer.param_groups
        for parameter in group["params"]
    }
    weights = {name: value.detach().clone() for name, value in step.model.state_dict().items()}
    if folder is None:
        return Checkpoint(step.number, rates, weights)
    path = folder / f"step-{step.number:08d}.pt"
    held = io.BytesIO()
    torch.save(weights, held)
    path.write_bytes(held.getvalue())
    return Checkpoint(step.number, rates, path, sha256_of(held.getvalue()))


def _write_index(folder: Path, checkpoints: Checkpoints) -> None:
    items = [{"step": item.step, "rates": item.rates, "sha256": item.sha256} for item in checkpoints.items]
    content = {"format": _FORMAT, "data": checkpoints.data, "checkpoints": items}
    write_atomically(folder / _INDEX, to_record(content, indent=1))


def _open_folder(folder: str | os.PathLike[str]) -> Checkpoints:
    """Return the checkpoints in a folder; their weights stay on disk."""
    index = Path(folder) / _INDEX
    if not index.is_file():
        raise BaselineError(
            f"{os.fspath(folder)!r} holds no finished recording ({_INDEX} is missing). Record a training: "
            "TracIn.train(recipe, folder=...)."
        )
    try:
        data = index.read_bytes()
        content = json.loads(data)
        version = content.get("format")
        if version == _FORMAT and "checksum" in content and from_record(data) is None:  # 0.1.0 wrote none
            raise ValueError("its checksum is that of another content")
        items = [
            Checkpoint(item["step"], item["rates"], Path(folder) / f"step-{item['step']:08d}.pt", item.get("sha256"))
            for item in (content["checkpoints"] if version == _FORMAT else [])
        ]
        trained_on = content["data"] if version == _FORMAT else ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BaselineError(f"{index} is damaged ({error}). Record the training again.") from error
    if version != _FORMAT:
        raise BaselineError(f"{index} has format {version!r}; this version reads {_FORMAT}. Record the training again.")
    missing = [str(item.weights) for item in items if isinstance(item.weights, Path) and not item.weights.is_file()]
    if missing:
        raise BaselineError(
            f"{len(missing)} of {len(items)} checkpoints are missing: {', '.join(missing[:3])}. Record the training "
            "again into an empty folder: TracIn.train(recipe, folder=...)."
        )
    return Checkpoints(trained_on, items)


def _new_folder(folder: str | os.PathLike[str]) -> Path:
    """Return an empty folder, made if need be."""
    path, name = Path(folder), repr(os.fspath(folder))
    path.mkdir(parents=True, exist_ok=True)
    if (path / _INDEX).is_file():
        raise BaselineError(
            f"{name} is not empty. Give another folder, or use what this one holds: TracIn(recipe, checkpoints={name})."
        )
    if any(path.iterdir()):
        raise BaselineError(
            f"{name} is not empty and holds no finished recording: a training was interrupted, or it is a folder of "
            "something else. Give another folder, or empty this one."
        )
    return path
