"""Runs the notebooks of notebooks/ and keeps their outputs: see `make notebooks`. Files that are named only run."""

import os
import sys
from pathlib import Path

import nbclient
import nbformat
from traitlets.config import Config

# tqdm would like ipywidgets, which nothing here needs.
_QUIET = {"TQDM_DISABLE": "1", "PYTHONWARNINGS": "ignore:IProgress not found"}
FOLDER = Path(__file__).parents[1] / "notebooks"


def executed(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of a run in a new kernel, on one thread; a cell that fails raises."""
    notebook = nbformat.read(path, as_version=4)
    environment = {**os.environ, **_QUIET, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    no_ports = Config({"KernelManager": {"transport": "ipc"}})
    # Without times of cells: a second run then changes nothing in the file but what changed.
    client = nbclient.NotebookClient(notebook, config=no_ports, timeout=300, record_timing=False)
    return client.execute(env=environment)


if __name__ == "__main__":
    named = [Path(argument) for argument in sys.argv[1:]]
    for path in named or sorted(FOLDER.glob("*.ipynb")):
        print(path.name, flush=True)
        notebook = executed(path)
        if not named:
            nbformat.write(notebook, path)
