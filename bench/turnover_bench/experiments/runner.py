"""One way to run any experiment: settings by size, a folder that belongs to one configuration, result and page.

An experiment is a folder with expected.json (ranges by size, by dotted path into the result), README.md and
experiment.py with the parts that follow; a long page has a file of its own, page.py.

- config: `SIZES`, a frozen dataclass by size; where they apply, `NEEDS` by size, `ALONE` (it measures time) and
  `MEASURES_MEMORY`.
- run: `run(config, out) -> dict`. What is finished lies in `out` and is not measured again (see `kept`), and a training
  of minutes keeps its state there (see `checkpoints.py`): a run that is killed at any moment resumes, in its folder or
  in a copy of it, to the same result. Missing data are a MissingDataError before anything is trained.
- page: `page(result, folder) -> str`, which draws its figures into the folder, and `findings(result)`, in the order of
  the page.
"""

import dataclasses
import importlib
import json
import math
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import torch

import turnover
from turnover.errors import TurnOverError
from turnover.storage import write_atomically

from .checkpoints import trainings_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SIZES = ("toy", "small", "medium", "full")


_GB, _MINUTE, _HOUR = 1e9, 60.0, 3600.0
_HEARTBEAT = 30.0


class ExperimentError(TurnOverError, ValueError):
    """An experiment cannot be run as asked."""


class TooSmallError(TurnOverError, OSError):
    """The machine has too little disk or memory for a size."""


@dataclasses.dataclass(frozen=True)
class Needs:
    """What a run needs at its height.

    Attributes:
        disk: gigabytes that are free in the folder of the run.
        memory: gigabytes of the machine.
        hours: of the processor, about; two experiments at a time have a core each.
    """

    disk: float = 0.0
    memory: float = 0.0
    hours: float = 0.0

    def check(self, out: Path, *, name: str, size: str) -> None:
        """Raise a TooSmallError that says how much is there, how much is needed and what to do."""
        folder = next(folder for folder in (out.resolve(), *out.resolve().parents) if folder.exists())
        free, memory = shutil.disk_usage(folder).free / _GB, _memory()
        problems = []
        if free < self.disk:
            problems.append(
                f"{folder} has {free:.1f} GB free and the run needs {self.disk:.1f} GB: give a folder on a larger disk "
                "with --out DIR"
            )
        if memory is not None and memory < self.memory:
            problems.append(f"this machine has {memory:.1f} GB of memory and the run needs {self.memory:.1f} GB")
        if problems:
            raise TooSmallError(f"{name} SIZE={size} cannot run here: {'; '.join(problems)}. Smaller: SIZE=small.")


def experiments() -> list[str]:
    return sorted(file.parent.name for file in HERE.glob("*/expected.json"))


def find(name: str) -> str:
    """Return the experiment's name; dashes do for underscores."""
    known = name.replace("-", "_")
    if known not in experiments():
        raise ExperimentError(f"there is no experiment {name!r}. There are: {', '.join(experiments())}.")
    return known


def module_of(name: str, part: str) -> Any:
    """Return a part of an experiment: "config", "run" or "page"."""
    alone = (HERE / name / f"{part}.py").exists()
    return importlib.import_module(f"turnover_bench.experiments.{name}.{part if alone else 'experiment'}")


def run(name: str, size: str, out: Path) -> dict[str, Any]:
    """Return the record of an experiment: name, size, config, machine, seconds and result.

    A finished run in `out` is returned as it is, an interrupted one is resumed.
    """
    settings, finished = module_of(name, "config"), out / "result.json"
    config, needs = settings.SIZES[size], getattr(settings, "NEEDS", {}).get(size)
    if needs is not None and not finished.exists():
        needs.check(out, name=name, size=size)
    identity = {"experiment": name, "size": size, "config": as_json(dataclasses.asdict(config))}
    claim(out, identity)
    if finished.exists():
        return read_json(finished)
    clock = _Clock(out / "seconds.json")
    with clock.running():
        result = as_json(module_of(name, "run").run(config, out))
    record = {**identity, **clock.seconds, "machine": machine(), "result": result}
    write_json(finished, record)
    return record


def kept(file: Path, measure: Callable[[], Any]) -> Any:
    """Return what a file holds; measure and write it, with the processor's seconds, where there is no file."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        # What an interrupted training computed before it was resumed is not counted.
        start = time.process_time()
        with trainings_of(file):
            measured = measure()
            write_json(file, {"seconds": round(time.process_time() - start, 1), "found": measured})
    return read_json(file)["found"]


def spent(folder: Path) -> dict[str, float]:
    """Return the processor's seconds of all kept parts of a folder, and of how many parts they are not known."""
    seconds = [read_json(file)["seconds"] for file in sorted(folder.glob("*.json"))]
    known = [value for value in seconds if value is not None]
    return {"seconds": sum(known), "parts": len(seconds), "not_timed": len(seconds) - len(known)}


