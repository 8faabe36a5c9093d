"""The demo's task: a run on handwritten digits that ship with scikit-learn, a tenth of them with a wrong label."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

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
    """Training digits of which some labels were changed, and clean ones to validate and test, as a run reads them."""

    arrays: dict[str, np.ndarray]  # images_train, labels_train, ...
    true_labels: np.ndarray

    @property
    def labels(self) -> np.ndarray:
        """Return the training labels."""
        return self.arrays["labels_train"]

    @property
    def changed(self) -> np.ndarray:
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
        return int(self.data.changed[self.suspects].sum())

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
    pixels, labels = map(np.asarray, load(return_X_y=True))
    rng = np.random.default_rng(config.seed)
    order = rng.permutation(len(labels))
    images, true = (pixels[order] * 255 / 16).round().astype(np.uint8).reshape(-1, 8, 8), labels[order]
    train = len(order) * 4 // 5
    test = (train + len(order)) // 2
    given = true.copy()
    wrong = rng.choice(train, size=round(config.changed * train), replace=False)
    given[wrong] = (given[wrong] + rng.integers(1, 10, size=len(wrong))) % 10
    parts = {"train": slice(train), "validation": slice(train, test), "test": slice(test, None)}
    arrays = {f"images_{split}": images[part] for split, part in parts.items()}
    arrays |= {f"labels_{split}": given[part] for split, part in parts.items()}
    return DigitsData(arrays, true[:train])


def run_digits(config: DigitsConfig, out: Path | str, *, watch: Watch = unwatched) -> DigitsResult:
    """Train on digits with changed labels in a run folder, and look for them by self-influence.

    A demo of other settings in the folder is replaced, one that was interrupted is resumed; anything else stays.
    """
    folder = Path(out)
    data, file = load_digits(config), folder.with_name(f"{folder.name}-digits-{config.seed}.npz")
    RunFolder(folder).write(file, npz_bytes(data.arrays))
    settings = RunConfig(
        str(file.resolve()), image_size=8, epochs=config.epochs, replicas=config.replicas, seed=config.seed
    )
    _make_room(folder, settings)
    run = start_run(settings, folder, watch=watch)
    suspects = np.argsort(-run.self_influence.values, kind="stable")[: int(data.changed.sum())]
    return DigitsResult(run, data, suspects)


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
