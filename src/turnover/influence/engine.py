"""`Influence`: what the training instances do to predictions."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from turnover._version import __version__
from turnover.batches import Batch, Loss, null_ids
from turnover.errors import InfluenceError
from turnover.ids import Ids, Names
from turnover.progress import progress_bar
from turnover.scores import OutOfSample, Scores, TokenScores, Top
from turnover.tables import faded, html_table

from ._answers import (
    AtLabel,
    Question,
    every_pair,
    kept_fit,
    mean_over_queries,
    open_queries,
    store_pairs,
    top_of_each,
    warn_of_nan,
)
from ._rows import Instances, RowViews, TrainRows, first_of_each
from .curvature import Curvature
from .ensemble import Ensemble
from .estimators import NULL_IDS, Estimator, Fitted, average
from .executors import Executor
from .fingerprint import fingerprint_of
from .measures import Measure, MeasureOption
from .turnover_dropout import TurnOver, held_out_predictions, warn_of_weak_signal

EstimatorOption = Literal["auto", "tod", "curvature"] | Estimator
# Chosen on trainings of digits, SST-2 and Yahoo Answers that are not reported (docs/evidence.md).
_RECOMMENDED = Curvature(damping=5.0, mean_damping=5000.0)


def _as_estimator(given: Any, *, has_train: bool) -> Estimator:
    """Return the estimator that was named, or raise for what is none."""
    named: dict[Any, Any] = {
        "auto": _RECOMMENDED if has_train else TurnOver(),
        "tod": TurnOver(),
        "curvature": Curvature(),
    }
    estimator = named.get(given, given) if isinstance(given, str) else given
    if isinstance(estimator, type):
        raise InfluenceError(
            f"estimator= must be an object, got the class {estimator.__name__}. Call it: {estimator.__name__}()."
        )
    if isinstance(estimator, str) or not all(hasattr(estimator, name) for name in ("fit", "check", "as_data")):
        raise InfluenceError(
            f"estimator={given!r} is unknown. Give 'auto', 'tod', 'curvature', or one with options of its own: "
            "turnover.influence.Curvature(...), turnover.influence.TurnOver(...)."
        )
    return estimator


class Influence:
    """Influence of training instances on predictions; positive means the instance helps.

    Args:
        model: a trained model, wrapped before its training or not, or several (wrapped ones with different mask seeds).
            Of one that is sharded over processes every process makes a whole copy; all of them must do so.
        train: the training data, with ids for a wrapped model; the default for `ids` and for the labels of `top`.
        loss: `loss(outputs, targets) -> [rows]`; None: cross-entropy for integer targets, squared error for floats.
        estimator: of questions about queries. "tod": the original estimator, loss of the flipped subnetwork minus that
            of the kept one. "curvature": influence functions with K-FAC curvature, also for models without masks.
            "auto": "curvature"; without `train` "tod". Or an object with options of its own,
            `turnover.influence.Curvature(...)` or `turnover.influence.TurnOver(...)`.
        measure: "loss", "probability", "margin" (log-odds of the target), or a function, higher meaning better.
        targets: name of the target in dict batches; None: "labels", else "label".
        device: move the model there; None: where it is.
        dtype: run under autocast in this type, torch.bfloat16 for example.
        memory: bytes that a chunk of work may take; None: 256 MiB.
        compile: run the model through torch.compile.
        executor: computes the tiles; None: this process. `turnover.influence.ProcessExecutor(2)`: worker processes;
            `turnover.integrations.RayExecutor(address=...)`: a cluster. See docs/scale.md.
        names: what instances are called in results, strings or integers: by id, or for ids that are row numbers those
            of rows 0, 1, 2, …, such as the index of a DataFrame. None: the strings of the id or groups column of
            `train`, else ids.

    Example:
        >>> import torch, turnover
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances(range(8)):
        ...     _ = net(torch.randn(8, 4))  # training goes here
        >>> scores = turnover.Influence(net).pairwise((torch.randn(3, 4), torch.tensor([0, 1, 0])), ids=range(8))
        >>> scores.values.shape
        (8, 3)
    """

    def __init__(
        self,
        model: nn.Module | Sequence[nn.Module],
        *,
        train: Any = None,
        loss: Loss | None = None,
        estimator: EstimatorOption = "auto",
        measure: MeasureOption = "loss",
        targets: str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        memory: int | None = None,
        compile: bool = False,
        executor: Executor | None = None,
        names: Mapping[int, Any] | Iterable[Any] | None = None,
    ) -> None:
        """Check everything that can be checked before the first query."""
        if targets is not None and (not isinstance(targets, str) or not targets):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InfluenceError(f"targets must be the name of the target in dict batches, got {targets!r}.")
        self._estimator = _as_estimator(estimator, has_train=train is not None)
        how = {"device": device, "dtype": dtype, "memory": memory, "compile": compile, "executor": executor}
        self._ensemble = Ensemble(model, measure=Measure(measure, loss), **how)
        self._instances = Instances(train, names, targets=targets, numbered=not self._ensemble.have_masks)
        self._estimator.check(self._ensemble, self._instances.train)
        # What was fitted, with the checksums of the weights that it was fitted on, and where they are.
        self._fit: tuple[list[str], list[int], Fitted] | None = None
        self._fit_folder: str | os.PathLike[str] | None = None

    def __repr__(self) -> str:
        """Return model, estimator and training data in one line."""
        facts = [f"{name}={value!r}" if name == "estimator" else f"{name}={value}" for name, value in self._facts]
        return f"Influence({', '.join(facts)})"

    def _repr_html_(self) -> str:
        return html_table("Influence", [[faded(name), value] for name, value in self._facts])

    @property
    def _facts(self) -> list[tuple[str, str]]:
        rows, models = self._instances.train, self.models
        length = None if rows is None else rows.length
        kind = type(models[0]).__name__ + (f" × {len(models)}" if len(models) > 1 else "")
        train = "none" if rows is None else "a stream" if length is None else f"{length:,} rows"
        return [
            ("model", kind),
            ("estimator", self._estimator.name),
            ("measure", self._ensemble.measure.unit),
            ("train", train),
        ]

    # What it was given

    @property
    def models(self) -> tuple[nn.Module, ...]:
        """Return the models as they were given."""
        return tuple(member.model for member in self._ensemble.whole)

    @property
    def targets(self) -> str | None:
        """Return the name of the target in dict batches; None: "labels", else "label"."""
        return self._instances.targets

    @property
    def train_ids(self) -> Ids:
        """Return every training instance's id once, as it was given, in the order of `train`."""
        return self.names.shown(self.mask_ids())

    @property
    def names(self) -> Names:
        """Return what instances are called that are not called by their mask ids."""
        return self._instances.names

    def mask_ids(self, ids: Any = None) -> np.ndarray:
        """Return the integers that the masks of instances are made of, int64 [ids].

        Args:
            ids: as they were given, or mask ids; None: those of `train`.

        Raises:
            InfluenceError: there is no such instance; near names are suggested.
        """
        return self._instances.chosen(ids).numpy()

    @property
    def train_labels(self) -> np.ndarray:
        """Return the label of every training instance, in the order of `train_ids`."""
        return self._instances.labels(self._instances.chosen(None))

    # What the estimator fitted

    def take_fit(self, folder: str | os.PathLike[str]) -> None:
        """Let the estimator be taken from where `keep_fit` wrote it, when a question first needs it.

        What is not there, damaged, or of other weights, rows or options, is fitted as usual.

        Args:
            folder: where `keep_fit` wrote it.
        """
        self._fit_folder = folder

    def keep_fit(self, folder: str | os.PathLike[str]) -> None:
        """Write what the estimator fitted into a folder, so that the first question of a later process need not wait.

        "tod" fits nothing, and nothing is written.

        Args:
            folder: where to write; it is made where it is missing.

        Raises:
            StoreError: the folder cannot be written to.
        """
        with self._ensemble.computing():
            provenance = self._provenance([], self._instances.chosen(None))
            if arrays := self._fitted(provenance, folder).arrays():
                kept_fit(folder, provenance).write(arrays)

    def _fitted(self, provenance: dict[str, Any], folder: str | os.PathLike[str] | None = None) -> Fitted:
        """Return the estimator, fitted once, as long as the weights stay; or as an earlier run kept it."""
        folder = self._fit_folder if folder is None else folder
        weights, addresses = provenance["weights"], self._ensemble.addresses
        if self._fit is None or self._fit[:2] != (weights, addresses):
            kept = None if folder is None else kept_fit(folder, provenance).read()
            fitted = self._estimator.fit(self._ensemble, self._instances.train, kept=kept)
            self._fit = weights, addresses, fitted
        return self._fit[2]

    def _provenance(
        self,
        queries: Sequence[Batch],
        ids: Tensor,
        *,
        estimator: Estimator | None = None,
        rows: TrainRows | None = None,
    ) -> dict[str, Any]:
        """Return all that scores depend on, as JSON data."""
        ensemble, dtype = self._ensemble, self._ensemble.whole[0].dtype
        return {
            "turnover": __version__,
            "recipes": [member.recipe for member in ensemble.whole],
            "weights": ensemble.digests(),
            "options": {
                "dtype": None if dtype is None else str(dtype),
                **(estimator or self._estimator).as_data(rows or self._instances.train),
            },
            "measure": _identity(ensemble.measure.kind),
            "loss": _identity(ensemble.measure.loss),
            "ids": fingerprint_of(ids),
            "queries": fingerprint_of([(query.args, query.kwargs, query.target) for query in queries]),
        }

    def _asked(
        self,
        queries: Any,
        ids: Tensor,
        at_label: AtLabel | None,
        *,
        out: str | os.PathLike[str] | None = None,
        of_mean: bool = False,
    ) -> Question:
        """Return a question, opened; what can fail before the work, fails here."""
        if len(ids) == 0:
            raise InfluenceError("no instances are left to score. Give at least one id.")
        opened = open_queries(queries, self._ensemble, targets=self._instances.targets, at_label=at_label)
        provenance = self._provenance(opened, ids)
        fitted = self._fitted(provenance, out)
        blocks = fitted.mean(opened, ids) if of_mean else fitted.score(opened, ids)
        return Question(opened, ids, self._ensemble, fitted, blocks, provenance, self._instances.names)

    # Questions about queries

    def pairwise(
        self,
        queries: Any,
        *,
        ids: Any = None,
        at_label: AtLabel | None = None,
        out: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
    ) -> Scores:
        """Return Scores [instances, queries]: what each training instance does to each query.

        Args:
            queries: tensors, a tuple (x, y), a dict, a Dataset or a DataLoader.
            ids: which instances; None: all of `train`.
            at_label: judge the queries at their "given" or "predicted" label; None: given where they have one.
            out: a folder; scores are written there tile by tile, and an interrupted run is resumed.
            progress: show a bar; None: on a terminal.
        """
        with self._ensemble.computing():
            question = self._asked(queries, self._instances.chosen(ids), at_label, out=out)
            with progress_bar(question.pairs, progress, "pairs") as bar:
                if out is not None:
                    return store_pairs(out, question, bar)
                scores = every_pair(question, bar)
        warn_of_nan(scores)
        return scores.seen_by(RowViews(self._instances.train, queries, question.query_names))

    def mean(
        self, queries: Any, *, ids: Any = None, at_label: AtLabel | None = None, progress: bool | None = None
    ) -> Scores:
        """Return Scores [instances]: the mean influence of each training instance on a set of queries.

        Args:
            queries: as for `pairwise`.
            ids: as for `pairwise`.
            at_label: as for `pairwise`.
            progress: as for `pairwise`.
        """
        with self._ensemble.computing():
            question = self._asked(queries, self._instances.chosen(ids), at_label, of_mean=True)
            with progress_bar(question.pairs, progress, "pairs") as bar:
                scores = mean_over_queries(question, bar)
        warn_of_nan(scores)
        return scores.seen_by(RowViews(self._instances.train))

    def top(
        self,
        queries: Any,
        *,
        k: int = 10,
        ids: Any = None,
        labels: Any = None,
        label: Any = None,
        exclude: Any = None,
        at_label: AtLabel | None = None,
        progress: bool | None = None,
    ) -> Top:
        """Return the k most helpful and the k most harmful instances of each query; not all pairs are ever held.

        Args:
            queries: as for `pairwise`.
            k: how many of each.
            ids: which instances; None: all of `train`.
            labels: the label of each instance, in the order of `ids`; None: those of `train`.
            label: only instances of this label, or "predicted": of the label that the full network gives the query.
            exclude: ids to skip.
            at_label: as for `pairwise`.
            progress: as for `pairwise`.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InfluenceError(f"k must be an integer >= 1, got {k!r}. Give k=10.")
        unique_ids = first_of_each(self._instances.chosen(ids))
        id_labels = np.empty(0) if label is None else self._instances.labels(unique_ids, labels)
        if exclude is not None and len(exclude) > 0:
            included = ~torch.isin(unique_ids, self._instances.mask_ids(exclude))
            unique_ids = unique_ids[included]
            id_labels = id_labels if label is None else id_labels[included.numpy()]
        with self._ensemble.computing():
            question = self._asked(queries, unique_ids, at_label)
            with progress_bar(question.pairs, progress, "pairs") as bar:
                top = top_of_each(question, bar, k=k, label=label, labels=id_labels)
        return top.seen_by(RowViews(self._instances.train, queries, question.query_names))

    def training_tokens(self, queries: Any, id: int, *, at_label: AtLabel | None = None) -> tuple[np.ndarray, ...]:
        """Return which tokens of a training instance carry its influence on queries.

        Its score is the sum of these numbers over its tokens, exactly: they say which part of a document raised the
        probability of a span of a query (`turnover.influence.span_queries`).

        Args:
            queries: as for `pairwise`.
            id: the training instance.
            at_label: as for `pairwise`.

        Returns:
            float32 [tokens, queries] for each row of the instance, in the order of `train`. Numbers stand where the
            label does, at the position that predicts it; NaN: it does not count.

        Raises:
            InfluenceError: the estimator does not add up scores over tokens, or training rows have no tokens.
        """
        chosen, train = self._instances.chosen([id]), self._instances.train
        if train is None:
            raise InfluenceError("which tokens? Give the training data: Influence(model, train=data).")
        with self._ensemble.computing():
            opened = open_queries(queries, self._ensemble, targets=self.targets, at_label=at_label)
            fitted = self._fitted(self._provenance(opened, chosen))
            rows = [batch.row(int(place)) for batch in train.batches() for place in _rows_with(batch, chosen)]
            if any(row.target is None or row.target.dim() != 2 or row.target.is_floating_point() for row in rows):
                raise InfluenceError(
                    "training rows have one label each, not one per token. Give rows of tokens with a label "
                    "each: (input_ids, labels, id)."
                )
            return tuple(fitted.tokens(row, opened) for row in rows)

    def null(self, queries: Any, *, n: int = NULL_IDS, at_label: AtLabel | None = None) -> Scores:
        """Return Scores [n, queries] of null ids, which were never trained: what pure noise looks like.

        Raises:
            InfluenceError: the estimator has no null distribution.
        """
        self._estimator.check_null()
        with self._ensemble.computing():
            question = self._asked(queries, null_ids(n), at_label)
            return every_pair(question, progress_bar(question.pairs, False, "pairs"))

    # Questions about training rows

    def self_influence(self, data: Any = None, *, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: what each training row does to its own prediction, in one pass over the data.

        Of a model with masks that is the loss of a row's flipped subnetwork minus that of the kept one. Of a finished
        model it is by influence functions, to first order, in units of the loss. `Scores.method` says which.

        Unless `TurnOver(center=False)` the mean score of null ids, one on each row, is subtracted from all; their
        standard deviation is the standard error of a single model. Where the loss has one value per token, [rows,
        tokens], a row's score is the mean of its tokens, and `Scores.tokens(row)` gives theirs.

        Args:
            data: rows with ids; None: `train`.
            progress: show a bar; None: on a terminal.
        """
        rows = self._instances.rows(data)
        estimator, measure = self._estimator, self._ensemble.measure
        if self._ensemble.have_masks and not isinstance(estimator, TurnOver):
            estimator = TurnOver()
        elif not self._ensemble.have_masks and measure.kind != "loss":
            raise InfluenceError(
                f"self-influence of a finished model is that of its loss, got measure={measure.unit!r}. Give "
                "measure='loss', or wrap the model before training (turnover.wrap)."
            )
        of_masks = self._ensemble.have_masks
        with self._ensemble.computing(), progress_bar(rows.length, progress, "rows") as bar:
            if of_masks:
                fitted = estimator.fit(self._ensemble, None)
            else:
                fitted = self._fitted(self._provenance([], torch.empty(0)))
            own = fitted.own(rows, bar.update)
            provenance = self._provenance([], own.ids, estimator=estimator, rows=rows)
        values, errors = average(own.values)
        scores = Scores(
            values=values,
            **self._instances.named(own.ids.numpy(), rows),
            stderr=errors,
            offset=own.offset,
            null=own.null,
            unit=measure.unit,
            path=own.path,
            replicas=len(own.values),
            provenance=provenance,
        )
        if own.tokens:
            scores = scores.with_tokens(TokenScores.of_rows(own.tokens))
        warn_of_nan(scores)
        warn_of_weak_signal(scores)
        return scores.seen_by(RowViews(rows))

    def out_of_sample(
        self,
        data: Any = None,
        *,
        predict: Callable[[Tensor], Tensor] | None = None,
        references: int = 0,
        progress: bool | None = None,
    ) -> OutOfSample:
        """Return the held-out prediction of every row, that of its flipped subnetwork.

        Args:
            data: rows with ids; None: `train`.
            predict: maps outputs to predictions; None: softmax over the last dimension, or the outputs themselves
                where targets are floats.
            references: number of reference examples for the mask-bias correction: other training rows on which is
                measured what a mask does to any output. 0: no correction, as in the paper.
            progress: show a bar; None: on a terminal.

        Raises:
            InfluenceError: there are no rows or no ids, or references cannot be had.
        """
        self._ensemble.need_masks("a held-out prediction")
        rows, instances = self._instances.rows(data), self._instances
        with self._ensemble.computing():
            predictions = held_out_predictions(
                self._ensemble,
                rows,
                predict,
                references_from=instances.train or rows,
                references=references,
                named=partial(instances.named, rows=rows),
                progress=progress,
            )
        return predictions.seen_by(RowViews(rows))


def _rows_with(batch: Batch, ids: Tensor) -> list[int]:
    return [] if batch.ids is None else torch.nonzero(torch.isin(batch.ids.cpu(), ids)).flatten().tolist()


def _identity(function: Any) -> Any:
    """Return what identifies a measure or loss across processes: its name, or its code and constants."""
    return function if function is None or isinstance(function, str) else fingerprint_of(function)
