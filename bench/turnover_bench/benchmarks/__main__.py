"""Run all benchmarks, or those named: python -m turnover_bench.benchmarks layer step; --big: what takes long."""

import os
import sys

# Spinning threads cost up to 25 times on a shared machine; this must be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from . import curvature, grid, import_time, influence, layer, live_page, memory, replicas, scale, step

ALL = {
    "layer": layer,
    "step": step,
    "replicas": replicas,
    "influence": influence,
    "grid": grid,
    "curvature": curvature,
    "memory": memory,
    "scale": scale,
    "import": import_time,
    "live_page": live_page,
}


def main() -> None:
    """Run what was asked for."""
    names = [name for name in sys.argv[1:] if not name.startswith("--")] or list(ALL)
    unknown = [name for name in names if name not in ALL]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(ALL)}")
    for name in names:
        ALL[name].main()
        print()


if __name__ == "__main__":
    main()
