"""TracIn (Pruthi et al. 2020, "Estimating Training Data Influence by Tracing Gradient Descent").

At each checkpoint of a training, one plain SGD step on a row alone would lower a query's loss by about the learning
rate times the product of both gradients. TracIn is the sum of these over the checkpoints (their TracInCP):

    score(i, q) = Σ_c η_c ∇L(z_i, θ_c) · ∇L(q, θ_c)
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from turnover.errors import BaselineError
from turnover.scores import Scores
from turnover.storage import ArraySpec
from turnover.training import Step, TrainingRecipe, data_digest, digest_of, plain_text

from .cached_parts import Cache, Part
from .checkpoints import Checkpoints, Recorder, new_folder, open_folder, write_index
from .progress_bar import progress_bar
from .questions import AnswersQuestions
from .row_gradients import MEMORY, RowLosses, as_numpy, parameter_names
from .rows_and_queries import Question


class TracIn(AnswersQuestions):
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
        cache: a folder; the products of a checkpoint and a block of queries are kept there, a sub-folder a question,
            4 bytes a row, query and checkpoint, and an interrupted run goes on from them. Needs zarr:
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
        super().__init__(recipe)
        self.model: nn.Module | None = None
        self._checkpoints = checkpoints if isinstance(checkpoints, Checkpoints) else open_folder(checkpoints)
        self._checkpoints.check(recipe)
        with torch.random.fork_rng(devices=[]):
            self._model = recipe.build().eval()
        self._losses = RowLosses(recipe, self._model, parameter_names(self._model, parameters), memory)
        self._cache = Cache.of(cache, identity)

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
        Cache.of(cache, identity)  # what does not fit is said before the training
        total = len(recipe.batches(seed))
        chosen = _chosen(total, checkpoints, every)
        recorder = Recorder(chosen, None if folder is None else new_folder(folder))

        def on_step(step: Step) -> None:
            recorder(step)
            bar.update()

        with progress_bar(progress, unit="steps", total=total) as bar:
            model = recipe.fit(seed=seed, on_step=on_step)
        found = Checkpoints(data_digest(recipe), recorder.items)
        if recorder.folder is not None:
            write_index(recorder.folder, found)
        made = cls(recipe, checkpoints=found, parameters=parameters, memory=memory, cache=cache, identity=identity)
        made.model = model
        return made

    def _answer(self, question: Question, progress: bool | None) -> Scores:
        """Return the sum of products over the checkpoints."""
        self._checkpoints.check(self._recipe)
        steps = len(self._checkpoints.items)
        # A row alone needs no room beside itself.
        block = question.columns if question.kind == "self" else min(self._losses.block, question.columns)
        spec = ArraySpec((steps, question.lines, question.columns), "float32", (1, question.lines, block))
        at: tuple[int, Tensor] | None = None

        def compute(tile: int) -> Part:
            nonlocal at
            step, _, places = spec.region(tile)
            if at is None or at[0] != step.start:
                at = step.start, self._load(step.start)
            found = self._products(question, torch.arange(places.start, places.stop), at[1])
            bar.update()
            return {"products": found.astype(np.float32)[None]}

        values = np.zeros(spec.shape[1:])
        with progress_bar(progress, unit="parts", total=spec.tiles) as bar:
            parts = self._cache.parts(
                question, self._depends_on, {"products": spec}, compute, found=lambda _: bar.update()
            )
            for tile, found in enumerate(parts):
                values[spec.region(tile)[1:]] += found["products"][0]
        return self._scores(question.shaped(values), question)

    def _products(self, question: Question, places: Tensor, rates: Tensor) -> np.ndarray:
        """Return the products of some columns of a question at the weights that are loaded."""
        if question.asked is None:
            found = self._losses.gradients(question.rows[places])
            return np.concatenate([as_numpy((part.square() * rates).sum(1)) for _, part in found])[None]
        of_queries = self._losses.over(question.asked)
        gradients = of_queries.stacked(places) if question.kind == "pairs" else of_queries.mean_gradient()[None]
        return self._losses.products(question.rows, gradients * rates)

    def _load(self, place: int) -> Tensor:
        """Give the model the weights of a checkpoint; return the learning rate of every number among the parameters."""
        checkpoint = self._checkpoints.items[place]
        checkpoint.load(self._model)
        rates = [
            torch.full_like(value, checkpoint.rates.get(name, 0.0)).reshape(-1)
            for name, value in self._losses.parameters().items()
        ]
        return torch.cat(rates)

    def _told(self) -> dict[str, Any]:
        return {
            "method": "TracIn",
            "steps": [checkpoint.step for checkpoint in self._checkpoints.items],
            "rates": [sorted(set(checkpoint.rates.values())) for checkpoint in self._checkpoints.items],
            "parameters": self._losses.names,
            "data": self._checkpoints.data,
        }

    def _depends_on(self) -> dict[str, Any]:
        return {
            **self._told(),
            "rates": [checkpoint.rates for checkpoint in self._checkpoints.items],
            "checkpoints": [digest_of(checkpoint.read()) for checkpoint in self._checkpoints.items],
            "architecture": plain_text(self._model),
            "loss": plain_text(self._recipe.loss),
            "memory": self._losses.memory,
        }

    def _scores(self, values: np.ndarray, question: Question) -> Scores:
        count = len(self._checkpoints.items)
        return Scores(
            values,
            ids=question.ids,
            path=f"TracIn (Pruthi et al. 2020), {count} checkpoint{'s' if count > 1 else ''}{question.path}",
            provenance={**self._told(), "queries": question.depends_on()["queries"]},
        )


def _chosen(total: int, checkpoints: int, every: int | None) -> list[int]:
    """Return the steps before which a checkpoint is taken: the last of each of equal parts of the training."""
    if every is not None:
        if not 1 <= every <= total:
            raise BaselineError(f"every={every}: the training has {total} steps. Give a number from 1 to {total}.")
        return list(range(every - 1, total, every))
    if not 1 <= checkpoints <= total:
        raise BaselineError(
            f"checkpoints={checkpoints}: the training has {total} steps. Give a number from 1 to {total}."
        )
    return [(place + 1) * total // checkpoints - 1 for place in range(checkpoints)]
