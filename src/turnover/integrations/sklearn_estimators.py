# ruff: noqa: N803 - X is what scikit-learn calls it
"""`TurnOverClassifier` and `TurnOverRegressor`: scikit-learn estimators that can be asked for their training rows."""

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state, column_or_1d, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from turnover.errors import BatchError, InstanceIdError, TrainingError, TurnOverWarning, WeakSignalWarning
from turnover.ids import Ids, id_array, plain_name
from turnover.influence import EstimatorOption, Influence
from turnover.layers import device_of, preferred_device, widest_float
from turnover.scores import OutOfSample, Scores
from turnover.training import TrainingRecipe, scale_problem
from turnover.wrapping import unwrap, wrap

_ROWS_AT_ONCE = 4096
_SEEDS = 2**31 - 1


class _MaskedMlpEstimator(BaseEstimator, ABC):
    """What both estimators share: inputs standardized, a network with masks, questions about the training rows."""

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (256, 256),
        keep: float = 0.5,
        replicas: int = 8,
        epochs: int = 40,
        batch_size: int = 64,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-4,
        estimator: EstimatorOption = "auto",
        device: str | torch.device | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.hidden = hidden
        self.keep = keep
        self.replicas = replicas
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.estimator: EstimatorOption = estimator
        self.device = device
        self.random_state = random_state

    def influence(
        self,
        X: Any,
        y: Any = None,
        *,
        ids: Any = None,
        out: str | os.PathLike[str] | None = None,
        progress: bool | None = False,
    ) -> Scores:
        """Return Scores [training rows, queries]: positive where the training row helps the query.

        Args:
            X: the queries [queries, features].
            y: their targets; None, for a classifier: judge them at the label that the network predicts.
            ids: which training rows, by the index of the DataFrame that was fitted, else by number; None: all.
            out: a folder to write scores to, tile by tile.
            progress: show a bar; None: on a terminal.
        """
        x = self._standardized(X)
        targets = self._query_targets(y, len(x))
        engine = Influence(self.model_, train=self.train_rows_, estimator=self.estimator, names=self.row_names_)
        queries = x.float() if targets is None else (x.float(), targets)
        if ids is None:
            ids = range(self.n_rows_) if self.row_names_ is None else self.row_names_
        return engine.pairwise(queries, ids=ids, out=out, progress=progress)

    @abstractmethod
    def _query_targets(self, y: Any, rows: int) -> Tensor | None:
        """Return the targets of queries as the network is trained on them, checked; None: the predicted ones."""

    def _train(self, x: np.ndarray, targets: Tensor, outputs: int, weights: np.ndarray | None = None) -> None:
        """Train on checked rows and ask about each of them."""
        _check_settings(self.get_params())
        self.scaler_ = StandardScaler().fit(x)
        inputs = torch.from_numpy(self.scaler_.transform(x)).float()
        seed = int(check_random_state(self.random_state).randint(_SEEDS))
        device = preferred_device(self.device)
        recipe = TrainingRecipe(
            partial(self._untrained, inputs.shape[1], outputs, seed, device),
            inputs.to(device),
            targets.to(device),
            optimizer=partial(torch.optim.AdamW, lr=self.learning_rate, weight_decay=self.weight_decay),
            epochs=int(self.epochs),
            batch_size=int(self.batch_size),
        )
        row_weights = None if weights is None else torch.from_numpy(weights).float().to(device)
        self.model_ = recipe.fit(seed=seed, weights=row_weights)
        if not all(bool(parameter.isfinite().all()) for parameter in self.model_.parameters()):
            raise TrainingError(
                f"the training diverged: weights are no longer finite with learning_rate={self.learning_rate}. Give a "
                "smaller one."
            )
        self.n_rows_ = len(inputs)
        rows = inputs, targets, torch.arange(len(inputs))
        # Other estimators than the original are fitted on the training rows; without one they need not be kept.
        self.train_rows_ = None if isinstance(self.estimator, str) and self.estimator == "tod" else rows
        engine = Influence(self.model_, train=rows, names=self.row_names_)
        with warnings.catch_warnings():
            # These rows were trained under these ids. Where nothing had to be memorized, that is a finding.
            warnings.simplefilter("ignore", WeakSignalWarning)
            self.self_influence_: Scores = engine.self_influence(progress=False)
        self.out_of_sample_: OutOfSample = engine.out_of_sample(predict=self._as_predictions, progress=False)

    def _untrained(self, features: int, outputs: int, seed: int, device: torch.device) -> nn.Module:
        """Return a multilayer perceptron with masks on every hidden layer."""
        widths = [features, *map(int, self.hidden)]
        layers: list[nn.Module] = []
        for before, width in pairwise(widths):
            layers += [nn.Linear(before, width), nn.ReLU()]
        # An output bias belongs to no masked unit: it would leak every row into the half that must not know it.
        layers.append(nn.Linear(widths[-1], outputs, bias=False))
        sites = [str(place) for place, layer in enumerate(layers) if isinstance(layer, nn.ReLU)]
        network = nn.Sequential(*layers)
        return wrap(network, at=sites, keep=float(self.keep), seed=seed, replicas=int(self.replicas)).to(device)

    @abstractmethod
    def _as_predictions(self, outputs: Tensor) -> Tensor:
        """Return what the network's outputs predict."""

    def _predictions(self, X: Any) -> np.ndarray:
        """Return what the whole network predicts, in float64: a row's prediction must not depend on its batch."""
        x = self._standardized(X)
        device = device_of(self.model_)
        dtype = widest_float(device)
        network = unwrap(self.model_).to(dtype).eval()
        with torch.no_grad():
            parts = [self._as_predictions(network(part.to(device, dtype))).cpu() for part in x.split(_ROWS_AT_ONCE)]
        return torch.cat(parts).double().numpy()

    def _checked(self, X: Any, y: Any, **checks: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and targets as arrays, or raise as scikit-learn does."""
        x, targets = validate_data(self, X, y, dtype=np.float64, **checks)
        self.row_names_ = _index_of(X)
        return np.asarray(x), np.asarray(targets)

    def _standardized(self, X: Any) -> Tensor:
        check_is_fitted(self)
        return torch.from_numpy(self.scaler_.transform(validate_data(self, X, dtype=np.float64, reset=False)))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")


class TurnOverClassifier(ClassifierMixin, _MaskedMlpEstimator):
    """A classifier for tables that tells which training rows made a prediction and which were merely memorized.

    A multilayer perceptron on standardized inputs, trained with turn-over dropout: after `fit`, `self_influence_` says
    how much every row was memorized, and `out_of_sample_` has its held-out prediction.

    Args:
        hidden: width of each hidden layer.
        keep: share of the hidden units that a row trains.
        replicas: how many networks are trained in one run; more: less noise in scores, better predictions.
        epochs: passes over the rows.
        batch_size: rows of a batch.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        class_weight: "balanced", or a weight for each class; None: 1 each.
        estimator: of the scores of `influence`, as for `turnover.Influence`; all but "tod" keep the training rows.
        device: where to train and to score; None: what TURNOVER_DEVICE names, else an accelerator, else the CPU.
        random_state: of weights, masks and batches; None: another one at every `fit`.

    Attributes:
        classes_: the labels, in the order of all probabilities.
        self_influence_: `Scores` [rows]; high: memorized, look at the label.
        out_of_sample_: `OutOfSample`: `.probs` [rows, classes], `.labels` as numbers of `classes_`, `.label_quality`.
        model_: the wrapped network, on standardized inputs.
        scaler_: standardizes the inputs.
        row_names_: the index of the DataFrame that was fitted, which all results call the rows by; None: numbers.

    Example:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(80, 5))
        >>> y = np.where(X[:, 0] > 0, "yes", "no")
        >>> clf = TurnOverClassifier(hidden=(64,), epochs=20, random_state=0).fit(X, y)
        >>> clf.influence(X[:3], y[:3]).values.shape  # 80 training rows, 3 queries
        (80, 3)
        >>> clf.out_of_sample_.probs.shape
        (80, 2)
    """

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (512,),
        keep: float = 0.5,
        replicas: int = 8,
        epochs: int = 40,
        batch_size: int = 64,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-4,
        class_weight: Any = None,
        estimator: EstimatorOption = "auto",
        device: str | torch.device | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            hidden=hidden,
            keep=keep,
            replicas=replicas,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            estimator=estimator,
            device=device,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any) -> Self:
        """Train, and ask about every row; returns the estimator.

        Args:
            X: numbers [rows, features], as an array or DataFrame without missing values.
            y: the label of each row.
        """
        x, labels = self._checked(X, y)
        labels = column_or_1d(labels, warn=True)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise TrainingError(
                f"y has one class only, {self.classes_[0]!r}, so there is nothing to tell apart. Give rows of at least "
                "two classes."
            )
        weights = None if self.class_weight is None else compute_sample_weight(self.class_weight, labels)
        self._train(x, torch.from_numpy(numbers.astype(np.int64)), len(self.classes_), weights)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of `classes_` [rows, classes] for X [rows, features], by the whole network."""
        return self._predictions(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable label of each row of X [rows, features]."""
        numbers = self.predict_proba(X).argmax(1)
        return self.classes_[numbers]

    def _query_targets(self, y: Any, rows: int) -> Tensor | None:
        if y is None:
            return None
        labels = column_or_1d(y)
        if len(labels) != rows:
            raise BatchError(f"{len(labels)} labels for {rows} queries. Give one label for each.")
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            known = ", ".join(map(repr, self.classes_[:8].tolist()))
            raise BatchError(
                f"label {unknown.tolist()[0]!r} was not among the training labels ({known}). Give known labels, or no "
                "y: then the predicted labels are used."
            )
        return torch.from_numpy(np.searchsorted(self.classes_, labels).astype(np.int64))

    def _as_predictions(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(-1)


class TurnOverRegressor(RegressorMixin, _MaskedMlpEstimator):
    """A regressor for tables that tells which training rows made a prediction and which were merely memorized.

    As `TurnOverClassifier`, for one or several numeric targets. Targets are standardized inside, and the loss is the
    squared error of the standardized target: scores of 1 are as much as the whole variance of y. Arguments are those of
    `TurnOverClassifier`, without `class_weight`, and two hidden layers by default: one layer alone memorizes noisy
    targets and predicts worse out of sample.

    Attributes:
        self_influence_: `Scores` [rows]; high: memorized, look at the target.
        out_of_sample_: `OutOfSample`: `.probs` [rows, targets] are predictions in the unit of y.
        model_: the wrapped network, from standardized inputs to standardized targets.
        scaler_: standardizes the inputs.
        target_scaler_: standardizes the targets.
        row_names_: as for `TurnOverClassifier`.

    Example:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(80, 5))
        >>> reg = TurnOverRegressor(hidden=(64,), epochs=20, random_state=0).fit(X, 100 * X[:, 0])
        >>> reg.influence(X[:3], 100 * X[:3, 0]).values.shape  # 80 training rows, 3 queries
        (80, 3)
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train, and ask about every row; returns the estimator.

        Args:
            X: numbers [rows, features], as an array or DataFrame without missing values.
            y: numbers [rows] or [rows, targets].
        """
        checks = {"y_numeric": True, "multi_output": True, "ensure_min_samples": 2}
        x, values = self._checked(X, y, **checks)
        values = values if values.ndim == 2 and values.shape[1] > 1 else column_or_1d(values, warn=True)
        columns = values.reshape(len(values), -1).astype(np.float64)
        if problem := next(filter(None, map(scale_problem, columns.T)), ""):
            raise TrainingError(f"numbers in y {problem}.")
        self.n_targets_ = columns.shape[1]
        self.target_scaler_ = StandardScaler().fit(columns)
        targets = torch.from_numpy(self.target_scaler_.transform(columns)).float()
        self._train(x, targets, self.n_targets_)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions [rows] or [rows, targets] for X [rows, features], by the whole network."""
        predictions = self._predictions(X)
        return predictions[:, 0] if self.n_targets_ == 1 else predictions

    def _query_targets(self, y: Any, rows: int) -> Tensor:
        values = np.asarray(y, dtype=np.float64)
        values = values[:, None] if values.ndim == 1 else values
        if values.shape != (rows, self.n_targets_):
            raise BatchError(
                f"y has shape {list(np.shape(y))} for {rows} queries, but {self.n_targets_} targets were trained. "
                f"Give y of shape [{rows}, {self.n_targets_}]."
            )
        return torch.from_numpy(self.target_scaler_.transform(values)).float()

    def _as_predictions(self, outputs: Tensor) -> Tensor:
        scale = torch.as_tensor(self.target_scaler_.scale_, dtype=outputs.dtype, device=outputs.device)
        return outputs * scale + torch.as_tensor(self.target_scaler_.mean_, dtype=outputs.dtype, device=outputs.device)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _check_settings(given: dict[str, Any]) -> None:
    """Raise for settings that cannot be trained, all of them at once."""
    problems = [
        f"{name}={given[name]!r}: give {need}" for name, (need, allowed) in _NEEDED.items() if not allowed(given[name])
    ]
    if problems:
        raise TrainingError(f"the network cannot be trained: {'; '.join(problems)}.")


