"""`Influence`: what the training instances do to predictions, with forward passes only."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from turnover._version import __version__
from turnover.batches import Batch, Loss, null_ids
from turnover.errors import InfluenceError, NotWrappedError, TurnOverWarning
from turnover.ids import Ids, Names, instance_id_of, strings_in
from turnover.layers import as_ids
from turnover.progress import progress_bar
from turnover.scores import OutOfSample, Scores, Top
from turnover.storage import KeptArrays
from turnover.tables import faded, html_table
from turnover.wrapping import masks_beside

from ._answers import (
    as_stored,
    every_pair,
    mean_over_queries,
    null_of_rows,
    store_pairs,
    stored_identity,
    top_of_each,
    warn_of_nan,
)
from ._data import TrainRows, first_of_each, single_queries
from ._question import Options, Question, explained_failures
from ._row_scores import held_out_predictions, self_influence, warn_of_other_ids, warn_of_weak_signal
from ._views import RowViews
from .blocks import NULL_IDS, average, null_count
from .estimate import (
    EstimatorOption,
    Fit,
    MaskBias,
    Original,
    OwnScores,
    TokenScores,
    as_estimator,
    check_references,
    check_renamed,
)
from .execution import Executor, LocalExecutor, as_workers, is_remote
from .fingerprint import fingerprint_of
from .measures import Measure, MeasureOption
from .members import Member, evaluating, open_members
from .packing import Shared
from .paths import Forward, Route, Routes, with_predicted_target

_AtLabel = Literal["given", "predicted"]
_DEFAULT_MEMORY = 256 * 2**20


class Influence:
    """Influence of training instances on predictions; positive means the instance helps.

    Args:
        model: a trained model, wrapped before its training or not, or several (wrapped ones with different mask seeds).
            Of one that is sharded over processes every process makes a whole copy; all of them must do so.
        loss: `loss(outputs, targets) -> [rows]`; None: cross-entropy for integer targets, squared error for floats.
        train: the training data, with ids for a wrapped model; the default for `ids` and for the labels of `top`.
        estimator: of questions about queries. "tod": the original estimator, loss of the flipped subnetwork minus that
            of the kept one. "ridge": its denoised form. "curvature": influence functions with K-FAC curvature, also
            for models without masks. "auto": "curvature"; without `train`, or with options that say how masks are
            compared (against, center, control, sites), "tod". Or an object with options of its own,
            `turnover.influence.Curvature(...)` or `turnover.influence.Ridge(...)`.
        against: compare the flipped subnetwork with the kept one ("keep") or with the full network ("full").
        measure: "loss", "probability", "margin" (log-odds of the target), or a function, higher meaning better.
        center: subtract the mean score of null ids, query by query.
        control: "linear": subtract what masks alone explain of a score, to first order; less noise.
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
        control: Literal["linear"] | None = None,
        sites: Sequence[str] | None = None,
        targets: str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        memory: int | None = None,
        compile: bool = False,
        executor: Executor | None = None,
        nulls: int | None = None,
        names: Mapping[int, Any] | Iterable[Any] | None = None,
        **renamed: Any,
    ) -> None:
        """Check everything that can be checked before the first query."""
        check_renamed(renamed)
        self._members = open_members(model, device)
        if hint := self._hint:
            warnings.warn(hint, TurnOverWarning, stacklevel=2)
        of_masks = {
            "against='full'": against == "full",
            "control='linear'": control is not None,
            "sites=": sites is not None,
            "center=False": not center,
        }
        self._options = Options(
            against=against,
            center=center,
            sites=None if sites is None else (sites,) if isinstance(sites, str) else tuple(sites),
            dtype=dtype,
            memory=_DEFAULT_MEMORY if memory is None else memory,
            compile=compile,
            estimator=as_estimator(
                estimator,
                has_train=train is not None,
                has_masks=self._members.have_masks,
                of_masks=[name for name, is_given in of_masks.items() if is_given],
            ),
            control=control,
            nulls=nulls,
        )
        self._measure = Measure(measure, loss)
        for member in self._members:
            member.site_numbers(self._options.sites)
        self._targets = targets
        self._train = None if train is None else TrainRows(train, targets, numbered=not self._members.have_masks)
        self._given_names, self._are_all_named = Names.given(names), names is not None
        self._executor = executor or LocalExecutor()
        self._routes = Routes(self._options.memory, compile=compile)
        self._fit: tuple[list[str], Fit] | None = None
        self._fit_folder: str | os.PathLike[str] | None = None
        self._ids_checked = False

    def __repr__(self) -> str:
        """Return model, estimator and training data in one line."""
        facts = [repr(value) if name == "estimator" else value for name, value in self._facts]
        names = [name for name, _ in self._facts]
        return f"Influence({', '.join(f'{name}={fact}' for name, fact in zip(names, facts, strict=True))})"

    def _repr_html_(self) -> str:
        """Return the same as a notebook shows it."""
        return html_table("Influence", [[faded(name), value] for name, value in self._facts])

    @property
    def _facts(self) -> list[tuple[str, str]]:
        models, length = self.models, None if self._train is None else self._train.length
        kind = type(models[0]).__name__ + (f" × {len(models)}" if len(models) > 1 else "")
        train = "none" if self._train is None else "a stream" if length is None else f"{length:,} rows"
        estimator = self._options.estimator.name
        return [("model", kind), ("estimator", estimator), ("measure", self._measure.unit), ("train", train)]

    # What it was given

    @property
    def models(self) -> tuple[nn.Module, ...]:
        """Return the models as they were given."""
        return tuple(member.model for member in self._members.whole)

    @property
    def targets(self) -> str | None:
        """Return the name of the target in dict batches; None: "labels", else "label"."""
        return self._targets

    @property
    def train_ids(self) -> Ids:
        """Return every training instance's id once, as it was given, in the order of `train`."""
        return self.names.shown(self.mask_ids())

    @property
    def names(self) -> Names:
        """Return what instances are called that are not called by their mask ids."""
        return self._given_names if self._train is None else self._train.names | self._given_names

    def mask_ids(self, ids: Any = None) -> np.ndarray:
        """Return the integers that the masks of instances are made of, int64 [ids].

        Args:
            ids: as they were given, or mask ids; None: those of `train`.

        Raises:
            InfluenceError: there is no such instance; near names are suggested.
        """
        return self._ids(ids).numpy()

    @property
    def train_labels(self) -> np.ndarray:
        """Return the label of every training instance, in the order of `train_ids`."""
        return self._labels(None, self._ids(None))

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

        An estimator that keeps nothing (all but "curvature") writes nothing.

        Args:
            folder: where to write; it is made where it is missing.

        Raises:
            StoreError: the folder cannot be written to.
        """
        if not self._options.estimator.keeps_fit:
            return
        with evaluating(self._members):
            members = list(self._members)
            weights = [member.digest() for member in members]
            kept = self._kept(folder, self._provenance([], self._ids(None), self._options, weights) | self._of_train)
            kept.write(self._fitted(self._forwards(members), weights, kept).question(0).arrays())

    @property
    def _of_train(self) -> dict[str, str]:
        train = self._train if self._options.estimator.needs_train else None
        return {} if train is None else {"train": train.digest}

    # Questions about queries

    def pairwise(
        self,
        queries: Any,
        *,
        ids: Any = None,
        at_label: _AtLabel | None = None,
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
        with self._computing():
            question = self._open(queries, at_label, self._ids(ids), out=out)
            with progress_bar(question.pairs_to_compute, progress, "pairs") as bar:
                if out is not None:
                    return store_pairs(out, question, bar)
                scores = every_pair(question, bar)
        warn_of_nan(scores)
        return scores.seen_by(RowViews(self._train, queries, question.names))

    def mean(
        self, queries: Any, *, ids: Any = None, at_label: _AtLabel | None = None, progress: bool | None = None
    ) -> Scores:
        """Return Scores [instances]: the mean influence of each training instance on a set of queries.

        Args:
            queries: as for `pairwise`.
            ids: as for `pairwise`.
            at_label: as for `pairwise`.
            progress: as for `pairwise`.
        """
        with self._computing():
            question = self._open(queries, at_label, self._ids(ids))
            with progress_bar(question.pairs_to_compute, progress, "pairs") as bar:
                scores = mean_over_queries(question, bar)
        warn_of_nan(scores)
        return scores.seen_by(RowViews(self._train))

    def top(
        self,
        queries: Any,
        *,
        k: int = 10,
        ids: Any = None,
        labels: Any = None,
        label: Any = None,
        exclude: Any = None,
        at_label: _AtLabel | None = None,
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
        unique_ids = first_of_each(self._ids(ids))
        id_labels = np.empty(0) if label is None else self._labels(labels, unique_ids)
        if exclude is not None and len(exclude) > 0:
            included = ~torch.isin(unique_ids, as_ids(self._as_mask_ids(exclude)))
            unique_ids = unique_ids[included]
            id_labels = id_labels if label is None else id_labels[included.numpy()]
        with self._computing():
            question = self._open(queries, at_label, unique_ids)
            with progress_bar(question.pairs_to_compute, progress, "pairs") as bar:
                only = self._only(label, id_labels, question)
                top = top_of_each(question, bar, k=k, labels=id_labels, only=only)
        return top.seen_by(RowViews(self._train, queries, question.names))

    def training_tokens(self, queries: Any, id: int, *, at_label: _AtLabel | None = None) -> tuple[np.ndarray, ...]:
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
        chosen = self._ids([id])
        if self._train is None:
            raise InfluenceError("which tokens? Give the training data: Influence(model, train=data).")
        with self._computing():
            question = self._open(queries, at_label, chosen)
            fit = question.estimate
            if not isinstance(fit, TokenScores):
                raise InfluenceError(
                    f"estimator={self._options.estimator.name!r} has no scores of training tokens: all tokens of an "
                    "instance share one mask. Give estimator='curvature'."
                )
            rows = [batch.row(int(place)) for batch in self._train.batches() for place in _rows_with(batch, chosen)]
            if any(row.target is None or row.target.dim() != 2 or row.target.is_floating_point() for row in rows):
                raise InfluenceError(
                    "training rows have one label each, not one per token. Give rows of tokens with a label each, as "
                    "turnover.runs.language_models.Sequences does."
                )
            return tuple(fit.token_scores(row, question.queries) for row in rows)

    def null(self, queries: Any, *, n: int = NULL_IDS, at_label: _AtLabel | None = None) -> Scores:
        """Return Scores [n, queries] of null ids, which were never trained: what pure noise looks like.

        With the estimator "ridge" their scores stand in the place of training rows' and are denoised as those are.

        Raises:
            InfluenceError: the estimator has no null distribution.
        """
        estimator = self._options.estimator
        if not estimator.needs_masks:
            raise InfluenceError(
                f"estimator={estimator.name!r} has no null distribution: a row without training gets a score, too. "
                "Give estimator='tod' or 'ridge'; intervals come from replicas (Scores.interval)."
            )
        with self._computing():
            if estimator.needs_train and n > 0:
                return null_of_rows(self._open(queries, at_label, self._ids(None), nulls=n), n)
            question = self._open(queries, at_label, null_ids(n), nulls=NULL_IDS)
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
        rows = self._data(data)
        if not self._members.have_masks:
            return self._self_influence_by_gradients(rows, progress)
        whole = self._members.whole
        forwards = self._forwards(whole)
        with evaluating(whole), as_workers(self._executor), progress_bar(rows.length, progress, "rows") as bar:
            workers = self._workers(whole, [member.digest() for member in whole])
            fields = self_influence(forwards, rows, bar, workers, center=self._options.center)
        raw = replace(self._options, estimator=Original(), control=None)
        provenance = self._provenance([], torch.from_numpy(fields["ids"]), raw)
        tokens = fields.pop("tokens")
        fields |= self._named(fields["ids"], rows)
        scores = Scores(**fields, unit=self._measure.unit, provenance=provenance)
        if tokens is not None:
            scores = scores.with_tokens(tokens)
        warn_of_nan(scores)
        warn_of_weak_signal(scores)
        return scores.seen_by(RowViews(rows))

    def _self_influence_by_gradients(self, rows: TrainRows, progress: bool | None) -> Scores:
        """Return the self-influence of a finished model's rows."""
        if self._measure.kind != "loss":
            raise InfluenceError(
                f"self-influence of a finished model is that of its loss, got measure={self._measure.unit!r}. Give "
                "measure='loss', or wrap the model before training (turnover.wrap)."
            )
        members = list(self._members)
        with evaluating(members), progress_bar(rows.length, progress, "rows") as bar:
            weights = [member.digest() for member in members]
            fit = self._fitted(self._forwards(members), weights)
            if not isinstance(fit, OwnScores):
                raise InfluenceError(
                    f"estimator={self._options.estimator.name!r} has no self-influence for models without masks. Give "
                    "estimator='curvature'."
                )
            own, ids = fit.own_scores(rows, bar.update)
        values, errors = average(own)
        provenance = self._provenance([], ids, self._options, weights) | {"train": rows.digest}
        scores = Scores(
            values=values,
            **self._named(ids.numpy(), rows),
            stderr=errors,
            unit=self._measure.unit,
            path=fit.result,
            replicas=len(members),
            provenance=provenance,
        )
        warn_of_nan(scores)
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
        self._need_masks("a held-out prediction")
        rows = self._data(data)
        count, memory = check_references(references), self._options.memory
        mask_bias = None
        if count:
            mask_bias = MaskBias.of(self._forwards(), self._train or rows, count, memory=memory, progress=progress)
        forwards = self._forwards(self._members.whole)
        with evaluating([*self._members.whole, *self._members]), progress_bar(rows.length, progress, "rows") as bar:
            fields = held_out_predictions(forwards, rows, bar, predict=predict, mask_bias=mask_bias)
        return OutOfSample(**fields | self._named(fields["ids"], rows)).seen_by(RowViews(rows))

    # Inside

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Let this process compute as the workers of the executor do, with models in eval mode."""
        with evaluating(self._members), as_workers(self._executor):
            yield

    def _workers(self, members: Sequence[Member], weights: list[str]) -> Executor:
        """Return the executor; one of other processes knows what all tasks hold, and has checked that it can work."""
        executor = self._executor
        if not is_remote(executor):
            return executor
        shared = [Shared(f"models {fingerprint_of(weights)}", [member.model for member in members])]
        if self._train is not None and self._options.estimator.needs_train:
            shared.append(self._train.shared)
        return executor.sharing(shared, memory=self._options.memory)

    @property
    def _hint(self) -> str:
        """Return what to call where a model was opened without the masks that its folder holds; "": it was not."""
        return "" if self._members.have_masks else masks_beside(self.models[0])

    def _need_masks(self, what: str) -> None:
        if not self._members.have_masks:
            raise NotWrappedError(
                f"{what} needs the flipped subnetwork of a row, and this model was never wrapped. "
                f"{self._hint or 'Train it with masks: model = turnover.wrap(model, at=[...]).'}"
            )

    def _check_ids(self) -> None:
        """Look once whether the ids of `train` are those of the training, and warn where scores rest on other masks."""
        if self._train is None or not self._options.estimator.needs_masks or self._ids_checked:
            return
        self._ids_checked = True
        forwards = self._forwards(self._members.whole)
        if callable(self._measure.kind):  # a measure of one's own need not be better for having trained on a row
            by_loss = Measure("loss", self._measure.loss)
            forwards = [replace(forward, measure=by_loss) for forward in forwards]
        with evaluating(self._members.whole):
            warn_of_other_ids(forwards, self._train)

    def _forwards(self, members: Sequence[Member] | None = None) -> list[Forward]:
        options = self._options
        return [
            Forward(member, self._measure, options.against, member.site_numbers(options.sites), options.dtype)
            for member in (self._members if members is None else members)
        ]

    def _ids(self, ids: Any) -> Tensor:
        """Return the chosen instances."""
        if ids is None:
            if self._train is None:
                raise InfluenceError(
                    "which instances? Give ids=..., or the training data: Influence(model, train=data)."
                )
            return self._train.ids
        chosen = as_ids(self._as_mask_ids(ids)).cpu()
        if self._train is not None:
            self._train.check_known(chosen)
        return chosen

    def _as_mask_ids(self, ids: Any) -> Any:
        """Return mask ids in place of names; a string whose hash was trained, or may have been, stands for it."""
        strings = [] if self._are_all_named else strings_in(ids)
        if strings:
            hashes = np.array([instance_id_of(one) for one in strings], np.int64)
            trained = np.ones(len(hashes), bool) if self._train is None else np.isin(hashes, self._train.ids.numpy())
            kept = zip(hashes[trained].tolist(), np.array(strings, object)[trained], strict=True)
            self._given_names = Names({**dict(kept), **self._given_names.by_id})
        return self.names.mask_ids(ids, error=InfluenceError)

    def _named(self, mask_ids: np.ndarray, rows: TrainRows) -> dict[str, Any]:
        """Return ids of rows that were read, as results take them."""
        return {"ids": (rows.read_names | self._given_names).shown(mask_ids), "mask_ids": mask_ids}

    def _data(self, data: Any) -> TrainRows:
        """Return the chosen rows."""
        if data is not None:
            return TrainRows(data, self._targets, numbered=not self._members.have_masks)
        if self._train is None:
            raise InfluenceError("which rows? Give the data with ids, or Influence(model, train=data).")
        return self._train

    def _open(
        self,
        queries: Any,
        at_label: _AtLabel | None,
        ids: Tensor,
        *,
        nulls: int | None = None,
        out: str | os.PathLike[str] | None = None,
    ) -> Question:
        """Return the question, opened; what can fail before the work, fails here."""
        if at_label not in (None, "given", "predicted"):
            raise InfluenceError(f"at_label={at_label!r} is unknown. Give 'given' or 'predicted'.")
        if len(ids) == 0:
            raise InfluenceError("no instances are left to score. Give at least one id.")
        members = list(self._members)
        opened = single_queries(queries, targets=self._targets, device=members[0].device)
        self._measure.check_shifted(opened[0].kwargs.get("input_ids"), opened[0].target)
        missing = opened[0].target is None
        if missing and at_label == "given":
            raise InfluenceError("the queries have no targets. Give (x, y), or at_label='predicted'.")
        forwards = self._forwards(members)
        if missing or at_label == "predicted":
            opened = [with_predicted_target(forwards, query) for query in opened]
        weights = [member.digest() for member in members]
        routes: list[Route] = []
        if self._options.estimator.needs_masks:
            # A folder's path must be the same in a later run, and a fit needs all training rows.
            tries = out is not None or self._options.estimator.needs_train or self._options.control is not None
            with explained_failures():
                routes = self._routes.find(forwards, opened, weights, ids=len(ids), tries=tries)
        stored = None if out is None else stored_identity(out)
        routes = routes if stored is None else as_stored(routes, stored)
        raw_nulls = NULL_IDS
        if routes and not self._options.estimator.needs_train:
            fitting = null_count(len(ids), len(opened), min(route.saving for route in routes))
            kept_as = fitting if stored is None else stored.get("nulls", NULL_IDS)
            raw_nulls = self._options.nulls or nulls or kept_as
        self._check_ids()
        provenance = self._provenance(opened, ids, self._options, weights) | self._of_train
        folder = self._fit_folder if out is None else out
        kept = None if folder is None else self._kept(folder, provenance)
        return Question(
            queries=opened,
            forwards=forwards,
            routes=routes,
            ids=ids,
            options=self._options,
            executor=self._workers(members, weights),
            unit=self._measure.unit,
            provenance=provenance,
            estimate=self._fitted(forwards, weights, kept).question(nulls or NULL_IDS),
            kept=kept,
            nulls=raw_nulls,
            instance_names=self.names,
            in_one_pass=bool(routes) and all(route.is_of_few for route in routes),
        )

    def _fitted(self, forwards: Sequence[Forward], weights: list[str], kept: KeptArrays | None = None) -> Fit:
        """Return the estimator, fitted once, as long as the weights stay; or as an earlier run kept it."""
        if self._train is not None:
            self._train.check_unchanged()
        if self._fit is None or self._fit[0] != weights:
            estimator, arrays = self._options.estimator, None if kept is None else kept.read()
            workers = self._workers([forward.member for forward in forwards], weights)
            self._fit = weights, estimator.fit(forwards, self._train, self._options.memory, arrays, workers)
        return self._fit[1]

    def _kept(self, folder: str | os.PathLike[str], provenance: dict[str, Any]) -> KeptArrays:
        """Return where a score folder keeps what the estimator fitted: it depends on all but queries and ids."""
        fitted_on = {name: value for name, value in provenance.items() if name not in ("queries", "ids")}
        return KeptArrays(folder, "factors.npz", fitted_on)

    def _labels(self, labels: Any, ids: Tensor) -> np.ndarray:
        """Return the labels of instances, given or from `train`."""
        if labels is None:
            if self._train is None:
                raise InfluenceError(
                    "label= needs the labels of the instances. Give labels=[...] or Influence(train=data)."
                )
            return self._train.labels_of(ids)
        given = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels)
        if len(given) != len(ids):
            raise InfluenceError(
                f"{len(given)} labels for {len(ids)} instances. Give one label for each, in their order."
            )
        return given

    def _only(self, label: Any, labels: np.ndarray, question: Question) -> np.ndarray | None:
        """Return the label that instances must have, per query."""
        if label is None:
            return None
        if isinstance(label, str) and label == "predicted":
            if labels.dtype.kind not in "biu":
                raise InfluenceError(
                    "label='predicted' needs labels that are class numbers. Give labels=[...] as integers."
                )
            return np.array([int(with_predicted_target(question.forwards, query).target) for query in question.queries])
        if not (labels == label).any():
            known = ", ".join(repr(one) for one in np.unique(labels)[:8].tolist())
            raise InfluenceError(f"no instance has the label {label!r}. There are {known}; or label='predicted'.")
        return np.full(len(question.queries), label)

    def _provenance(
        self, queries: Sequence[Batch], ids: Tensor, options: Options, weights: list[str] | None = None
    ) -> dict[str, Any]:
        """Return all that scores depend on, as JSON data."""
        return {
            "turnover": __version__,
            "recipes": [m.recipe for m in self._members],
            "weights": [m.digest() for m in self._members] if weights is None else weights,
            "options": options.as_data(),
            "measure": _identity(self._measure.kind),
            "loss": _identity(self._measure.loss),
            "ids": fingerprint_of(ids),
            "queries": fingerprint_of([(q.args, q.kwargs, q.target) for q in queries]),
        }


def _rows_with(batch: Batch, ids: Tensor) -> list[int]:
    """Return the places of rows of these instances in a batch."""
    return [] if batch.ids is None else torch.nonzero(torch.isin(batch.ids.cpu(), ids)).flatten().tolist()


def _identity(function: Any) -> Any:
    """Return what identifies a measure or loss across processes: its name, or its code and constants."""
    return function if function is None or isinstance(function, str) else fingerprint_of(function)
