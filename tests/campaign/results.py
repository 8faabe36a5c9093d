"""Results of a campaign: kept as JSON, shown as one table in the terminal and in docs/reliability.md."""

import datetime
import importlib.metadata
import json
import os
import platform
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.campaign.page import soak
from tests.campaign.runner import TRIALS
from tests.campaign.trial import FAILURES, Outcome, Tally
from turnover_bench.checks import markdown_table

RESULTS = Path(__file__).parents[2] / "docs" / "reliability.json"
_PACKAGES = "turnover torch numpy pandas pyarrow pillow hypothesis fastapi uvicorn schemathesis".split()
_MOST_GROWTH, _MOST_SECONDS = 0.05, 2.0


def written(
    tallies: Mapping[str, Tally], *, seed: int, share: float, jobs: int = 2, keep: bool = False
) -> dict[str, Any]:
    about = {trial.name: trial for trial in TRIALS}
    results: dict[str, Any] = {
        "seed": seed,
        "share": share,
        "jobs": jobs,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "load_average": round(os.getloadavg()[0], 1),
        "versions": _versions(),
        "trials": [
            {
                "name": name,
                "what": about[name].what,
                "judge": about[name].judge,
                "tried": tally.tried,
                **{outcome.value: tally.counts[outcome] for outcome in Outcome},
                "seconds": round(tally.seconds),
                "examples": tally.examples,
                "notes": tally.notes,
            }
            for name, tally in tallies.items()
        ],
    }
    if keep:
        former = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        results |= {"soak": former["soak"]} if "soak" in former else {}
        _write(results)
    return results


def _write(results: dict[str, Any]) -> None:
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    RESULTS.with_suffix(".md").write_text(page(results), encoding="utf-8")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def table(results: Mapping[str, Any]) -> str:
    total: Counter[str] = Counter()
    columns = ["tried", *Outcome]
    rows = []
    for trial in results["trials"]:
        rows.append([trial["name"], *(f"{trial[column]:,}" for column in columns)])
        total.update({column: trial[column] for column in columns})
    rows.append(["all", *(f"{total[column]:,}" for column in columns)])
    return markdown_table(["trial", *columns], rows)


def page(results: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    failures = ", ".join(f"*{outcome.value.capitalize()}*" for outcome in FAILURES)
    # The trials of the page differ in what they try; all others are one kind of trial on several things.
    judges = {
        trial["name"] if trial["name"].startswith("live page") else trial["name"].partition(":")[0]: trial
        for trial in results["trials"]
    }
    lines = [
        "# Reliability",
        "",
        "What happens to your data and results when something goes wrong: bad input, a killed process, a full disk, a",
        "damaged file, a flood of requests. `make campaign` tries all of these, in at most half an hour on two cores;",
        "`make test` runs a sample. Inputs are generated from a seed. Each answer is compared with a reference that",
        "does not come from the code under test.",
        "",
        f"The last campaign: {results['date']}, seed {results['seed']}, {results['jobs']} trials at a time, load "
        f"average {results['load_average']}; {versions}.",
        "",
        table(results).rstrip(),
        "",
        "*Correct*: the expected answer. *Rejected*: an error message that says what to do (on the live page, a",
        "status from 400 to 499, or 503 where too many requests wait). *Recovered*: the same command, given again,",
        "completes with the same answers.",
        f"{failures} must be 0: `make campaign` fails otherwise.",
        "",
        markdown_table(
            ["trial", "what is tried", "reference"],
            [[name, trial["what"], trial["judge"]] for name, trial in judges.items()],
            padded=False,
        ).rstrip(),
        "",
    ]
    notes = [f"- {trial['name']}: {note}" for trial in results["trials"] for note in trial["notes"]]
    lines += ["Notes of the trials:", "", *notes, ""] if notes else []
    if "soak" in results:
        lines += ["## Long soak of the live page", "", *_soak_lines(results["soak"]), ""]
    return "\n".join(lines)


def _soak_lines(soak: Mapping[str, Any]) -> list[str]:
    outcomes = ", ".join(f"{count:,} {name}" for name, count in soak["outcomes"].items())
    before, after = soak["load_average"]
    return [
        f"`make campaign SOAK=20`: {soak['clients']} clients ask and edit for {soak['seconds'] / 60:g} minutes on a "
        f"machine of two cores with a load average of {before} at the start and {after} at the end.",
        "",
        markdown_table(
            ["", "measured", "bound"],
            [
                [
                    "requests",
                    f"{soak['requests']:,}; with those of the warm-up {outcomes}",
                    "no lost edit, no other answer",
                ],
                [
                    "memory of the server",
                    f"{soak['memory_first_mb']:g} MB in the first quarter, {soak['memory_last_mb']:g} MB in the last "
                    f"({100 * soak['memory_growth']:+.1f} %)",
                    f"within {100 * _MOST_GROWTH:g} %",
                ],
                [
                    "time of a request",
                    f"median {soak['median_s']:g} s, p99 {soak['p99_s']:g} s, slowest {soak['slowest_s']:g} s",
                    f"p99 below {_MOST_SECONDS:g} s",
                ],
            ],
        ).rstrip(),
    ]


def add_soak(seconds: float, seed: int) -> int:
    """Run the soak and keep its figures beside the last campaign; return 1 where a bound does not hold."""
    found = soak(seconds, seed)
    print(json.dumps(found, indent=1))
    if RESULTS.exists():
        _write(json.loads(RESULTS.read_text(encoding="utf-8")) | {"soak": found})
    failed = any(found["outcomes"].get(outcome.value) for outcome in FAILURES)
    return int(failed or abs(found["memory_growth"]) > _MOST_GROWTH or found["p99_s"] > _MOST_SECONDS)
