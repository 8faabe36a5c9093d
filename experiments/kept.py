"""Measured once: what a file holds is not measured again."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.runner import write_json


def kept(file: Path, measure: Callable[[], Any]) -> Any:
    """Return what was found; measure and write it, with the processor's seconds, where there is no file."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        start = time.process_time()
        found = measure()
        write_json(file, {"seconds": round(time.process_time() - start, 1), "found": found})
    return json.loads(file.read_text(encoding="utf-8"))["found"]


def spent(folder: Path) -> dict[str, float]:
    """Return the processor's seconds of all parts in a folder, and of how many parts they are not known."""
    seconds = [json.loads(file.read_text(encoding="utf-8"))["seconds"] for file in sorted(folder.glob("*.json"))]
    known = [one for one in seconds if one is not None]
    return {"seconds": sum(known), "parts": len(seconds), "not_timed": len(seconds) - len(known)}
