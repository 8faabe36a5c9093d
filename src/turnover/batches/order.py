"""Guards for rows that are counted: a stream must keep its order, and be read by one process."""

from torch.utils.data import get_worker_info

from turnover.errors import DataSetError, DuplicateIdError

from .content import digest

GUARDED_ROWS = 1024
"""Rows whose content is remembered, to notice that a stream changes its order."""


class OrderGuard:
    """Remembers what the first rows of a stream held, and refuses other rows in their place."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._digests: dict[int, int] = {}

    def check(self, number: int, row: object) -> None:
        """Raise if this row number held something else in an earlier epoch."""
        if number >= GUARDED_ROWS:
            return
        now = digest(row)
        if self._digests.setdefault(number, now) != now:
            raise DuplicateIdError(
                f"row {number} is not what it was in an earlier epoch, so two different rows would "
                'have one id. Your iterable changes its order: give id="column", or shuffle after '
                "with_instance_ids. If it changes its rows at random (augmentation), do that "
                "after with_instance_ids, too."
            )


def refuse_several_workers(count: int | None = None) -> None:
    """Raise if rows would be counted in several worker processes, each from 0.

    Args:
        count: the number of workers; None: those of the loader that this process works for.
    """
    if count is None:
        worker = get_worker_info()
        count = 0 if worker is None else worker.num_workers
    if count > 1:
        raise DataSetError(
            f"rows of an iterable cannot be counted by {count} workers: each starts from 0. Name "
            'the column that holds the id: with_instance_ids(data, id="column"), or use one worker.'
        )