def _is(given: Any, kind: type) -> bool:
    return isinstance(given, kind) and not isinstance(given, bool)


def _are_widths(given: Any) -> bool:
    if isinstance(given, str) or not hasattr(given, "__len__"):
        return False
    return len(given) > 0 and all(_is(width, Integral) and width >= 1 for width in given)


_COUNT = ("an integer >= 1", lambda given: _is(given, Integral) and given >= 1)
_NEEDED = {
    "hidden": ("a width >= 1 for each hidden layer: hidden=(512,)", _are_widths),
    "keep": ("a number between 0 and 1", lambda given: _is(given, Real) and 0 < given < 1),
    "replicas": _COUNT,
    "epochs": _COUNT,
    "batch_size": _COUNT,
    "learning_rate": ("a number above 0", lambda given: _is(given, Real) and given > 0),
    "weight_decay": ("a number >= 0", lambda given: _is(given, Real) and given >= 0),
}


def _index_of(X: Any) -> Ids | None:
    """Return the index of a DataFrame as names of its rows; None: rows have numbers."""
    index = getattr(X, "index", None)
    if index is None or callable(index) or not hasattr(index, "is_unique"):
        return None
    problem = ""
    if not index.is_unique:
        again = ", ".join(map(repr, index[index.duplicated()].unique()[:3].tolist()))
        problem = (
            f"{again} more than once, so it names no rows: results have row numbers. Give X.reset_index(drop=True), or "
            "an index with a value of its own for every row"
        )
    else:
        try:
            names = id_array([plain_name(value) for value in index])
            return None if np.array_equal(names, np.arange(len(names))) else names
        except InstanceIdError:
            problem = (
                f"{index[0]!r}, and rows are called by strings or integers: results have row numbers. Give "
                "X.set_axis(X.index.map(str))"
            )
    warnings.warn(f"the index of X has {problem}.", TurnOverWarning, stacklevel=4)
    return None
