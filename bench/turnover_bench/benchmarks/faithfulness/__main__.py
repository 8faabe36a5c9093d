"""Run the comparison, or parts of it; what is finished is not run again."""

import argparse
import os
from pathlib import Path

# Spinning threads cost up to 25 times on a shared machine; this must be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from turnover_bench.experiments.runner import read_json

from .run import publish, run, write_page
from .tasks import SIZES

RUNS, PAGES = Path("runs/faithfulness"), Path("docs/results")


def main() -> None:
    """Do what was asked for; without options all of it."""
    parser = argparse.ArgumentParser(prog="python -m turnover_bench.benchmarks.faithfulness", description=__doc__)
    parser.add_argument("--size", choices=list(SIZES), default="full")
    parser.add_argument("--task", action="append", help="only this task; may be repeated")
    parser.add_argument("--method", action="append", help="only this method; may be repeated")
    parser.add_argument("--seed", action="append", type=int, help="only this seed; may be repeated")
    parser.add_argument("--page", action="store_true", help="only write the page from what is measured")
    parser.add_argument("--published", action="store_true", help="only write the page from the published numbers")
    asked = parser.parse_args()
    if asked.published:
        print(write_page(read_json(PAGES / "faithfulness.json"), PAGES))
        return
    config, folder = SIZES[asked.size], RUNS / asked.size
    tasks = asked.task or list(config.tasks)
    unknown = [task for task in tasks if task not in config.tasks]
    if unknown:
        parser.error(f"there is no task {', '.join(unknown)}; there are {', '.join(config.tasks)}")
    if not asked.page:
        run(config, folder, tasks=tasks, method_names=asked.method, seeds=asked.seed)
    if asked.size != "toy":
        print(publish(config, asked.size, folder, PAGES))


if __name__ == "__main__":
    main()
