"""Writers that are killed, run out of room, or meet each other.

The judge knows what an undisturbed writer leaves. After a kill or on a full disk the same call must end with the same
answers; what cannot be resumed counts as lost, and so does an edit that was acknowledged and is gone.
"""

import contextlib
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.campaign.damages import KEPT, Answers, answers_of, configs, difference
from tests.campaign.trial import Budget, Outcome, Tally, judged
from tests.storage.sample import die_before
from turnover.errors import TurnOverError
from turnover.runs import open_run, start_run
from turnover.ui.web.corrections import MarkBook

_NEVER = -1
_PATIENCE = 120.0
_MEGABYTE = 2**20
_IMPORTED_ON_USE = ["pandas", "PIL.Image", "scipy.stats", "zarr", "torch._dynamo"]


@dataclass(frozen=True)
class Job:
    write: Callable[[Path], Any]
    answers: Callable[[Path], Answers]


def _write_run(kind: str, folder: Path, seed: int = 0) -> None:
    start_run(replace(configs(folder.parent)[kind](), seed=seed), folder)


JOBS = {
    **{f"{kind} run": Job(partial(_write_run, kind), answers_of) for kind in ("table", "image")},
    **{name: Job(partial(KEPT[name].make, seed=0), KEPT[name].answers) for name in ("score folder", "saved model")},
}


def _processes() -> Any:
    """Return what makes forks of a process that has imported everything and runs no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.campaign.interruptions", *_IMPORTED_ON_USE])
    return context


def _write_and_die(name: str, folder: Path, last: int, answer: Connection) -> None:
    """Write in a process that kills itself before a change; say how many changes there were, where it lives on."""
    warnings.simplefilter("ignore")
    counted = die_before(last, folder)
    JOBS[name].write(folder)
    answer.send(counted())


def _die(name: str, folder: Path, last: int) -> int | None:
    """Return how many changes a writer made; None where it was killed before the change of this number."""
    processes = _processes()
    here, there = processes.Pipe()
    writer = processes.Process(target=_write_and_die, args=(name, folder, last, there))
    writer.start()
    there.close()
    try:
        return here.recv() if here.poll(_PATIENCE) else None
    except EOFError:
        return None
    finally:
        writer.join(_PATIENCE)
        writer.kill()


@contextlib.contextmanager
def _place() -> Iterator[tuple[Path, Path]]:
    """Yield a folder for what is written and one for what an undisturbed writer leaves; data lies beside both."""
    with tempfile.TemporaryDirectory(prefix="turnover-campaign-") as held:
        (Path(held) / "data").mkdir()
        yield Path(held) / "data" / "out", Path(held) / "data" / "whole"


def _after(job: Job, folder: Path, before: Answers) -> tuple[Outcome, str]:
    """Return how a folder that a writer left ends: looked at as it is, then written by the same call again."""
    outcome, about = judged(lambda: difference(job.answers(folder), before))
    if outcome not in (Outcome.REJECTED, Outcome.RIGHT):
        return outcome, f"opened at once: {about}"

    def again() -> str:
        job.write(folder)
        return difference(job.answers(folder), before)

    resumed, more = judged(again)
    if resumed is Outcome.REJECTED:
        return Outcome.LOST, more
    return (Outcome.REPAIRED if resumed is Outcome.RIGHT else resumed), more


def try_kills(name: str, most: int, budget: Budget, tally: Tally) -> None:
    """Kill a writer before changes on the disk that the seed chooses; all of them where there are fewer."""
    job, draw = JOBS[name], random.Random(f"{budget.seed} kill {name}")
    with _place() as (folder, whole):
        changes = _die(name, whole, _NEVER)
        assert changes, "the undisturbed writer must end"
        before = job.answers(whole)
        for last in draw.sample(range(changes), min(changes, budget.count(most))):
            if budget.over:
                return
            _die(name, folder, last)
            outcome, about = _after(job, folder, before)
            tally.add(outcome, f"{name} killed before change {last} of {changes} -> {about}")
            shutil.rmtree(folder, ignore_errors=True)


def _limited(name: str, folder: Path, most: int, answer: Connection) -> None:
    """Write in a process whose files may have so many bytes, which is what a user without rights can do."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    answer.send(judged(lambda: JOBS[name].write(folder) or ""))


