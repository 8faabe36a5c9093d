"""The page of all results: the paper's numbers beside ours, every figure, and what each run took."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnover.storage import write_atomically
from turnover_bench.checks import markdown_table

from .findings import Finding, agreements, paragraphs
from .runner import expected_of, experiments, module_of, outside, read_json, time_words

PAPER = (
    "side_effects",
    "learning_curves",
    "error_sst2",
    "error_yahoo",
    "error_cifar10",
    "cleansing",
    "self_influence",
    "lm",
    "runtime",
    "table1",
    "variants",
)
"""As they come in the paper."""

_ABOUT = (
    "Everything here is generated from the numbers of the runs: `make repro` runs all experiments in their small "
    "setting, `make repro SIZE=medium` in one that is nearer to the paper, `make repro-NAME SIZE=full` one of them in "
    "the paper's own. Each title leads to a page with all its tables. A run that is stopped resumes with the same "
    "command, in its folder `runs/NAME-SIZE` or a copy of it. Checked at medium size with `kill -9`: `own_row`, killed "
    "three times, and `mask_dropout`, killed in the middle of a training, have the same numbers, bit for bit, as runs "
    "without a stop on the same processor."
)
_CLAIMS = (
    "What the paper claims, beside what we measured. [Fixed rules](#rules) turn the numbers into verdicts, the same "
    "for every setting; each verdict is about the largest setting that was run."
)
_TESTS = (
    "What follows from the paper's claims or stands behind them: tested here and not by the paper, by the same rules."
)
_RULES = (
    "A claim holds, or holds in part, where its numbers are as follows; else it does not hold here. What is "
    "significant is so at 5 %, or beyond two standard errors."
)


def write_index(folder: Path) -> Path:
    """Write the page that shows all results of a folder, beside the folder, and return its path."""
    records, larger = _records(folder), _records(folder / "medium")
    ours = [name for name in records if name not in PAPER]
    order = [name for name in (*PAPER, *ours) if name in records]
    largest = {**records, **larger}
    claims = [(name, one) for name in order for one in _findings(largest[name]) if one.claim]
    theirs, tests = ([pair for pair in claims if (pair[1].paper == "–") == own] for own in (False, True))
    lines = ["# Results", "## Claims of the paper", _CLAIMS, _claims(theirs, largest, folder)]
    lines += ["### Further tests", _TESTS, _claims(tests, largest, folder)] if tests else []
    lines.append(_ABOUT)
    lines.append("## The paper, and what we find")
    for name in PAPER:
        lines += _section(records[name], larger.get(name), folder) if name in records else _not_run(name)
    lines.append("## Beyond the paper")
    for name in ours:
        lines += _section(records[name], larger.get(name), folder)
    for name in experiments():
        lines += [] if name in records or name in PAPER else _not_run(name)
    runs = [record for name in order for record in (records[name], larger.get(name)) if record is not None]
    head = ["result", "experiment", "size", "minutes", "as expected"]
    table = markdown_table(head, [_run_row(record, folder) for record in runs])
    index = folder.with_suffix(".md")
    rules = markdown_table(["claim", "holds where"], [[one.claim, one.rule] for _, one in claims], padded=False)
    ends = [["## The runs", table], _medium_hours(larger), ["## Rules", _RULES, rules] if claims else []]
    write_atomically(index, paragraphs(lines, *ends) + "\n")
    return index


def _not_run(name: str) -> list[str]:
    return [f"### {name}", f"Not run yet: `make repro-{name.replace('_', '-')}`."]


def _records(folder: Path) -> dict[str, dict[str, Any]]:
    return {record["experiment"]: record for record in map(read_json, sorted(folder.glob("*.json")))}


def _claims(claims: Sequence[tuple[str, Finding]], records: dict[str, dict[str, Any]], folder: Path) -> str:
    """Return one row for every claim, each with the name of its experiment."""
    rows = [
        [one.claim, one.verdict or "–", one.paper, one.ours, one.setting, f"[{name}, {size}]({link})"]
        for name, one in claims
        for size, link in [(records[name]["size"], _link(records[name], folder))]
    ]
    return markdown_table(["claim", "verdict", "the paper", "here", "setting here", "page"], rows, padded=False)


def _link(record: dict[str, Any], folder: Path) -> str:
    within = "" if record["size"] in ("small", "full") else f"{record['size']}/"
    return f"{folder.name}/{within}{record['experiment']}.md"


def _section(record: dict[str, Any], larger: dict[str, Any] | None, folder: Path) -> list[str]:
    name = record["experiment"]
    title = _title(name, folder)
    shown = [(one, _findings(one)) for one in (larger, record) if one is not None]
    lines = [f"### [{title}]({_link(shown[0][0], folder)})"]
    findings = [finding for _, own in shown for finding in own]
    if findings:
        beside = any(finding.paper != "–" for finding in findings)
        head = ["result", *(["the paper"] if beside else []), "here", "setting here"]
        rows = [
            [one.what, *([one.paper] if beside else []), one.ours, _setting(one, of, larger)]
            for of, own in shown
            for one in own
        ]
        lines += [markdown_table(head, rows, padded=False), *agreements(shown[0][1])]
    if larger is not None:
        lines.append(
            f"These sentences are about the medium setting: [all its tables]({_link(larger, folder)}); "
            f"[those of the small one]({_link(record, folder)})."
        )
    figures = _figures(name, folder / "medium") if larger is not None else []
    if not figures:
        figures = _figures(name, folder)
        lines += ["The figure is that of the small setting."] if larger is not None and figures else []
    return [*lines, *(f"![{title}]({figure.relative_to(folder.parent).as_posix()})" for figure in figures)]


def _figures(name: str, folder: Path) -> list[Path]:
    return sorted([*folder.glob(f"{name}.svg"), *folder.glob(f"{name}-*.svg"), *folder.glob(f"{name}*.png")])


def _setting(finding: Finding, record: dict[str, Any], larger: dict[str, Any] | None) -> str:
    return finding.setting if larger is None else f"{record['size']} ({time_words(record)}): {finding.setting}"


def _medium_hours(larger: dict[str, dict[str, Any]]) -> list[str]:
    """Return what `make repro SIZE=medium` takes, experiment by experiment."""
    rows, hours = [], []
    for name in experiments():
        needs = getattr(module_of(name, "config"), "NEEDS", {}).get("medium")
        known = larger.get(name)
        took = "not run yet" if known is None else time_words(known)
        hours.append(needs.hours if needs else 0.0)
        rows.append([f"`make repro-{name.replace('_', '-')} SIZE=medium`", f"{needs.hours:g}" if needs else "–", took])
    about = (
        "Hours of one processor core: what to expect, and what the run took whose numbers stand here. `make repro "
        "SIZE=medium` runs all of them, two at a time, each on a core of its own: together about "
        f"{sum(hours) / 2:.0f} hours on two cores. Times vary threefold between processors. Where several "
        "processes worked in one folder, their times are added."
    )
    return ["## The medium setting", about, markdown_table(["command", "expected hours", "took"], rows)]


def _findings(record: dict[str, Any]) -> list[Finding]:
    if "findings" in record:  # of what is not an experiment of this folder, such as a benchmark
        return [Finding(**one) for one in record["findings"]]
    known = record["experiment"] in experiments()
    return module_of(record["experiment"], "page").findings(record["result"]) if known else []


def _run_row(record: dict[str, Any], folder: Path) -> list[str]:
    name = record["experiment"]
    known = name in experiments() and expected_of(name, record["size"])
    expected = "–" if not known else "no" if outside(record) else "yes"
    link = f"[{_title(name, folder)}]({_link(record, folder)})"
    minutes = record.get("processor_seconds", record["seconds"]) / 60
    return [link, f"`{name}`", record["size"], f"{minutes:.1f}", expected]


def _title(name: str, folder: Path) -> str:
    return (folder / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
