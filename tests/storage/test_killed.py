"""A writer may be killed at any moment; resumed, it ends with the same bytes as one that was not."""

import random
import signal

from tests.storage.sample import LONG, SHORT, fill_and_die, fill_slowly, make, open_store, tree
from turnover.storage import TileStore


def test_killed_at_random_moments_a_store_ends_with_the_same_bytes(tmp_path, processes):
    moments = random.Random()  # others each time
    left = []
    for _ in range(5):
        here, there = processes.Pipe()
        writer = processes.Process(target=fill_slowly, args=(tmp_path / "killed", there))
        writer.start()
        # Somewhere between its start and its sixth tile: so it always gets on, and never to the end.
        for _ in range(1 + moments.randrange(6)):
            here.recv()
        writer.join(moments.uniform(0, 0.01))
        writer.kill()
        writer.join()
        assert writer.exitcode == -signal.SIGKILL
        with open_store(tmp_path / "killed", LONG) as store:
            left.append(len(store.pending()))
    assert left == sorted(left, reverse=True)
    assert 0 < left[-1] < LONG["values"].tiles
    assert tree(make(tmp_path / "killed", LONG)) == tree(make(tmp_path / "whole", LONG))


def test_killed_before_any_change_on_the_disk_a_store_ends_with_the_same_bytes(tmp_path, processes):
    whole = tree(make(tmp_path / "whole", SHORT))
    for last in range(500):
        folder = tmp_path / str(last)
        writer = processes.Process(target=fill_and_die, args=(folder, last))
        writer.start()
        writer.join()
        if writer.exitcode == 0:
            break
        assert writer.exitcode == -signal.SIGKILL
        if (folder / "turnover-store.json").exists():
            TileStore.open_for_reading(folder)
        assert tree(make(folder, SHORT)) == whole, last
    assert tree(folder) == whole
    assert last > 25
