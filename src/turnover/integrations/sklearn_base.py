# ruff: noqa: N803 - X is what scikit-learn calls it
"""What the classifier and the regressor share: standardized inputs, a masked network, questions about its rows."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

import turnover
from turnover.errors import MissingExtraError, TurnOverWarning
from turnover.influence import Ridge
from turnover.scores import OutOfSample, Scores

from .tabular_mlp import MlpSettings, train_mlp

try:
    from sklearn.base import BaseEstimator
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise MissingExtraError(
        f"TurnOverClassifier and TurnOverRegressor need scikit-learn 1.6 or newer ({error}): "
        "pip install 'turnover[sklearn]'."
    ) from error

_ROWS_AT_ONCE = 4096
_SEEDS = 2**31 - 1


class MaskedMlpEstimator(BaseEstimator, ABC):
    """What both estimators share: inputs standardized, a network with masks, questions about the training rows."""

    hidden: Sequence[int]
    keep: float
    replicas: int
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    denoise: Literal["ridge"] | Ridge | None
    device: str | torch.device | None
    random_state: int | np.random.RandomState | None

    def _train(self, x: np.ndarray, targets: Tensor, outputs: int, weights: np.ndarray | None = None) -> None:
        """Train on checked rows and ask about each of them."""
        settings = MlpSettings(
            self.hidden,
            self.keep,
            self.replicas,
            self.epochs,
            self.batch_size,
            self.learning_rate,
            self.weight_decay,
            self.device,
        )
        self.scaler_ = StandardScaler().fit(x)
        inputs = torch.from_numpy(self.scaler_.transform(x)).float()
        seed = int(check_random_state(self.random_state).randint(_SEEDS))
        row_weights = None if weights is None else torch.from_numpy(weights).float()
        self.model_ = train_mlp(settings, inputs, targets, outputs=outputs, seed=seed, weights=row_weights)
        self.n_rows_ = len(inputs)
        rows = inputs, targets, torch.arange(len(inputs))
        # Denoising is fitted on the training rows; without it they need not be kept.
        self.train_rows_ = None if self.denoise is None else rows
        engine = turnover.Influence(self.model_, train=rows)
        with warnings.catch_warnings():
            # These rows were trained under these ids. Where nothing had to be memorized, that is a finding.
            warnings.filterwarnings("ignore", message="the self-influence of these", category=TurnOverWarning)
            self.self_influence_: Scores = engine.self_influence(progress=False)
        self.out_of_sample_: OutOfSample = engine.out_of_sample(predict=self._as_predictions, progress=False)

    @abstractmethod
    def _as_predictions(self, outputs: Tensor) -> Tensor:
        """Return what the network's outputs predict."""

    def _predictions(self, X: Any) -> np.ndarray:
        """Return what the whole network predicts, in float64: a row's prediction must not depend on its batch."""
        x = self._standardized(X)
        exact = x.dtype if _has_float64(self.model_) else torch.float32
        network = turnover.unwrap(self.model_).to(exact).eval()
        device = next(network.parameters()).device
        with torch.no_grad():
            parts = [self._as_predictions(network(part.to(device, exact))).cpu() for part in x.split(_ROWS_AT_ONCE)]
        return torch.cat(parts).double().numpy()

    def _checked(self, X: Any, y: Any, **checks: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and targets as arrays, or raise as scikit-learn does."""
        x, targets = validate_data(self, X, y, dtype=np.float64, **checks)
        return np.asarray(x), np.asarray(targets)

    def _standardized(self, X: Any) -> Tensor:
        check_is_fitted(self)
        return torch.from_numpy(self.scaler_.transform(validate_data(self, X, dtype=np.float64, reset=False)))

    def _scores(self, x: Tensor, y: Tensor | None, ids: Any, out: Any, progress: bool | None) -> Scores:
        """Return the scores of training rows on checked queries."""
        engine = turnover.Influence(self.model_, train=self.train_rows_, denoise=self.denoise)
        queries = x.float() if y is None else (x.float(), y)
        wanted = range(self.n_rows_) if ids is None else ids
        return engine.pairwise(queries, ids=wanted, out=out, progress=progress)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")


def _has_float64(model: torch.nn.Module) -> bool:
    return next(model.parameters()).device.type != "mps"
