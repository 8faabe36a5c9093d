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


def packages_loaded_by(statement: str) -> set[str]:
    """Names of the installed packages that a fresh interpreter holds after a statement."""
    code = f"{statement}; import sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    # -P: the current folder, with its tests and benchmarks, is no part of what users import.
    answer = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    # Extension modules leave names such as cython_runtime behind that are no packages.
    return set(answer.stdout.split()) & packages_distributions().keys() - sys.stdlib_module_names


def test_import_loads_no_third_party_package_beyond_torch_numpy_and_tqdm():
    allowed = packages_loaded_by("import torch, numpy, tqdm")
    assert {"torch", "numpy", "tqdm"} <= allowed
    assert packages_loaded_by("import torch, numpy, tqdm, turnover") - allowed <= {"turnover"}


def test_sub_packages_are_loaded_when_they_are_used():
    names = ("applications", "baselines", "evaluation", "integrations")
    code = (
        f"import sys, turnover; names = {names}; loaded = [n for n in names if f'turnover.{{n}}' in sys.modules]; "
        "assert not loaded, loaded; assert {*names, *turnover.__all__} <= set(dir(turnover)); "
        "print(*(getattr(turnover, name).__name__ for name in names))"
    )
    answer = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    assert answer.stdout.split() == [f"turnover.{name}" for name in names]


def test_integrations_load_no_other_package_by_themselves():
    allowed = packages_loaded_by("import torch, numpy, tqdm")
    assert packages_loaded_by("import turnover; dir(turnover.integrations)") - allowed <= {"turnover"}


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
