"""Without the packages of the extras every integration says what to install, and its tests are skipped."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import turnover
from turnover.errors import MissingExtraError

FOLDER = Path(__file__).parent
TESTS = [path for path in sorted(FOLDER.glob("test_*.py")) if path != Path(__file__)]
PACKAGES = (
    "transformers", "peft", "accelerate", "datasets", "lightning", "pytorch_lightning", "sklearn", "cleanlab", "captum",
    "ray", "typer",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("TurnOverTrainer", "transformers", "text"),
        ("HFLearningCurves", "transformers", "text"),
        ("TurnOverModule", "lightning.pytorch", "lightning"),
        ("LightningLearningCurves", "lightning.pytorch", "lightning"),
        ("TurnOverClassifier", "sklearn.base", "sklearn"),
        ("TurnOverRegressor", "sklearn.base", "sklearn"),
    ],
)
def test_a_missing_package_is_named_with_what_to_type(monkeypatch, name, package, extra):
    for module in ("hf_training", "lightning_training", "sklearn_estimators"):
        monkeypatch.delitem(sys.modules, f"turnover.integrations.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"{name} needs .*pip install 'turnover\[{extra}\]'"):
        getattr(turnover.integrations, name)


def test_without_scikit_learn_the_core_has_its_estimators_and_they_say_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "turnover.integrations.sklearn_estimators", raising=False)
    monkeypatch.delitem(vars(turnover), "TurnOverClassifier", raising=False)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    names = {}
    exec("from turnover import *", names)
    with pytest.raises(MissingExtraError, match=r"pip install 'turnover\[sklearn\]'"):
        names["TurnOverClassifier"](epochs=3)


def test_names_are_listed_before_they_are_loaded_and_unknown_ones_are_errors():
    assert turnover.integrations.__all__ == sorted(turnover.integrations.__all__)
    assert set(turnover.integrations.__all__) <= set(dir(turnover.integrations))
    with pytest.raises(AttributeError, match="no attribute 'Trainer'"):
        _ = turnover.integrations.Trainer


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_every_integration_asks_for_its_packages_before_it_imports_them(path):
    text = path.read_text(encoding="utf-8")
    asked = re.findall(r"""^(?:\w+ = )?pytest.importorskip\("(\w+)", reason=".*pip install 'turnover\[""", text, re.M)
    imported = re.findall(r"^(?:import|from) (\w+)", text, re.M)
    assert asked
    assert set(PACKAGES) & set(imported) <= set(asked)


@pytest.mark.slow
def test_every_integration_is_skipped_with_what_to_install(tmp_path):
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in PACKAGES)
    (tmp_path / "no_extras.py").write_text(f"import sys\n{blocked}", encoding="utf-8")
    options = ["-q", "-rs", "-p", "no_extras", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="]
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *map(str, TESTS)],
        cwd=FOLDER.parents[1],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode in (0, 5), answer.stdout[-3000:]  # 5: not one test was left to run
    skipped = dict(re.findall(r"SKIPPED \[\d+\] \S*?(\w+\.py):\d+: (.*)", answer.stdout))
    assert skipped.keys() - {"conftest.py"} == {path.name for path in TESTS}  # fixtures skip for files, too
    assert all("pip install 'turnover[" in reason for reason in skipped.values()), skipped
