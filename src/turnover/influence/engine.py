"""`Influence`: what the training instances do to predictions."""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from turnover.batches import Batch, Loss, null_ids
from turnover.errors import InfluenceError, TurnOverWarning
from turnover.ids import Ids, Names
from turnover.progress import progress_bar
from turnover.scores import OutOfSample, Scores, Top
from turnover.tables import faded, html_table

from ._answers import every_pair, mean_over_queries, store_pairs, top_of_each, warn_of_nan
from ._data import first_of_each
from ._held_out import held_out_predictions
from ._instances import Instances
from ._question import AtLabel, open_question
from ._self_influence import self_influence, warn_of_weak_signal
from ._setup import Options, Setup
from ._views import RowViews
from .blocks import NULL_IDS
from .estimate import EstimatorOption, TokenScores, as_estimator
from .execution import Executor, as_executor
from .measures import Measure, MeasureOption
from .members import open_members

_DEFAULT_MEMORY = 256 * 2**20


def _listed(sites: Any) -> tuple[str, ...] | None:
    """Return sites as a tuple; a single one, or what is none, alone, so that it is named where they are checked."""
    if sites is None:
        return None
    return tuple(sites) if isinstance(sites, Iterable) and not isinstance(sites, str) else (sites,)


class Influence:
    """Influence of training instances on predictions; positive means the instance helps.

    Args:
        model: a trained model, wrapped before its training or not, or several (wrapped ones with different mask seeds).
            Of one that is sharded over processes every process makes a whole copy; all of them must do so.
        loss: `loss(outputs, targets) -> [rows]`; None: cross-entropy for integer targets, squared error for floats.
        train: the training data, with ids for a wrapped model; the default for `ids` and for the labels of `top`.
        estimator: of questions about queries. "tod": the original estimator, loss of the flipped subnetwork minus that
            of the kept one. "curvature": influence functions with K-FAC curvature, also for models without masks.
            "auto": "curvature"; without `train`, or with options that say how masks are compared (against, center,
            sites), "tod". Or an object with options of its own, `turnover.influence.Curvature(...)`.
        against: compare the flipped subnetwork with the kept one ("keep") or with the full network ("full").
        measure: "loss", "probability", "margin" (log-odds of the target), or a function, higher meaning better.
        center: subtract the mean score of null ids, query by query.
        sites: flip only these sites; None: all.
        targets: name of the target in dict batches; None: "labels", else "label".
        device: move the model there; None: where it is.
        dtype: run under autocast in this type, torch.bfloat16 for example.
        memory: bytes that a chunk of work may take; None: 256 MiB.
        compile: run the model through torch.compile.
        executor: computes the tiles; None: this process. `turnover.influence.ProcessExecutor(2)`: worker processes;
            `turnover.integrations.RayExecutor(address=...)`: a cluster. See docs/scale.md.
        nulls: number of null ids whose scores tell what noise looks like; None: in proportion to the job, 2 to 1,024.
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
        loss: Loss | None = None,
        train: Any = None,
        estimator: EstimatorOption = "auto",
        against: Literal["keep", "full"] = "keep",
        measure: MeasureOption = "loss",
        center: bool = True,
        sites: Sequence[str] | None = None,
        targets: str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        memory: int | None = None,
        compile: bool = False,
        executor: Executor | None = None,
        nulls: int | None = None,
        names: Mapping[int, Any] | Iterable[Any] | None = None,
    ) -> None:
        """Check everything that can be checked before the first query."""
        if not isinstance(center, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InfluenceError(f"center must be True or False, got {center!r}.")
        if targets is not None and (not isinstance(targets, str) or not targets):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InfluenceError(f"targets must be the name of the target in dict batches, got {targets!r}.")
        members = open_members(model, device)
        if hint := members.hint:
            warnings.warn(hint, TurnOverWarning, stacklevel=2)
        of_masks = {
            "against='full'": against == "full",
            "sites=": sites is not None,
            "center=False": not center,
        }
        options = Options(
            against=against,
            center=center,
            sites=_listed(sites),
            dtype=dtype,
            memory=_DEFAULT_MEMORY if memory is None else memory,
            compile=compile,
            estimator=as_estimator(
                estimator,
                has_train=train is not None,
                has_masks=members.have_masks,
                of_masks=[name for name, is_given in of_masks.items() if is_given],
            ),
            nulls=nulls,
        )
        self._instances = Instances(train, names, targets=targets, numbered=not members.have_masks)
        self._setup = Setup(members, Measure(measure, loss), options, self._instances, as_executor(executor))

    def __repr__(self) -> str:
        """Return model, estimator and training data in one line."""
        facts = [f"{name}={value!r}" if name == "estimator" else f"{name}={value}" for name, value in self._facts]
        return f"Influence({', '.join(facts)})"

    def _repr_html_(self) -> str:
        """Return the same as a notebook shows it."""
        return html_table("Influence", [[faded(name), value] for name, value in self._facts])

    @property
    def _facts(self) -> list[tuple[str, str]]:
        setup, models = self._setup, self.models
        length = None if setup.train is None else setup.train.length
        kind = type(models[0]).__name__ + (f" × {len(models)}" if len(models) > 1 else "")
        train = "none" if setup.train is None else "a stream" if length is None else f"{length:,} rows"
        return [
            ("model", kind),
            ("estimator", setup.options.estimator.name),
            ("measure", setup.measure.unit),
            ("train", train),
        ]

    # What it was given

    @property
    def models(self) -> tuple[nn.Module, ...]:
        """Return the models as they were given."""
        return tuple(member.model for member in self._setup.members.whole)

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
        self._setup.fit_folder = folder

    def keep_fit(self, folder: str | os.PathLike[str]) -> None:
        """Write what the estimator fitted into a folder, so that the first question of a later process need not wait.

        An estimator that keeps nothing (all but "curvature") writes nothing.

        Args:
            folder: where to write; it is made where it is missing.

        Raises:
            StoreError: the folder cannot be written to.
        """
        self._setup.keep_fit(folder)

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
        with self._setup.computing():
            question = open_question(self._setup, queries, at_label, self._instances.chosen(ids), out=out)
            with progress_bar(question.pairs, progress, "pairs") as bar:
                if out is not None:
                    return store_pairs(out, question, bar)
                scores = every_pair(question, bar)
        warn_of_nan(scores)
        return scores.seen_by(RowViews(self._setup.train, queries, question.names))

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
        with self._setup.computing():
            question = open_question(self._setup, queries, at_label, self._instances.chosen(ids))
            with progress_bar(question.pairs, progress, "pairs") as bar:
                scores = mean_over_queries(question, bar)
        warn_of_nan(scores)
        return scores.seen_by(RowViews(self._setup.train))

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
        with self._setup.computing():
            question = open_question(self._setup, queries, at_label, unique_ids)
            with progress_bar(question.pairs, progress, "pairs") as bar:
                top = top_of_each(question, bar, k=k, label=label, labels=id_labels)
        return top.seen_by(RowViews(self._setup.train, queries, question.names))

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
        with self._setup.computing():
            question = open_question(self._setup, queries, at_label, chosen)
            fit = question.estimate
            if not isinstance(fit, TokenScores):
                raise InfluenceError(
                    f"estimator={question.options.estimator.name!r} has no scores of training tokens: all tokens of an "
                    "instance share one mask. Give estimator='curvature'."
                )
            rows = [batch.row(int(place)) for batch in train.batches() for place in _rows_with(batch, chosen)]
            if any(row.target is None or row.target.dim() != 2 or row.target.is_floating_point() for row in rows):
                raise InfluenceError(
                    "training rows have one label each, not one per token. Give rows of tokens with a label each, as "
                    "turnover.batches.Sequences does."
                )
            return tuple(fit.token_scores(row, question.queries) for row in rows)

    def null(self, queries: Any, *, n: int = NULL_IDS, at_label: AtLabel | None = None) -> Scores:
        """Return Scores [n, queries] of null ids, which were never trained: what pure noise looks like.

        Raises:
            InfluenceError: the estimator has no null distribution.
        """
        estimator = self._setup.options.estimator
        if not estimator.needs_masks:
            raise InfluenceError(
                f"estimator={estimator.name!r} has no null distribution: a row without training gets a score, too. "
                "Give estimator='tod'; intervals come from replicas (Scores.interval)."
            )
        with self._setup.computing():
            question = open_question(self._setup, queries, at_label, null_ids(n), nulls=NULL_IDS)
            return every_pair(question, progress_bar(question.pairs, False, "pairs"))

    # Questions about training rows

    def self_influence(self, data: Any = None, *, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: what each training row does to its own prediction, in one pass over the data.

        Of a model with masks that is the loss of a row's flipped subnetwork minus that of the kept one. Of a finished
        model it is by influence functions, to first order, in units of the loss. `Scores.method` says which.

        With `center` the mean score of null ids, one on each row, is subtracted from all; their standard deviation is
        the standard error of a single model. Where the loss has one value per token, [rows, tokens], a row's score is
        the mean of its tokens, and `Scores.tokens(row)` gives theirs.

        Args:
            data: rows with ids; None: `train`.
            progress: show a bar; None: on a terminal.
        """
        rows = self._instances.rows(data)
        scores = self_influence(self._setup, rows, progress)
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
        self._setup.need_masks("a held-out prediction")
        rows = self._instances.rows(data)
        predictions = held_out_predictions(self._setup, rows, predict, references, progress)
        return predictions.seen_by(RowViews(rows))


def _rows_with(batch: Batch, ids: Tensor) -> list[int]:
    """Return the places of rows of these instances in a batch."""
    return [] if batch.ids is None else torch.nonzero(torch.isin(batch.ids.cpu(), ids)).flatten().tolist()
