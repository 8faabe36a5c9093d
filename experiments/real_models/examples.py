"""The scripts of examples/ as modules: what a user would run is what is measured."""

import importlib.util
from typing import Any

from experiments.runner import ROOT


def example(name: str) -> Any:
    """Return the module of an example."""
    spec = importlib.util.spec_from_file_location(f"turnover_example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
