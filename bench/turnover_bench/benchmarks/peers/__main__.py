"""`python -m turnover_bench.benchmarks.peers dattri` (or quanda): measure, keep the numbers, write the page."""

import argparse
import importlib
import importlib.metadata
from dataclasses import asdict
from pathlib import Path

from turnover_bench.experiments.runner import ROOT, as_json, claim, read_json

from .digits import SIZES
from .page import write_page

_NEEDED = {"dattri": "make -C bench packages installs it", "quanda": "make -C bench test-quanda makes its environment"}


def main() -> None:
    """Run one of the two benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", choices=list(_NEEDED))
    parser.add_argument("--size", choices=list(SIZES), default="full")
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "results")
    given = parser.parse_args()
    try:
        benchmark = importlib.import_module(f"{__package__}.by_{given.package}")
    except ModuleNotFoundError as error:
        raise SystemExit(f"{given.package} is not installed ({error}): {_NEEDED[given.package]}.") from error
    config, folder = SIZES[given.size], ROOT / "runs" / f"peers-{given.package}-{given.size}"
    claim(folder, {"package": given.package, "config": as_json(asdict(config))})
    found = benchmark.measure(config, folder)
    seconds = sum(read_json(part)["seconds"] for part in folder.glob("*.json") if part.name != "config.json")
    version = importlib.metadata.version(given.package)
    found |= {"config": asdict(config), "seconds": seconds, "version": version}
    print(write_page(given.package, found, given.results, size=given.size).read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
