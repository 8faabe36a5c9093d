"""One way to run any experiment: settings by size, a folder that belongs to one configuration, result and page.

An experiment is a folder with config.py (`SIZES`), run.py (`run(config, out) -> dict`), page.py
(`page(result, folder) -> str` and `findings(result) -> list[Finding]`, in the order of the page) and expected.json
(ranges of the small setting, by dotted path into the result).
"""

import dataclasses
import importlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import turnover
from turnover.errors import TurnOverError

from .needs import check

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SIZES = ("toy", "small", "medium", "full")


class ExperimentError(TurnOverError, ValueError):
    """An experiment cannot be run as asked."""


def experiments() -> list[str]:
    """Return the names of all experiments."""
    return sorted(folder.parent.name for folder in HERE.glob("*/run.py"))


def find(name: str) -> str:
    """Return the experiment's name; dashes do for underscores."""
    found = name.replace("-", "_")
    if found not in experiments():
        raise ExperimentError(f"there is no experiment {name!r}. There are: {', '.join(experiments())}.")
    return found


def run(name: str, size: str, out: Path) -> dict[str, Any]:
    """Return the record of an experiment: name, size, config, machine, seconds and result.

    A finished run in `out` is returned as it is, one that was cut off goes on.

    Raises:
        ExperimentError: `out` holds a run of another configuration.
        TooSmallError: disk or memory do not suffice for this size.
    """
    settings = module_of(name, "config")
    config, needs = settings.SIZES[size], getattr(settings, "NEEDS", {}).get(size)
    if needs is not None and not (out / "result.json").exists():
        check(needs, out, name=name, size=size)
    told = {"experiment": name, "size": size, "config": as_json(dataclasses.asdict(config))}
    _claim(out, told)
    done = out / "result.json"
    if done.exists():
        return json.loads(done.read_text(encoding="utf-8"))
    with _counted(out / "seconds.json") as seconds:
        result = as_json(module_of(name, "run").run(config, out))
    record = {**told, "seconds": round(seconds(), 1), "machine": _machine(), "result": result}
    write_json(done, record)
    return record


def publish(record: dict[str, Any], folder: Path) -> Path:
    """Write NAME.json, NAME.md and the figures of a record into a folder; return the page's path."""
    name, machine = record["experiment"], record["machine"]
    folder.mkdir(parents=True, exist_ok=True)
    text = module_of(name, "page").page(record["result"], folder)
    about = (
        f"Written by `make repro-{name.replace('_', '-')} SIZE={record['size']}` "
        f"({record['seconds']:.0f} s, {machine['cores']} cores of {machine['processor']}, "
        f"{machine['threads']} torch thread{'s' if machine['threads'] > 1 else ''}, torch {machine['torch']}, "
        f"turnover {machine['turnover']}). Settings and numbers: [{name}.json]({name}.json)."
    )
    write_text(folder / f"{name}.md", f"{text.rstrip()}\n\n{about}\n")
    write_json(folder / f"{name}.json", record)
    return folder / f"{name}.md"


def outside(record: dict[str, Any]) -> list[str]:
    """Return what lies outside the ranges of the experiment's expected.json, in words."""
    expected = json.loads((HERE / record["experiment"] / "expected.json").read_text(encoding="utf-8"))
    problems = []
    for path, (low, high) in expected.items():
        value = record["result"]
        for key in path.split("."):
            value = value[int(key)] if isinstance(value, list) else value.get(key) if value else None
        if not isinstance(value, int | float) or not low <= value <= high:
            problems.append(f"{path} is {value}, expected from {low} to {high}")
    return problems


def as_json(value: Any) -> Any:
    """Return plain JSON data; what is not finite becomes null, since JSON has no word for it."""
    if isinstance(value, dict):
        return {str(key): as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    if hasattr(value, "tolist"):
        return as_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def write_json(file: Path, value: Any) -> None:
    """Write JSON so that a reader sees the old file or the whole new one."""
    write_text(file, json.dumps(as_json(value), indent=1, ensure_ascii=False) + "\n")


def write_text(file: Path, text: str) -> None:
    """Write text so that a reader sees the old file or the whole new one."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def _claim(out: Path, told: dict[str, Any]) -> None:
    """Make a folder that of this configuration; refuse it where it belongs to another."""
    mark = out / "config.json"
    if not mark.exists():
        if out.exists() and any(out.iterdir()):
            raise ExperimentError(f"{out} holds other files and no run. Give a new folder: --out DIR.")
        out.mkdir(parents=True, exist_ok=True)
        write_json(mark, told)
        return
    there = json.loads(mark.read_text(encoding="utf-8"))
    if there != told:
        raise ExperimentError(
            f"{out} holds a run of another configuration ({'; '.join(_differences(there, told))}). "
            "Give another folder with --out DIR, or delete this one."
        )


@contextmanager
def _counted(file: Path) -> Iterator[Callable[[], float]]:
    """Give the seconds that a run took, those of earlier calls that were cut off included."""
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else 0.0
    start = time.perf_counter()

    def seconds() -> float:
        return before + time.perf_counter() - start

    try:
        yield seconds
    finally:
        write_json(file, seconds())


def _differences(there: dict[str, Any], told: dict[str, Any]) -> list[str]:
    flat = [{**one, **one["config"]} for one in (there, told)]
    names = [key for key in {**flat[0], **flat[1]} if key != "config"]
    return [
        f"{key}: there {flat[0].get(key)}, now {flat[1].get(key)}"
        for key in names
        if flat[0].get(key) != flat[1].get(key)
    ]


def module_of(name: str, part: str) -> Any:
    """Return a module of an experiment, such as its page."""
    return importlib.import_module(f"experiments.{name}.{part}")


def _machine() -> dict[str, Any]:
    return {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "turnover": turnover.__version__,
    }
