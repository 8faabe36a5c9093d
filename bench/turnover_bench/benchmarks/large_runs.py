"""Whole runs of the command line on many rows: time, peak memory, and how good the estimate of the time left was.

    python -m turnover_bench.benchmarks.large_runs text 100000
    python -m turnover_bench.benchmarks.large_runs table 1000000

They take long, and are no part of `make bench`. Texts are real ones of several data sets in TURNOVER_DATA, each labeled
by its set and its label there; of more than there are, further ones are pairs of them. Tables are generated: eight
columns of numbers, one of counts, one of categories, some cells missing. The command draws on a terminal of its own,
and what it shows there is compared with the truth.
"""

import csv
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

_SHARES = (0.1, 0.25, 0.5, 0.75)
_LEFT = re.compile(rb"about (?:(\d+) h )?(?:(\d+) min ?)?(?:([\d.]+) s)? ?left")
_SECONDS = (3600, 60, 1)


def main() -> None:
    """Make the data, run, and print what it took."""
    kind, rows = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as held:
        data = Path(held) / f"{kind}.csv"
        with data.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(_texts(rows) if kind == "text" else _table(rows))
        print(f"{kind}: {rows:,} rows, {data.stat().st_size / 1e6:.0f} MB; load average {os.getloadavg()[0]:.1f}")
        label = ["--label", "label"]
        _measure(["run", str(data), *label, *(["--text", "text"] if kind == "text" else []), "--out", f"{held}/run"])


def _measure(command: list[str]) -> None:
    """Run a command, and print its time, its peak memory, and its estimates beside the truth."""
    ours, theirs = pty.openpty()
    began, shown, peak = time.monotonic(), [], 0
    code = "import sys; from turnover.ui.terminal import main; sys.exit(main())"
    process = subprocess.Popen([sys.executable, "-c", code, *command], stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    for written in _written(ours):
        passed = time.monotonic() - began
        shown += [(passed, _seconds(found)) for found in _LEFT.findall(written)[-1:]]
        peak = max(peak, _peak_memory(process.pid))
    took = time.monotonic() - began
    if process.wait():
        sys.exit(f"the run ended with {process.returncode}: turnover {' '.join(command)}")
    print(f"  {took:.0f} s, peak memory {peak / 1e6:.1f} GB, load average {os.getloadavg()[0]:.1f}")
    for share in _SHARES:
        before = [left for passed, left in shown if passed <= share * took]
        if before:
            truth = (1 - share) * took
            print(f"  after {share:.0%} of the time: about {before[-1]:.0f} s left, in truth {truth:.0f} s")


def _written(terminal: int) -> Iterator[bytes]:
    """Yield what is written on a terminal until it is closed."""
    while True:
        try:
            written = os.read(terminal, 65536)
        except OSError:  # Linux says so where the other side is closed
            return
        if not written:
            return
        yield written


def _seconds(found: tuple[bytes, ...]) -> float:
    return sum(float(part or 0) * unit for part, unit in zip(found, _SECONDS, strict=True))


def _peak_memory(pid: int) -> int:
    """Return the largest resident memory of a process so far, in kB; 0 where it has ended."""
    try:
        about = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+)", about)
    return int(found[1]) if found else 0


def _texts(rows: int) -> list[tuple[str, str]]:
    data = Path(os.environ.get("TURNOVER_DATA") or "data")
    files = [
        *((f"sst2/{name}.tsv", "sentence", "sst2") for name in ("train", "dev", "test")),
        ("electronics/electronics.tsv", "text", "electronics"),
        ("yahoo-answers/yahoo_answers.tsv", "text", "yahoo"),
        *((f"mnli/{name}.tsv", "hypothesis", "mnli") for name in ("train", "validation")),
    ]
    found: list[tuple[str, str]] = []
    for name, column, source in files:
        with (data / name).open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            found += [(line[column].strip(), f"{source} {line['label']}") for line in lines]
    passages = (data / "wikitext-2" / "train.txt").read_text(encoding="utf-8").splitlines()
    found += [(line.strip(), "wikitext") for line in passages if len(line.split()) > 20]
    found = [row for row in found if row[0]]
    rng = np.random.default_rng(0)
    chosen = [found[place] for place in rng.permutation(len(found))]
    while len(chosen) < rows:
        one, other = (found[place] for place in rng.integers(0, len(found), 2))
        chosen.append((f"{one[0]} {other[0]}", one[1]))
    return [("text", "label"), *chosen[:rows]]


def _table(rows: int) -> Iterator[list[str]]:
    rng = np.random.default_rng(1)
    weights, effects = rng.normal(size=(8, 4)), rng.normal(size=(12, 4))
    yield [*(f"number {place}" for place in range(8)), "region", "count", "label"]
    for start in range(0, rows, 10_000):
        x, regions = rng.normal(size=(min(10_000, rows - start), 8)), rng.integers(0, 12, min(10_000, rows - start))
        scores = x @ weights + effects[regions] + 2 * np.tanh(x[:, :4]) * x[:, 4:] + rng.gumbel(size=(len(x), 4))
        cells = np.where(rng.random(x.shape) < 0.01, "", np.char.mod("%.6f", x))
        counts = rng.poisson(20, len(x))
        for row, region, count, label in zip(cells, regions, counts, scores.argmax(1), strict=True):
            yield [*row, f"region {region}", str(count), "abcd"[label]]


if __name__ == "__main__":
    main()
