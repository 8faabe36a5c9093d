"""The page of all results: the paper's numbers beside ours, every figure, and what each run took."""

import json
from pathlib import Path
from typing import Any

from .findings import Finding
from .runner import experiments, module_of, outside, write_text

# As they come in the paper.
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
_ABOUT = (
    "Everything here is generated from the numbers of the runs: `make repro` runs all experiments in their small "
    "setting, `make repro-NAME SIZE=medium` or `SIZE=full` one of them in a larger one. Each title leads to a page "
    "with all its tables."
)


def write_index(folder: Path) -> Path:
    """Write the page that shows all results of a folder, beside the folder, and return its path."""
    records = {
        record["experiment"]: record
        for file in sorted(folder.glob("*.json"))
        for record in [json.loads(file.read_text(encoding="utf-8"))]
    }
    ours = [name for name in records if name not in PAPER]
    lines = ["# Results", "", _ABOUT, "", "## The paper, and what we find", ""]
    for name in PAPER:
        lines += _section(records[name], folder) if name in records else [f"### {name}", "", _not_run(name), ""]
    lines += ["## Beyond the paper", ""]
    for name in ours:
        lines += _section(records[name], folder)
    lines += ["## The runs", "", "| result | experiment | size | minutes | as expected |"]
    lines += [
        "| --- | --- | --- | --- | --- |",
        *(_row(records[name], folder) for name in (*PAPER, *ours) if name in records),
    ]
    index = folder.with_suffix(".md")
    write_text(index, "\n".join(lines) + "\n")
    return index


def _section(record: dict[str, Any], folder: Path) -> list[str]:
    name = record["experiment"]
    lines = [f"### {_link(name, folder)}", ""]
    found = _findings(record)
    if found:
        beside = any(one.paper != "–" for one in found)
        head = ("what", "the paper", "here", "setting here") if beside else ("what", "here", "setting")
        lines += [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
        for one in found:
            cells = (one.what, *([one.paper] if beside else []), one.ours, one.setting)
            lines.append(f"| {' | '.join(map(_cell, cells))} |")
        lines += ["", *(f"- {one.agreement}" for one in found), ""]
    for figure in sorted([*folder.glob(f"{name}.svg"), *folder.glob(f"{name}-*.svg"), *folder.glob(f"{name}*.png")]):
        lines += [f"![{_title(name, folder)}]({folder.name}/{figure.name})", ""]
    return lines


def _findings(record: dict[str, Any]) -> list[Finding]:
    if "findings" in record:  # of what is not an experiment of this folder, such as a benchmark
        return [Finding(**one) for one in record["findings"]]
    if record["experiment"] not in experiments():
        return []
    page = module_of(record["experiment"], "page")
    return page.findings(record["result"]) if hasattr(page, "findings") else []


def _not_run(name: str) -> str:
    return f"Not run yet: `make repro-{name.replace('_', '-')}`."


def _row(record: dict[str, Any], folder: Path) -> str:
    verdict = "–" if record["size"] != "small" else "no" if outside(record) else "yes"
    name = record["experiment"]
    return f"| {_link(name, folder)} | `{name}` | {record['size']} | {record['seconds'] / 60:.1f} | {verdict} |"


def _link(name: str, folder: Path) -> str:
    return f"[{_title(name, folder)}]({folder.name}/{name}.md)"


def _title(name: str, folder: Path) -> str:
    return (folder / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
