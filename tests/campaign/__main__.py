"""The campaign: `python -m tests.campaign`, bounded in time on two cores; prints one table, and fails where it must.

`--page` only writes docs/reliability.md anew from docs/reliability.json; `--soak` runs the long soak of the live page.
"""

import argparse
import json
import sys

from tests.campaign.results import RESULTS, add_soak, page, table, written
from tests.campaign.runner import TRIALS, run_all

PAGE = RESULTS.with_suffix(".md")


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    options.add_argument("--seed", type=int, default=0, help="seed of all generated inputs")
    options.add_argument("--minutes", type=float, default=30.0, help="the whole campaign takes no longer")
    options.add_argument("--share", type=float, default=1.0, help="share of the inputs of each trial")
    options.add_argument("--jobs", type=int, default=2, help="trials at a time")
    options.add_argument("--only", help="trials whose names contain this; nothing is written")
    options.add_argument("--soak", type=float, metavar="MINUTES", help="instead, the live page under load for so long")
    options.add_argument("--page", action="store_true", help="instead, write the page of the last results anew")
    given = options.parse_args()
    if given.page:
        PAGE.write_text(page(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")
        return 0
    if given.soak:
        return add_soak(60 * given.soak, given.seed)
    chosen = [trial for trial in TRIALS if given.only is None or given.only in trial.name]
    tallies = run_all(chosen, seed=given.seed, share=given.share, seconds=60 * given.minutes, jobs=given.jobs)
    results = written(tallies, seed=given.seed, share=given.share, jobs=given.jobs, keep=given.only is None)
    print(table(results))
    for trial in results["trials"]:
        for line in (*trial["examples"], *trial["notes"]):
            print(f"{trial['name']}: {line}")
    return int(any(tally.failed for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
