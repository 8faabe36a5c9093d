"""The time of `import turnover` against that of `import torch`, each in fresh processes."""

import subprocess
import sys

from turnover_bench.experiments.timing import ratio


def main() -> None:
    """Print the ratio."""

    def fresh(name: str) -> None:
        subprocess.run([sys.executable, "-c", f"import {name}"], check=True)

    print("import turnover against import torch")
    print(f"  {'':<32} {ratio(lambda: fresh('turnover'), lambda: fresh('torch'), rounds=7, warm_up=1)}", flush=True)


if __name__ == "__main__":
    main()
