"""Run experiments: `python -m turnover_bench.experiments table1 --size small`; without a name all of them.

With `--pages`, nothing is run: the pages of docs/results are written anew from the results that are kept there.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Spinning threads cost up to 25 times on a shared machine; this must be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from turnover.errors import TurnOverError

from .index import write_index
from .runner import ROOT, SIZES, experiments, find, module_of, outside, publish, read_json, run
from .timing import keep_freed_memory

RESULTS = ROOT / "docs" / "results"


def main(arguments: list[str] | None = None, *, results: Path = RESULTS) -> int:
    """Run experiments and return the exit code: 1 where something failed or left its expected range."""
    parser = argparse.ArgumentParser(prog="python -m turnover_bench.experiments", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(experiments())}")
    parser.add_argument("--size", choices=SIZES, default="small", help="toy: seconds; full: the paper's own")
    parser.add_argument("--out", type=Path, help="folder of the run; needs one NAME (default: runs/NAME-SIZE)")
    parser.add_argument("--jobs", type=int, default=1, help="experiments that run at a time (default: 1)")
    parser.add_argument("--pages", action="store_true", help="write the pages of published results, run nothing")
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
        parser.error(f"--jobs must be an integer >= 1, got {given.jobs}")
    if given.pages:
        for file in [file for name in names for file in sorted(results.rglob(f"{name}.json"))]:
            print(publish(read_json(file), results))
        print(write_index(results))
        return 0
    if given.jobs > 1 and len(names) > 1:
        start, order = time.monotonic(), longest_first(names, given.size, results)
        failed = run_side_by_side(order, size=given.size, jobs=given.jobs, runs=ROOT / "runs")
        print(f"all of them: {(time.monotonic() - start) / 60:.0f} min")
        print(write_index(results) if given.size != "toy" else "toys are not published")
    else:
        failed = [name for name in names if not _run_alone(name, given.size, given.out, results)]
    if failed and len(names) > 1:
        print(f"not as expected: {', '.join(failed)}")
    return 1 if failed else 0


def longest_first(names: Sequence[str], size: str, results: Path) -> list[str]:
    """Return the names by how long each took last, or needs; new ones first: no long one is left to run by itself."""

    def seconds(name: str) -> float:
        file = results / ("" if size == "small" else size) / f"{name}.json"
        if file.exists():
            return read_json(file)["seconds"]
        needs = getattr(module_of(name, "config"), "NEEDS", {}).get(size) if name in experiments() else None
        return float("inf") if needs is None else 3600 * needs.hours

    return sorted(names, key=lambda name: (-seconds(name), name))


def run_side_by_side(
    names: Sequence[str], *, size: str, jobs: int, runs: Path, tell: Callable[[str], None] = print
) -> list[str]:
    """Run experiments as commands of their own, one process and thread each; return the names of those that failed.

    Those whose config says `ALONE = True` have the machine to themselves. Their folders are NAME-SIZE in `runs`, their
    output is in its logs/; `tell` gets a line when an experiment begins and ends.
    """
    logs = runs / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    alone = [name for name in names if getattr(module_of(name, "config"), "ALONE", False)]
    together = [name for name in names if name not in alone]
    count = 0

    def run_command(name: str) -> bool:
        nonlocal count
        log, start = logs / f"{name}-{size}.log", time.monotonic()
        tell(f"{name} begins; its progress is in {log}")
        command = [
            sys.executable,
            "-m",
            "turnover_bench.experiments",
            name,
            "--size",
            size,
            "--out",
            str(runs / f"{name}-{size}"),
        ]
        with log.open("w", encoding="utf-8") as file:
            # One thread each: two processes on two cores, not four threads.
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            code = subprocess.run(command, stdout=file, stderr=file, env=environment, check=False).returncode
        count += 1
        how = "as expected" if code == 0 else f"not as expected, see {log}"
        tell(f"[{count}/{len(names)}] {name}: {(time.monotonic() - start) / 60:.1f} min, {how}")
        return code == 0

    as_expected: dict[str, bool] = {}
    for group, workers in ((alone, 1), (together, jobs)):
        with ThreadPoolExecutor(workers) as pool:
            as_expected |= dict(zip(group, pool.map(run_command, group), strict=True))
    return [name for name in names if not as_expected[name]]


def _run_alone(name: str, size: str, out: Path | None, results: Path) -> bool:
    """Run and publish one experiment; return whether all went as expected."""
    folder, config = out or ROOT / "runs" / f"{name}-{size}", module_of(name, "config")
    if not getattr(config, "ALONE", False) and not getattr(config, "MEASURES_MEMORY", False):
        keep_freed_memory()
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
    problems = outside(record)
    for problem in problems:
        print(f"{name}: {problem}")
    return not problems


if __name__ == "__main__":
    sys.exit(main())
