"""The file with hashes pins what constraints.txt pins, and tells nothing of where files come from."""

import re
from pathlib import Path

from tools.hashes import HEAD, with_hashes

ROOT = Path(__file__).parents[1]


def _pins(text: str) -> dict[str, str]:
    lines = [line.split()[0].split("==") for line in text.splitlines() if line and not line.startswith("#")]
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in lines}


def test_every_pinned_version_has_a_hash():
    hashed = (ROOT / "tools" / "constraints-hashes.txt").read_text()
    assert _pins(hashed) == _pins((ROOT / "constraints.txt").read_text()), (
        "run: make -f tools/Makefile constraints-hashes"
    )
    lines = hashed.removeprefix(HEAD).splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.!]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)


def test_a_report_of_pip_becomes_a_requirements_file():
    entry = {
        "metadata": {"name": "Torch", "version": "2.13.0+cpu"},
        "download_info": {
            "url": "https://somewhere.example/torch.whl",
            "archive_info": {"hashes": {"sha256": "ab" * 32}},
        },
    }
    assert with_hashes({"install": [entry]}) == f"{HEAD}torch==2.13.0 --hash=sha256:{'ab' * 32}\n"
