"""What a run of any kind has: its folder, its settings, how far it came and its learning curves."""

import json
from functools import cached_property
from pathlib import Path

from turnover.errors import RunError

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
        return Curves(**json.loads(self.folder.curves.read_text(encoding="utf-8")))
