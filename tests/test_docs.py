"""What the docs show runs: README and docs snippets, examples in docstrings, links between pages."""

import contextlib
import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
import torch

import turnover
from turnover.errors import MissingExtraError
from turnover.runs import RunConfig

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(turnover.__path__, "turnover.")
    if not name.startswith("turnover.ui.terminal")  # needs an extra; its output is tested in tests/cli
] + [
    ".".join(path.relative_to(ROOT / "bench").with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "bench" / "turnover_bench").rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@contextlib.contextmanager
def missing_extras_skipped():
    """Skip with what to install where a package of an extra is missing; a module of our own never is."""
    try:
        yield
    except MissingExtraError as error:
        pytest.skip(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("turnover"):
            raise
        pytest.skip(f"{error.name} is missing: pip install 'turnover[all]'")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_of_a_page_run_one_after_the_other(page):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    for block in blocks:
        with missing_extras_skipped():
            exec(compile(block, str(page), "exec"), names)


def test_the_readme_shows_a_first_result_in_about_twenty_lines():
    block = re.search(r"## Twenty lines\n\n```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert block is not None
    assert len([line for line in block[1].splitlines() if line.strip()]) <= 25


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name):
    with missing_extras_skipped():
        module = importlib.import_module(name)
    torch.manual_seed(0)
    result = doctest.testmod(module, extraglobs={"torch": torch, "turnover": turnover})
    assert result.failed == 0


def test_every_public_function_has_an_example():
    for name in turnover.__all__:
        thing = getattr(turnover, name)
        is_error = isinstance(thing, type) and issubclass(thing, Exception)
        if callable(thing) and not is_error and name != "load":  # save shows load; sub-packages cannot be called
            assert ">>>" in (thing.__doc__ or ""), name


def test_the_api_page_has_every_name_that_pages_import():
    def thing(path: str) -> object:
        folder, _, name = path.rpartition(".")
        module = importlib.import_module(folder)
        return getattr(module, name) if hasattr(module, name) else importlib.import_module(path)

    shown = re.findall(r"^::: (\S+)", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    imports = re.findall(r"^from (turnover\.[\w.]+) import ([\w, ]+)$", pages, flags=re.MULTILINE)
    # Of a folder that is shown, all names are.
    names = {f"{folder}.{name}" for folder, named in imports if folder not in shown for name in named.split(", ")}
    assert len(names) > 10
    with missing_extras_skipped():
        things = [thing(path) for path in shown]
        assert [name for name in sorted(names) if not any(thing(name) is one for one in things)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            # On the site, and only there, notebooks are pages of docs/notebooks.
            notebook = (ROOT / target).with_suffix(".ipynb")
            assert (page.parent / target).exists() or (target.startswith("notebooks/") and notebook.exists()), target


def test_the_page_of_settings_has_every_variable_and_option():
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    code = [path for name in ("src", "bench/turnover_bench") for path in (ROOT / name).rglob("*.py")]
    sources = [ROOT / "Makefile", *code]
    variables = {name for path in sources for name in re.findall(r"\bTURNOVER_[A-Z]+\b", path.read_text("utf-8"))}
    options = {f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(RunConfig)} - {"--data"}
    arguments = {*inspect.signature(turnover.wrap).parameters, *inspect.signature(turnover.Influence).parameters}
    named = variables | options | (arguments - {"model", "renamed"})
    assert len(named) > 40
    assert [name for name in sorted(named) if f"`{name}`" not in page] == []
