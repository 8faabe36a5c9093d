"""`Influence`: what the training instances do to predictions, with forward passes only."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

import turnover
from turnover.batches import Batch, Loss
from turnover.errors import InfluenceError, TurnOverError
from turnover.layers import as_ids
from turnover.scores import OutOfSample, Scores, Top

from .answers import denoised_null, every_pair, mean_over_queries, top_of_each
from .estimate.denoise import Denoising, Fit
from .estimate.masks_alone import MasksAlone, check_references
from .estimate.ridge import Denoise, as_ridge
from .estimate.ridge_gradients import find_views
from .executor import Executor, LocalExecutor
from .findings import warn_of_nan, warn_of_strangers
from .fingerprint import fingerprint_of
from .measures import Goodness, Measure
from .members import Member, call_description, evaluating, open_members
from .options import NULL_IDS, Options, memory_in_bytes, null_ids
from .paths.forward import Pass, predicted
from .progress import Progress
from .queries import single_queries
from .question import Question
from .route import Routes, site_numbers
from .row_answers import each_on_itself, each_unseen
from .stored import store_pairs
from .train import TrainRows, first_of_each

AtLabel = Literal["given", "predicted"]


class Influence:
    """Influence of training instances on predictions; positive means the instance helps.

    Args:
        model: a wrapped and trained model, or several with different mask seeds.
        loss: `loss(outputs, targets) -> [rows]`; None: cross-entropy for integer targets, squared error for floats.
        train: the training data with ids; the default for `ids` and for the labels of `top`.
        against: compare the flipped network with the kept half ("keep") or with the whole network ("full").
        measure: "loss", "probability", "margin" (log-odds of the target), or a function, larger meaning better.
        center: subtract the mean score of never-trained ids, query by query.
        denoise: "ridge", or a `turnover.influence.Ridge`: fit each query's scores on features of the training rows and
            keep the fit. Needs `train`. Less noise, but shrunk.
        control: "linear": subtract what the masks alone explain of a score, to first order; less noise.
        sites: flip only these sites; None: all.
        targets: name of the target in dict batches; None: "labels", else "label".
        device: move the model there; None: where it is.
        dtype: run under autocast in this type, torch.bfloat16 for example.
        memory: bytes that a chunk of work may take; None: 256 MiB.
        compile: run the model through torch.compile.
        executor: who works on tiles; None: this process.

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
        against: Literal["keep", "full"] = "keep",
        measure: Measure = "loss",
        center: bool = True,
        denoise: Denoise = None,
        control: Literal["linear"] | None = None,
        sites: Sequence[str] | None = None,
        targets: str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        memory: int | None = None,
        compile: bool = False,
        executor: Executor | None = None,
    ) -> None:
        """Check everything that can be checked before the first query."""
        wanted = None if sites is None else tuple([sites] if isinstance(sites, str) else sites)
        self._options = Options(
            against, center, wanted, dtype, memory_in_bytes(memory), compile, as_ridge(denoise), control
        )
        self._goodness = Goodness(measure, loss)
        self._members = open_members(model, device)
        for member in self._members:
            site_numbers(member, wanted)
        self._targets = targets
        self._train = None if train is None else TrainRows(train, targets)
        self._executor = executor or LocalExecutor()
        self._routes = Routes(self._goodness, self._options)
        self._fit: tuple[list[str], Fit] | None = None
        if denoise is not None and self._train is None:
            raise InfluenceError(
                "denoising is fitted on all training rows and their labels, but there is no train. Give "
                "Influence(model, train=turnover.with_instance_ids(dataset), denoise='ridge')."
            )

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
    def train_ids(self) -> np.ndarray:
        """Return every training instance's id once, in the order of `train`."""
        return self._ids(None).numpy()

    @property
    def train_labels(self) -> np.ndarray:
        """Return the label of every training instance, in the order of `train_ids`."""
        return self._labels(None, self._ids(None))

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
        with evaluating(self._members):
            question = self._ask(queries, at_label, self._ids(ids))
            with Progress(question.work, progress, "pairs") as bar:
                scores = every_pair(question, bar) if out is None else store_pairs(out, question, bar)
        warn_of_nan(scores)
        return scores

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
        with evaluating(self._members):
            question = self._ask(queries, at_label, self._ids(ids))
            with Progress(question.work, progress, "pairs") as bar:
                scores = mean_over_queries(question, bar)
        warn_of_nan(scores)
        return scores

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
            exclude: ids to leave out.
            at_label: as for `pairwise`.
            progress: as for `pairwise`.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InfluenceError(f"k={k!r} is no number of instances. Give an integer of at least 1: k=10.")
        everyone = first_of_each(self._ids(ids))
        labeled = np.empty(0) if label is None else self._labels(labels, everyone)
        left = None if exclude is None or len(exclude) == 0 else ~torch.isin(everyone, as_ids(exclude))
        wanted = everyone if left is None else everyone[left]
        if left is not None and label is not None:
            labeled = labeled[left.numpy()]
        with evaluating(self._members):
            question = self._ask(queries, at_label, wanted)
            with Progress(question.work, progress, "pairs") as bar:
                return top_of_each(question, bar, k=k, labels=labeled, only=self._only(label, labeled, question))

    def null(self, queries: Any, *, n: int = NULL_IDS, at_label: AtLabel | None = None) -> Scores:
        """Return Scores [n, queries] of ids that were never trained: what pure noise looks like.

        With `denoise` their scores stand in the place of training rows' and are denoised as those are.
        """
        with evaluating(self._members):
            if self._options.denoise is not None and n > 0:
                return denoised_null(self._ask(queries, at_label, self._ids(None), nulls=n), n)
            question = self._ask(queries, at_label, null_ids(n))
            return every_pair(question, Progress(question.pairs, False, "pairs"))

    # Questions about training rows

    def self_influence(self, data: Any = None, *, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: what each training row does to its own prediction, in one pass over the data.

        With `center` the mean score of never-trained ids, one on each row, is subtracted from all; their spread is the
        standard error of a single model. Where the loss has one value a token, [rows, tokens], a row's score is the
        mean of its tokens, and `Scores.tokens(row)` gives theirs.

        Args:
            data: rows with ids; None: `train`.
            progress: show a bar; None: on a terminal.
        """
        rows = self._data(data)
        works = self._works(self._members.whole)
        with evaluating(self._members.whole), Progress(rows.length, progress, "rows") as bar:
            found = each_on_itself(works, rows, bar, center=self._options.center)
        provenance = self._provenance(
            [], torch.from_numpy(found["ids"]), replace(self._options, denoise=None, control=None)
        )
        tokens = found.pop("tokens")
        scores = Scores(**found, unit=self._goodness.unit, provenance=provenance)
        if tokens is not None:
            scores = scores.with_tokens(tokens)
        warn_of_nan(scores)
        warn_of_strangers(scores)
        return scores

    def out_of_sample(
        self,
        data: Any = None,
        *,
        predict: Callable[[Tensor], Tensor] | None = None,
        references: int = 0,
        progress: bool | None = None,
    ) -> OutOfSample:
        """Return predictions of every row by the part of the network that never saw it.

        Args:
            data: rows with ids; None: `train`.
            predict: maps outputs to predictions; None: softmax over the last dimension, or the outputs themselves
                where targets are floats.
            references: so many other training rows are shown to each of these parts, to learn what its mask says
                whatever it is shown; that is taken off. 0: nothing is, as in the paper.
            progress: show a bar; None: on a terminal.

        Raises:
            InfluenceError: there are no rows or no ids, or references cannot be had.
        """
        rows = self._data(data)
        count = check_references(references)
        masks = None
        if count:
            beside, memory = self._train or rows, self._options.memory
            masks = MasksAlone.of(self._works(), beside, count, memory=memory, progress=progress)
        works = self._works(self._members.whole)
        with evaluating([*self._members.whole, *self._members]), Progress(rows.length, progress, "rows") as bar:
            return each_unseen(works, rows, bar, predict=predict, masks=masks)

    # Inside

    def _works(self, members: Sequence[Member] | None = None) -> list[Pass]:
        return [
            Pass(m, self._goodness, self._options.against, site_numbers(m, self._options.sites), self._options.dtype)
            for m in (self._members if members is None else members)
        ]

    def _ids(self, ids: Any) -> Tensor:
        """Return the instances that are asked for."""
        if ids is None:
            if self._train is None:
                raise InfluenceError(
                    "which instances? Give ids=..., or the training data: Influence(model, train=data)."
                )
            return self._train.ids
        wanted = as_ids(ids).cpu()
        if self._train is not None:
            self._train.check_known(wanted)
        return wanted

    def _data(self, data: Any) -> TrainRows:
        """Return the rows that are asked for."""
        if data is not None:
            return TrainRows(data, self._targets)
        if self._train is None:
            raise InfluenceError("which rows? Give the data with ids, or Influence(model, train=data).")
        return self._train

    def _ask(self, queries: Any, at_label: AtLabel | None, ids: Tensor, *, nulls: int = NULL_IDS) -> Question:
        """Return the question, opened; what can fail before the work, fails here."""
        if at_label not in (None, "given", "predicted"):
            raise InfluenceError(f"at_label={at_label!r} is unknown. Give 'given' or 'predicted'.")
        if len(ids) == 0:
            raise InfluenceError("no instances are left to score. Give at least one id.")
        opened = single_queries(queries, targets=self._targets, device=self._members[0].device)
        self._goodness.refuse_own_inputs(opened[0].kwargs.get("input_ids"), opened[0].target)
        missing = opened[0].target is None
        if missing and at_label == "given":
            raise InfluenceError("the queries have no targets. Give (x, y), or at_label='predicted'.")
        if missing or at_label == "predicted":
            opened = [predicted(self._works(), query) for query in opened]
        weights = [member.digest() for member in self._members]
        try:
            routes = self._routes.find(self._members, opened, weights)
        except TurnOverError:
            raise
        except Exception as error:
            raise InfluenceError(
                f"the model or the loss fails on the first query ({type(error).__name__}: {error}). Give queries as "
                "(inputs, targets) or as a dict of what the model takes, with as many targets as rows; leave ids and "
                "columns that the model does not know out."
            ) from error
        provenance = self._provenance(opened, ids, self._options, weights)
        fit = self._denoising_fit(weights)
        if fit is not None:
            provenance["train"] = fit.stream.digest
        return Question(
            queries=opened,
            routes=routes,
            ids=ids,
            options=self._options,
            executor=self._executor,
            unit=self._goodness.unit,
            provenance=provenance,
            denoising=None if fit is None else Denoising(fit, nulls),
        )

    def _denoising_fit(self, weights: list[str]) -> Fit | None:
        """Return what denoising needs of the training rows; found out once, as long as the weights stay."""
        ridge = self._options.denoise
        if ridge is None or self._train is None:
            return None
        if self._fit is None or self._fit[0] != weights:
            views = find_views(self._works(), self._train, ridge, self._options.memory)
            self._fit = weights, Fit(ridge, views, self._options.memory)
        return self._fit[1]

    def _labels(self, labels: Any, ids: Tensor) -> np.ndarray:
        """Return the labels of instances, given or from `train`."""
        if labels is None:
            if self._train is None:
                raise InfluenceError(
                    "label= needs the labels of the instances. Give labels=[...] or Influence(train=data)."
                )
            return self._train.labels_of(ids)
        found = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels)
        if len(found) != len(ids):
            raise InfluenceError(
                f"{len(found)} labels for {len(ids)} instances. Give one label for each, in their order."
            )
        return found

    def _only(self, label: Any, labels: np.ndarray, question: Question) -> np.ndarray | None:
        """Return the label that instances must have, one a query."""
        if label is None:
            return None
        if isinstance(label, str) and label == "predicted":
            if labels.dtype.kind not in "biu":
                raise InfluenceError(
                    "label='predicted' needs labels that are class numbers. Give labels=[...] as integers."
                )
            works = [route.work for route in question.routes]
            return np.array([int(predicted(works, query).target) for query in question.queries])
        if not (labels == label).any():
            known = ", ".join(repr(one) for one in np.unique(labels)[:8].tolist())
            raise InfluenceError(f"no instance has the label {label!r}. There are {known}; or label='predicted'.")
        return np.full(len(question.queries), label)

    def _provenance(
        self, queries: Sequence[Batch], ids: Tensor, options: Options, weights: list[str] | None = None
    ) -> dict[str, Any]:
        """Return all that scores depend on, as JSON data."""
        return {
            "turnover": turnover.__version__,
            "recipes": [m.masking.recipe.to_json() for m in self._members],
            "weights": [m.digest() for m in self._members] if weights is None else weights,
            "options": options.as_data(),
            "measure": call_description(self._goodness.measure),
            "loss": call_description(self._goodness.loss),
            "ids": fingerprint_of(ids),
            "queries": fingerprint_of([(q.args, q.kwargs, q.target) for q in queries]),
        }
