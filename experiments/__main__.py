"""Run experiments: `python -m experiments table1 --size small`; without a name all of them."""

import argparse
import os
import sys
import time
from pathlib import Path

# Spinning threads cost up to 25 times on a shared machine; this must be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from turnover.errors import TurnOverError

from .index import write_index
from .runner import ROOT, SIZES, experiments, find, outside, publish, run
from .side_by_side import longest_first, run_side_by_side

RESULTS = ROOT / "docs" / "results"


def main(arguments: list[str] | None = None, *, results: Path = RESULTS) -> int:
    """Run what was asked for and return the exit code: 1 where something failed or left its expected range."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(experiments())}")
    parser.add_argument("--size", choices=SIZES, default="small", help="toy: seconds; full: the paper's own")
    parser.add_argument("--out", type=Path, help="folder of the run; needs one NAME (default: runs/NAME-SIZE)")
    parser.add_argument("--jobs", type=int, default=1, help="so many at a time, a process each (default: 1)")
    parser.add_argument("--list", action="store_true", help="show the experiments and end")
    given = parser.parse_args(arguments)
    if given.list:
        print("\n".join(experiments()))
        return 0
    if given.out is not None and len(given.names) != 1:
        parser.error("--out is the folder of one run: give one NAME with it")
    try:
        names = [find(name) for name in given.names] or experiments()
    except TurnOverError as error:
        parser.error(str(error))
    if given.jobs < 1:
        parser.error(f"--jobs must be 1 or more, not {given.jobs}")
    if given.jobs > 1 and len(names) > 1:
        start, order = time.monotonic(), longest_first(names, results)
        failed = run_side_by_side(order, size=given.size, jobs=given.jobs, runs=ROOT / "runs")
        print(f"all of them: {(time.monotonic() - start) / 60:.0f} min")
        print(write_index(results) if given.size != "toy" else "toys are not published")
    else:
        failed = [name for name in names if not _one(name, given.size, given.out, results)]
    if failed and len(names) > 1:
        print(f"not as expected: {', '.join(failed)}")
    return 1 if failed else 0


def _one(name: str, size: str, out: Path | None, results: Path) -> bool:
    """Run and publish one experiment; return whether all went as expected."""
    folder = out or ROOT / "runs" / f"{name}-{size}"
    try:
        record = run(name, size, folder)
    except TurnOverError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return False
    print(f"{name}: {folder / 'result.json'} (delete the folder to measure anew)")
    if size == "toy":
        return True
    page = publish(record, results)
    write_index(results)
    print(f"\n{page.read_text(encoding='utf-8')}\n{name}: {page}")
    problems = outside(record) if size == "small" else []
    for problem in problems:
        print(f"{name}: {problem}")
    return not problems


if __name__ == "__main__":
    sys.exit(main())