@contextlib.contextmanager
def _small_disk(folder: Path) -> Iterator[Callable[[int], None] | None]:
    """Mount a disk in memory whose size can be set; None where that is not allowed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        yield None
        return
    try:
        yield (
            lambda size: (
                subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True, capture_output=True)
                and None
            )
        )
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def try_full_disks(name: str, most: int, budget: Budget, tally: Tally) -> None:
    """Let a writer run out of room at sizes that the seed chooses, then make room and call it again."""
    job, draw = JOBS[name], random.Random(f"{budget.seed} full {name}")
    with _place() as (_, whole), _small_disk(whole.parent / "disk") as resize:
        job.write(whole)
        before = job.answers(whole)
        sizes = [file.stat().st_size for file in whole.rglob("*") if file.is_file()]
        folder = whole.parent / "disk" / "out"
        if resize is not None:
            for name_ in ("things.csv", "tale.txt", "bars"):  # data lies beside a run
                source = whole.parent / name_
                if source.exists():
                    (shutil.copytree if source.is_dir() else shutil.copy)(source, folder.parent / name_)
            before = {key: value for key, value in before.items() if key not in ("config", "settings")}
        used = sum(file.stat().st_size for file in folder.parent.rglob("*") if file.is_file())
        for _ in range(budget.count(most)):
            if budget.over:
                return
            if resize is not None:
                room = draw.randrange(4096, sum(sizes) + 4096 * len(sizes))
                resize(used + 4096 * 80 + room)
                outcome, about = judged(lambda: job.write(folder) or "")
                resize(64 * _MEGABYTE)
            else:
                room = draw.randrange(1, max(sizes))
                outcome, about = _in_process(_limited, name, folder, room)
            if outcome is Outcome.TRACEBACK:
                tally.add(outcome, f"{name} with {room} bytes of room -> {about}")
            else:
                after, more = _after(job, folder, before)
                tally.add(after, f"{name} with {room} bytes of room -> {about} Then: {more}")
            shutil.rmtree(folder, ignore_errors=True)


def _in_process(target: Callable[..., None], *arguments: Any) -> Any:
    processes = _processes()
    here, there = processes.Pipe()
    one = processes.Process(target=target, args=(*arguments, there))
    one.start()
    there.close()
    try:
        return here.recv() if here.poll(_PATIENCE) else (Outcome.LOST, "no answer")
    except EOFError:
        return Outcome.TRACEBACK, "the process ended without a word"
    finally:
        one.join(_PATIENCE)
        one.kill()


def _race(folder: Path, seed: int, start: Any, answer: Connection) -> None:
    warnings.simplefilter("ignore")
    start.wait(_PATIENCE)
    answer.send(judged(lambda: _write_run("table", folder, seed) or ""))


def try_two_writers(most: int, budget: Budget, tally: Tally) -> None:
    draw = random.Random(f"{budget.seed} two writers")
    with _place() as (folder, whole):
        before = []
        for seed in (0, 1):
            _write_run("table", whole.with_name(f"whole{seed}"), seed)
            before.append(answers_of(whole.with_name(f"whole{seed}")))
        processes = _processes()
        for _ in range(budget.count(most)):
            if budget.over:
                return
            seeds = draw.choice([(0, 1), (1, 0), (0, 0)])
            start, said = processes.Barrier(2), []
            pipes = [processes.Pipe() for _ in seeds]
            writers = [
                processes.Process(target=_race, args=(folder, seed, start, there))
                for seed, (_, there) in zip(seeds, pipes, strict=True)
            ]
            for writer in writers:
                writer.start()
            for here, _ in pipes:
                said.append(here.recv() if here.poll(_PATIENCE) else (Outcome.LOST, "no answer"))
            for writer in writers:
                writer.join(_PATIENCE)
                writer.kill()
            tally.add(*_race_outcome(seeds, said, folder, before))
            shutil.rmtree(folder, ignore_errors=True)


def _race_outcome(
    seeds: tuple[int, int], said: list[tuple[Outcome, str]], folder: Path, before: list[Answers]
) -> tuple[Outcome, str]:
    """Return how a race ended: the folder must be that of a writer who said that it had ended well."""
    about = f"two writers with seeds {seeds}: {said}"
    for outcome, _ in said:
        if outcome not in (Outcome.RIGHT, Outcome.REJECTED):
            return outcome, about
    done = {seed for seed, (outcome, _) in zip(seeds, said, strict=True) if outcome is Outcome.RIGHT}
    if len(done) != 1:
        return (Outcome.LOST if not done else Outcome.DIFFERENT), about
    outcome, more = judged(lambda: difference(answers_of(folder), before[done.pop()]))
    rejected = any(one is Outcome.REJECTED for one, _ in said)
    return (Outcome.REJECTED if rejected and outcome is Outcome.RIGHT else outcome), f"{about} {more}"


def _mark_until_killed(folder: Path, rows: list[int], answer: Connection) -> None:
    book = MarkBook(open_run(folder))
    for row in rows:
        with contextlib.suppress(TurnOverError):  # another writer was faster than its patience
            book.put(row, "large")
            answer.send(row)
    answer.send("done")


def try_edits(most: int, budget: Budget, tally: Tally) -> None:
    """Let two servers mark rows of one run and kill one of them; every mark that was acknowledged must be there."""
    draw = random.Random(f"{budget.seed} edits")
    processes = _processes()
    with _place() as (folder, _):
        _write_run("table", folder)
        for _ in range(budget.count(most)):
            if budget.over:
                return
            pipes = [processes.Pipe() for _ in range(2)]
            rows = draw.sample(range(48), 40)
            writers = [
                processes.Process(target=_mark_until_killed, args=(folder, rows[place::2], there))
                for place, (_, there) in enumerate(pipes)
            ]
            for writer in writers:
                writer.start()
            acknowledged: list[Any] = []
            for _ in range(1 + draw.randrange(15)):
                acknowledged.append(pipes[0][0].recv())
            writers[0].kill()
            writers[0].join()
            with contextlib.suppress(EOFError):
                pipes[0][1].close()
                while pipes[0][0].poll():
                    acknowledged.append(pipes[0][0].recv())
            while (row := pipes[1][0].recv()) != "done":
                acknowledged.append(row)
            writers[1].join(_PATIENCE)
            kept = {mark.row for mark in MarkBook(open_run(folder)).all}
            gone = set(acknowledged) - kept - {"done"}
            tally.add(Outcome.LOST if gone else Outcome.RIGHT, f"marks of rows {sorted(gone)} are gone")
            (folder / "marks.json").unlink(missing_ok=True)
