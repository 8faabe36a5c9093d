"""The house stays as small as ARCHITECTURE.md says: lines and files per folder, and how far a call travels."""

from pathlib import Path

import pytest

from tests.calls import COUNTS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
LEEWAY = 1.03


def _table(heading: str) -> dict[str, list[int]]:
    """Return the numbers of each row of the table under a heading, by what its first column names."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {row[0].replace("`", "").strip(): [int(cell.replace(",", "")) for cell in row[1:3]] for row in rows}


LINES = _table("Budget of lines")
CALLS = _table("Budget of calls")


def _python_files(name: str) -> list[Path]:
    """Return the files of a row: those of a folder and below, or those beside the folders of the package."""
    if name == "src/turnover/*.py":
        return sorted((ROOT / "src/turnover").glob("*.py"))
    folders = [ROOT / part for part in name.split(" + ")]
    assert all(folder.is_dir() for folder in folders), name
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


def _size(name: str) -> tuple[int, int]:
    files = _python_files(name)
    return sum(path.read_text(encoding="utf-8").count("\n") for path in files), len(files)


@pytest.mark.parametrize("name", LINES)
def test_a_folder_keeps_to_its_lines_and_files(name):
    lines, files = _size(name)
    allowed = LINES[name]
    assert lines <= allowed[0] * LEEWAY, f"{name} has {lines} lines: take out what it can do without"
    assert files <= allowed[1] * LEEWAY, f"{name} has {files} files"


def test_every_folder_of_the_product_has_a_budget_and_the_whole_is_their_sum():
    package = ROOT / "src" / "turnover"
    named = {f"src/turnover/{path.name}" for path in package.iterdir() if (path / "__init__.py").exists()}
    parts = named | {"src/turnover/*.py"}
    assert parts <= LINES.keys()
    assert [sum(LINES[part][place] for part in parts) for place in (0, 1)] == LINES["src/turnover"]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_crosses_few_rooms(name):
    counts = COUNTS[name]()
    allowed = CALLS[name]
    assert all(count <= most for count, most in zip(counts.values(), allowed, strict=True)), (counts, allowed)
