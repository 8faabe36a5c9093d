"""What `import turnover` loads, and what it offers."""

import ast
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import turnover

PACKAGE = Path(turnover.__file__).parent
FOLDERS = sorted({path.parent for path in PACKAGE.rglob("*.py")}, key=lambda path: path.relative_to(PACKAGE))


SUB_PACKAGES = ("applications", "baselines", "evaluation", "integrations")
STATEMENTS = (
    "import torch, numpy, tqdm",
    f"import turnover; assert {{*{SUB_PACKAGES}, *turnover.__all__}} <= set(dir(turnover))",
    "dir(turnover.integrations)",
    *(f"turnover.{name}" for name in SUB_PACKAGES),
)


@pytest.fixture(scope="module")
def loaded_after() -> dict[str, set[str]]:
    """Names of all modules that a fresh interpreter holds after each statement, one after the other."""
    code = "\n".join(f"{statement}\nimport sys; print(*sys.modules)" for statement in STATEMENTS)
    # -P: the current folder, with its tests and benchmarks, is no part of what users import.
    answer = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    return {
        statement: set(line.split()) for statement, line in zip(STATEMENTS, answer.stdout.splitlines(), strict=True)
    }


@pytest.mark.parametrize("statement", STATEMENTS[1:3], ids=["turnover", "integrations"])
def test_import_loads_no_third_party_package_beyond_torch_numpy_and_tqdm(loaded_after, statement):
    # Extension modules leave names such as cython_runtime behind that are no packages.
    allowed, loaded = (
        {name.split(".")[0] for name in loaded_after[after]} & packages_distributions().keys() - sys.stdlib_module_names
        for after in (STATEMENTS[0], statement)
    )
    assert {"torch", "numpy", "tqdm"} <= allowed
    assert loaded - allowed <= {"turnover"}


@pytest.mark.parametrize("name", SUB_PACKAGES)
def test_sub_packages_are_loaded_when_they_are_used(loaded_after, name):
    assert f"turnover.{name}" not in loaded_after[STATEMENTS[1]]
    assert f"turnover.{name}" in loaded_after[f"turnover.{name}"]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'turnover' has no attribute 'rap'"):
        _ = turnover.rap


def test_public_names_are_sorted_and_at_most_twenty():
    assert turnover.__all__ == sorted(turnover.__all__)
    assert len(turnover.__all__) == len(set(turnover.__all__)) <= 20


def test_every_public_name_resolves():
    missing = [name for name in turnover.__all__ if not hasattr(turnover, name)]
    assert not missing


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_folder_says_what_it_owns(folder):
    source = folder / "__init__.py"
    assert source.is_file(), f"{folder} has no __init__.py"
    assert ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))