def publish(record: dict[str, Any], folder: Path) -> Path:
    """Write NAME.json, NAME.md and the figures of a record into a folder; return the page's path.

    Medium and full runs lie in a folder of their size within it.
    """
    folder = folder / record["size"] if record["size"] in ("medium", "full") else folder
    name, folder_page = record["experiment"], folder / f"{record['experiment']}.md"
    folder.mkdir(parents=True, exist_ok=True)
    text = module_of(name, "page").page(record["result"], folder)
    about = (
        f"Written by `make repro-{name.replace('_', '-')} SIZE={record['size']}` ({time_words(record)}, "
        f"{machine_words(record['machine'])}). Settings and numbers: [{name}.json]({name}.json)."
    )
    write_atomically(folder_page, f"{text.rstrip()}\n\n{about}\n")
    write_json(folder / f"{name}.json", record)
    return folder_page


def time_words(record: dict[str, Any]) -> str:
    """Return how long a run took: the processor's time where it is known."""
    seconds = record.get("processor_seconds")
    told, whose = (record["seconds"], "") if seconds is None else (seconds, " of processor time")
    hours = f"{told / 60:.0f} min" if told < _HOUR else f"{told / _HOUR:.1f} h"
    return (f"{told:.0f} s" if told < _MINUTE else hours) + whose


def expected_of(name: str, size: str) -> dict[str, tuple[float, float]]:
    return read_json(HERE / name / "expected.json").get(size, {})


def outside(record: dict[str, Any], *, size: str | None = None) -> list[str]:
    """Return what lies outside the expected ranges of the record's size, or of a given one, in words."""
    expected = expected_of(record["experiment"], size or record["size"])
    problems = []
    for path, (low, high) in expected.items():
        value = record["result"]
        for key in path.split("."):
            if isinstance(value, list):
                value = value[int(key)] if int(key) < len(value) else None
            else:
                value = value.get(key) if value else None
        if not isinstance(value, int | float) or not low <= value <= high:
            problems.append(f"{path} is {value}, expected from {low} to {high}")
    return problems


def as_json(value: Any) -> Any:
    """Return plain JSON data; what is not finite becomes null, since JSON has no word for it."""
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if hasattr(value, "tolist"):
        return as_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def read_json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def write_json(file: Path, value: Any) -> None:
    write_atomically(file, json.dumps(as_json(value), indent=1, ensure_ascii=False) + "\n")


def claim(out: Path, identity: dict[str, Any]) -> None:
    """Make a folder that of this configuration."""
    mark = out / "config.json"
    if not mark.exists():
        if out.exists() and any(out.iterdir()):
            raise ExperimentError(f"{out} holds other files and no run. Give a new folder: --out DIR.")
        out.mkdir(parents=True, exist_ok=True)
        write_json(mark, identity)
        return
    stored = read_json(mark)
    if stored != identity:
        raise ExperimentError(
            f"{out} holds a run of another configuration ({'; '.join(differences(stored, identity))}). "
            "Give another folder with --out DIR, or delete this one."
        )


def differences(stored: dict[str, Any], given: dict[str, Any]) -> list[str]:
    """Return in words which settings of two configurations differ."""
    before, now = ({**settings, **settings.get("config", {})} for settings in (stored, given))
    return [
        f"{key}: there {before.get(key)}, now {now.get(key)}"
        for key in {**before, **now}
        if key != "config" and before.get(key) != now.get(key)
    ]


def machine() -> dict[str, Any]:
    """Return what seconds depend on."""
    return {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "turnover": turnover.__version__,
    }


def machine_words(about: dict[str, Any]) -> str:
    """Return a machine as pages name it."""
    return (
        f"{about['cores']} cores of {about['processor']}, {about['threads']} torch "
        f"thread{'s' if about['threads'] > 1 else ''}, torch {about['torch']}, turnover {about['turnover']}"
    )


class _Clock:
    """Hours on the wall and of the processor that a run took, those of earlier, interrupted calls included."""

    def __init__(self, file: Path) -> None:
        stored = read_json(file) if file.exists() else {}
        self._file = file
        self._before = stored if isinstance(stored, dict) else {"seconds": stored}
        self._start = self._times()

    @property
    def seconds(self) -> dict[str, float]:
        return {
            name: round(self._before.get(name, 0.0) + now - self._start[name], 1) for name, now in self._times().items()
        }

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write the seconds from time to time, so that a kill loses few of them."""
        ended = Event()

        def write() -> None:
            while not ended.wait(_HEARTBEAT):
                write_json(self._file, self.seconds)

        thread = Thread(target=write, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            write_json(self._file, self.seconds)

    @staticmethod
    def _times() -> dict[str, float]:
        own = os.times()
        worked = own.user + own.system + own.children_user + own.children_system
        return {"seconds": time.perf_counter(), "processor_seconds": worked}


def _memory() -> float | None:
    """Return the memory of this machine in gigabytes; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GB
    except (AttributeError, ValueError, OSError):
        return None
