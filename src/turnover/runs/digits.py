"""The demo's task: a run on handwritten digits that ship with scikit-learn, a tenth of them with a wrong label."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from turnover.errors import MissingExtraError, RunError

from .config import RunConfig, Watch, unwatched
from .folder import RunFolder, changed_data
from .images import npz_bytes
from .run import Run, start_run


@dataclass(frozen=True)
class DigitsConfig:
    """How the demo is run."""

    seed: int = 0
    epochs: int = 12
    changed: float = 0.1  # share of the training labels that are changed to another digit
    replicas: int = 8


@dataclass(frozen=True)
class DigitsData:
    """Training digits of which some labels were changed, and clean validation digits."""

    images: Tensor
    labels: Tensor
    true_labels: Tensor
    validation_images: Tensor
    validation_labels: Tensor

    @property
    def changed(self) -> Tensor:
        """Tell for every training row whether its label was changed."""
        return self.labels != self.true_labels


@dataclass(frozen=True)
class DigitsResult:
    """What the demo detected; the training rows of `run` are those of `data`, in the same order."""

    run: Run
    data: DigitsData
    suspects: np.ndarray  # as many rows as labels were changed, those with the highest self-influence first

    @property
    def found(self) -> int:
        """Return how many of the suspects have a changed label."""
        return int(self.data.changed.numpy()[self.suspects].sum())

    @property
    def held_out_labels(self) -> np.ndarray:
        """Return the held-out prediction of each training digit."""
        names = np.array([int(name) for name in self.run.label_names])
        return names[self.run.out_of_sample.probs.argmax(1)]


def load_digits(config: DigitsConfig) -> DigitsData:
    """Return the digits, four fifths for training, with a share of the training labels changed to another digit."""
    try:
        from sklearn.datasets import load_digits as load
    except ImportError as error:
        raise MissingExtraError("the digits ship with scikit-learn: pip install 'turnover[cli]'.") from error
    pixels, labels = load(return_X_y=True)
    rng = np.random.default_rng(config.seed)
    order = rng.permutation(len(labels))
    images = torch.tensor(pixels[order] / 16.0, dtype=torch.float32)
    true = torch.tensor(labels[order])
    split = len(order) * 4 // 5
    given = true[:split].clone()
    wrong = torch.tensor(rng.choice(split, size=round(config.changed * split), replace=False))
    given[wrong] = (given[wrong] + torch.tensor(rng.integers(1, 10, size=len(wrong)))) % 10
    return DigitsData(images[:split], given, true[:split], images[split:], true[split:])


def run_digits(config: DigitsConfig, out: Path | str, *, watch: Watch = unwatched) -> DigitsResult:
    """Train on digits with changed labels in a run folder, and look for them by self-influence.

    A demo of other settings in the folder is replaced, one that was interrupted is resumed; anything else stays.
    """
    folder = Path(out)
    data, file = load_digits(config), folder.with_name(f"{folder.name}-digits-{config.seed}.npz")
    RunFolder(folder).write(file, _as_npz(data))
    settings = RunConfig(
        str(file.resolve()), image_size=8, epochs=config.epochs, replicas=config.replicas, seed=config.seed
    )
    _make_room(folder, settings)
    run = start_run(settings, folder, watch=watch)
    suspects = np.argsort(-run.self_influence.values, kind="stable")[: int(data.changed.sum())]
    return DigitsResult(run, data, suspects)


def _as_npz(data: DigitsData) -> bytes:
    """Return the digits as a run reads them; half of the clean ones validate, the other half test."""
    half = len(data.validation_labels) // 2
    parts = {
        "train": (data.images, data.labels),
        "validation": (data.validation_images[:half], data.validation_labels[:half]),
        "test": (data.validation_images[half:], data.validation_labels[half:]),
    }
    arrays: dict[str, np.ndarray] = {}
    for split, (images, labels) in parts.items():
        arrays[f"images_{split}"] = (images.view(-1, 8, 8) * 255).round().to(torch.uint8).numpy()
        arrays[f"labels_{split}"] = labels.numpy()
    return npz_bytes(arrays)


def _make_room(folder: Path, settings: RunConfig) -> None:
    """Remove a former demo of other settings."""
    known = RunFolder(folder)
    if not (known.about.is_file() and known.config.is_file()):
        return
    former = RunConfig.read(known.config)
    if not Path(former.data).name.startswith(f"{folder.name}-digits-"):
        raise RunError(f"{str(folder)!r} holds another run ({former.data}). Give a folder for the demo: --out NEW.")
    if former != settings or changed_data(known.read_about()):
        known.clear()
