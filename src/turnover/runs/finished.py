"""What a run of any kind has: its folder, its settings, how far it came and its learning curves."""

import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from torch import nn

import turnover
from turnover.errors import RunError, SavedModelError, TurnOverError

from .config import RunConfig
from .fitting import Curves
from .folder import RunFolder, read_about


class FinishedRun:
    """A run, opened from its folder. Everything is loaded when it is needed first.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = RunFolder(Path(folder))
        self.about = read_about(self.folder)
        self.config = RunConfig.read(self.folder.config)

    @property
    def complete(self) -> bool:
        """Tell whether the run came to its end."""
        return self.about.state == "complete"

    def refuse_unfinished(self) -> None:
        """Refuse a run that did not come to its end, and say how to take it up again."""
        if not self.complete:
            raise RunError(
                f"the run in {str(self.folder.path)!r} did not come to its end (it was {self.about.state}). Take it up "
                f"again: turnover run --config {self.folder.config} --out {self.folder.path}"
            )

    @cached_property
    def curves(self) -> Curves:
        """Return the learning curves, of several models their mean."""
        with self.reading(self.folder.curves):
            return Curves(**json.loads(self.folder.curves.read_text(encoding="utf-8")))

    @contextmanager
    def reading(self, file: Path) -> Iterator[None]:
        """Say so where a file of the folder cannot be read, and how to make the run anew."""
        try:
            yield
        except TurnOverError:
            raise
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise RunError(
                f"{str(file)!r} is missing or damaged ({type(error).__name__}: {error}). Run it again: "
                f"{self.folder.again}"
            ) from error

    def load_model(self, kept: Path, plain: nn.Module) -> nn.Module:
        """Return a trained model of the run.

        Args:
            kept: where it is.
            plain: the network, not trained.

        Raises:
            RunError: it is missing or damaged.
        """
        try:
            return turnover.load(kept, model=plain).eval()
        except SavedModelError as error:
            # The last sentence is for those who saved the model themselves.
            problem = str(error).rpartition(". ")[0] or str(error)
            raise RunError(f"{problem}. Run it again: {self.folder.again}") from error
