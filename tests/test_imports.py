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


SUB_PACKAGES = ("applications", "evaluation", "integrations")
ALONE, NAMES, CORE, INTEGRATIONS = STATEMENTS = (
    f"import turnover; assert {{*{SUB_PACKAGES}, *turnover.__all__}} <= set(dir(turnover))",
    "turnover.TurnOverError; turnover.__version__",
    "turnover.Influence; turnover.Scores; turnover.wrap; turnover.instances; turnover.with_instance_ids",
    "dir(turnover.integrations)",
)


@pytest.fixture(scope="module")
def loaded_after() -> dict[str, set[str]]:
    statements = ("import torch, numpy, tqdm", *STATEMENTS, *(f"turnover.{name}" for name in SUB_PACKAGES))
    code = "\n".join(f"{statement}\nimport sys; print(*sys.modules)" for statement in statements)
    # -P: the current folder, with its tests and benchmarks, is no part of what users import.
    answer = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    return {
        statement: set(line.split()) for statement, line in zip(statements, answer.stdout.splitlines(), strict=True)
    }


@pytest.mark.parametrize("statement", [ALONE, NAMES])
def test_import_alone_loads_neither_torch_nor_any_other_package(statement):
    code = f"import turnover\n{statement}\nimport sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True).stdout
    own = {name for name in loaded.split() if name.split(".")[0] == "turnover"}
    assert own == {"turnover", "turnover._version", "turnover.errors"}
    assert not {"torch", "numpy", "tqdm"} & set(loaded.split())


@pytest.mark.parametrize("statement", [CORE, INTEGRATIONS], ids=["core", "integrations"])
def test_the_core_loads_no_third_party_package_beyond_torch_numpy_and_tqdm(loaded_after, statement):
    # Extension modules leave names such as cython_runtime behind that are no packages.
    allowed, loaded = (
        {name.split(".")[0] for name in loaded_after[after]} & packages_distributions().keys() - sys.stdlib_module_names
        for after in ("import torch, numpy, tqdm", statement)
    )
    assert {"torch", "numpy", "tqdm"} <= allowed
    assert loaded - allowed <= {"turnover"}


@pytest.mark.parametrize("name", SUB_PACKAGES)
def test_sub_packages_are_loaded_when_they_are_used(loaded_after, name):
    assert f"turnover.{name}" not in loaded_after[CORE]
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
