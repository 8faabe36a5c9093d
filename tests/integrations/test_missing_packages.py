"""Without the packages of the extras no test of an integration fails: each is skipped and says what to install."""

import os
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
PACKAGES = ("transformers", "peft", "accelerate", "datasets", "lightning", "pytorch_lightning", "sklearn", "cleanlab")


def test_every_integration_is_skipped_with_what_to_install(tmp_path):
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in PACKAGES)
    (tmp_path / "no_extras.py").write_text(f"import sys\n{blocked}", encoding="utf-8")
    files = [path for path in sorted(FOLDER.glob("test_*.py")) if path != Path(__file__)]
    options = ["-q", "-rs", "-p", "no_extras", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="]
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *map(str, files)],
        cwd=FOLDER.parents[1],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode in (0, 5), answer.stdout[-3000:]  # 5: not one test was left to run
    skipped = dict(re.findall(r"SKIPPED \[\d+\] \S*?(\w+\.py):\d+: (.*)", answer.stdout))
    assert skipped.keys() == {path.name for path in files}
    assert all("pip install 'turnover[" in reason for reason in skipped.values()), skipped
