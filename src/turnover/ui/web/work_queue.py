"""One worker for the model: requests wait in a queue with a bound, and not for ever."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class QueueFullError(Exception):
    """So many requests wait that another would wait too long."""

    def __init__(self) -> None:
        super().__init__("too many requests are waiting. Try again in a few seconds.")


class TooSlowError(Exception):
    """The answer did not come in time."""

    def __init__(self) -> None:
        super().__init__("the model did not answer in time. Try again, or send a shorter text.")


class WorkQueue:
    """Runs jobs one after the other in a thread of its own.

    A job that nobody waits for any more is taken out of the queue; one that runs already is finished, and counts as
    waiting until then, so that nothing piles up behind a slow model.
    """

    def __init__(self, *, most_waiting: int = 32, seconds: float = 30.0) -> None:
        self.most_waiting, self.seconds = most_waiting, seconds
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._unfinished: set[Future[Any]] = set()
        self._lock = threading.Lock()
        # A daemon, so that Ctrl-C does not wait for a job that nobody needs any more.
        threading.Thread(target=self._work, name="turnover-model", daemon=True).start()

    @property
    def unfinished(self) -> int:
        """Return how many jobs wait or run."""
        return len(self._unfinished)

    async def run(self, job: Callable[[], T]) -> T:
        """Return what a job returns."""
        future = self.start(job)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.seconds)
        except TimeoutError as error:
            if future.done() and not future.cancelled():  # the job itself raised this
                raise
            raise TooSlowError from error

    def start(self, job: Callable[[], T]) -> "Future[T]":
        """Put a job into the queue."""
        with self._lock:
            if len(self._unfinished) > self.most_waiting:
                raise QueueFullError
            future: Future[T] = Future()
            self._unfinished.add(future)
        future.add_done_callback(self._forget)
        self._jobs.put((future, job))
        return future

    def close(self) -> None:
        """Let the running job end, and no other begin."""
        for future in list(self._unfinished):
            future.cancel()
        self._jobs.put(None)

    def _work(self) -> None:
        while (next_job := self._jobs.get()) is not None:
            future, job = next_job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = job()
            except BaseException as error:  # noqa: BLE001 - whoever asked is told
                future.set_exception(error)
            else:
                future.set_result(result)

    def _forget(self, future: Future[Any]) -> None:
        with self._lock:
            self._unfinished.discard(future)
