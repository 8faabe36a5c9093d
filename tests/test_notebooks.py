"""Notebooks run, are kept with small outputs and pictures, and become pages of the site."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# The others are run by `make test-slow`.
FAST = "label_errors_in_a_table"


def cells_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def kinds(cell):
    """What a cell shows: the kinds of its outputs, in their order."""
    outputs = cell.get("outputs", [])
    return [sorted(output["data"]) if "data" in output else output["output_type"] for output in outputs]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_with_its_outputs_and_they_are_small(path):
    assert path.stat().st_size < 150_000
    code = [cell for cell in cells_of(path) if cell["cell_type"] == "code"]
    shown = [kind for cell in code for kind in kinds(cell)]
    assert any("image/png" in kind for kind in shown)
    assert "error" not in shown
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        for output in cell["outputs"]:
            assert output.get("name") != "stderr", output["text"]
            assert not re.search(r"/(tmp|home|root|work|Users)/", json.dumps(output.get("text", "")))


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path.stem == FAST else pytest.mark.slow) for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
def test_a_notebook_runs_and_shows_what_was_kept(path):
    pytest.importorskip("ipykernel", reason="ipykernel is missing: pip install nbclient ipykernel")
    notebooks = pytest.importorskip("tools.notebooks", reason="nbclient is missing: pip install nbclient ipykernel")
    again = notebooks.executed(path)
    assert [kinds(cell) for cell in again.cells] == [kinds(cell) for cell in cells_of(path)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_a_page_of_the_site(path):
    assert f": notebooks/{path.stem}.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)", "".join("".join(cell["source"]) for cell in cells_of(path))):
        assert "://" in target or (path.parent / target).exists(), target


def test_a_page_has_text_code_tables_and_pictures():
    spec = importlib.util.spec_from_file_location("notebook_pages", ROOT / "docs" / "hooks" / "notebooks.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["3 < 4\n"]},
        {"output_type": "display_data", "data": {"image/png": "AAEC", "text/plain": "<Figure>"}},
        {"output_type": "execute_result", "data": {"text/html": ["<table>", "</table>"], "text/plain": "Top"}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "[more](../docs/faq.md)"]},
        {"cell_type": "code", "source": ['print("3 < 4")'], "outputs": outputs},
    ]
    text, pictures = hook.page_of({"cells": cells}, "example")
    assert pictures == {"example-1.png": b"\0\1\2"}
    code, result = '```python\nprint("3 < 4")\n```', "<pre>3 &lt; 4</pre>"
    places = ["# Title", "](../faq.md)", code, result, "](example-1.png)", "<table></table>"]
    assert all(place in text for place in places)
    assert sorted(places, key=text.index) == places
