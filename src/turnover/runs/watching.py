"""Who watches a run: told of every stage and step, so that a terminal can show a bar."""

from typing import Protocol


class Watch(Protocol):
    """Called as work goes on."""

    def __call__(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Take note that `done` of `total` steps of a stage are finished."""
        ...


def unwatched(stage: str, done: int, total: int, note: str = "") -> None:
    """Take no note of anything."""
