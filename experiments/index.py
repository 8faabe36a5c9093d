"""The page of all results: the paper's numbers beside ours, every figure, and what each run took."""

from pathlib import Path
from typing import Any

from turnover.evaluation import markdown_table
from turnover.storage import write_atomically

from .findings import Finding, agreements, paragraphs
from .runner import experiments, module_of, outside, read_json

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
    "setting, `make repro-NAME SIZE=medium` or `SIZE=full` one of them in a larger one. Each title leads to a page "
    "with all its tables."
)


def write_index(folder: Path) -> Path:
    """Write the page that shows all results of a folder, beside the folder, and return its path."""
    records = {record["experiment"]: record for record in map(read_json, sorted(folder.glob("*.json")))}
    ours = [name for name in records if name not in PAPER]
    lines = ["# Results", _ABOUT, "## The paper, and what we find"]
    for name in PAPER:
        not_run = [f"### {name}", f"Not run yet: `make repro-{name.replace('_', '-')}`."]
        lines += _section(records[name], folder) if name in records else not_run
    lines.append("## Beyond the paper")
    for name in ours:
        lines += _section(records[name], folder)
    rows = [_run_row(records[name], folder) for name in (*PAPER, *ours) if name in records]
    table = markdown_table(["result", "experiment", "size", "minutes", "as expected"], rows)
    index = folder.with_suffix(".md")
    write_atomically(index, paragraphs(lines, ["## The runs", table]) + "\n")
    return index


def _section(record: dict[str, Any], folder: Path) -> list[str]:
    name = record["experiment"]
    title = _title(name, folder)
    lines = [f"### [{title}]({folder.name}/{name}.md)"]
    findings = _findings(record)
    if findings:
        beside = any(finding.paper != "–" for finding in findings)
        head = ["result", *(["the paper"] if beside else []), "here", "setting here"]
        rows = [[one.what, *([one.paper] if beside else []), one.ours, one.setting] for one in findings]
        lines += [markdown_table(head, rows, padded=False), *agreements(findings)]
    figures = sorted([*folder.glob(f"{name}.svg"), *folder.glob(f"{name}-*.svg"), *folder.glob(f"{name}*.png")])
    return [*lines, *(f"![{title}]({folder.name}/{figure.name})" for figure in figures)]


def _findings(record: dict[str, Any]) -> list[Finding]:
    if "findings" in record:  # of what is not an experiment of this folder, such as a benchmark
        return [Finding(**one) for one in record["findings"]]
    known = record["experiment"] in experiments()
    return module_of(record["experiment"], "page").findings(record["result"]) if known else []


def _run_row(record: dict[str, Any], folder: Path) -> list[str]:
    name = record["experiment"]
    expected = "–" if record["size"] != "small" else "no" if outside(record) else "yes"
    link = f"[{_title(name, folder)}]({folder.name}/{name}.md)"
    return [link, f"`{name}`", record["size"], f"{record['seconds'] / 60:.1f}", expected]


def _title(name: str, folder: Path) -> str:
    return (folder / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
