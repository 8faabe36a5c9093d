"""Jobs run one after the other, the queue has a bound, and nobody waits for ever."""

import asyncio
import threading
import time

import pytest

from turnover.ui.web.responses import BusyError, TooSlowError
from turnover.ui.web.site import WorkQueue


def test_jobs_run_one_at_a_time_and_in_their_order():
    queue, running, seen = WorkQueue(most_waiting=50), [], []

    def job(number: int) -> int:
        running.append(number)
        assert len(running) == 1
        time.sleep(0.002)
        seen.append(running.pop())
        return number

    async def ask() -> list[int]:
        return await asyncio.gather(*(queue.run(lambda number=number: job(number)) for number in range(20)))

    assert asyncio.run(ask()) == list(range(20)) == seen
    queue.close()


def test_a_full_queue_refuses_at_once_and_takes_jobs_again_later():
    queue, go_on = WorkQueue(most_waiting=2), threading.Event()

    async def ask() -> None:
        waiting = [asyncio.ensure_future(queue.run(go_on.wait)) for _ in range(3)]
        await asyncio.sleep(0.05)
        began = time.monotonic()
        with pytest.raises(BusyError):
            await queue.run(lambda: None)
        assert time.monotonic() - began < 1
        go_on.set()
        await asyncio.gather(*waiting)
        assert await queue.run(lambda: "again") == "again"

    asyncio.run(ask())
    assert len(queue) == 0
    queue.close()


def test_a_job_that_nobody_waits_for_any_more_is_never_run():
    queue, go_on, ran = WorkQueue(seconds=0.1), threading.Event(), []

    async def ask() -> None:
        slow = asyncio.ensure_future(queue.run(go_on.wait))
        late = asyncio.ensure_future(queue.run(lambda: ran.append("late")))
        for one in (slow, late):
            with pytest.raises(TooSlowError):
                await one
        assert len(queue) == 1  # the one that runs still holds its place
        go_on.set()
        assert await queue.run(lambda: "next") == "next"

    asyncio.run(ask())
    assert ran == []
    queue.close()


def test_what_a_job_raises_reaches_who_asked():
    queue = WorkQueue()

    def fail() -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        asyncio.run(queue.run(fail))
    queue.close()
