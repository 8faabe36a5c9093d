"""The pinned versions with the hashes of their files, from pip's report on them: see tools/Makefile."""

import json
import sys
from pathlib import Path
from typing import Any

HEAD = "# constraints.txt with the hashes of the files that pip chose; by make -f tools/Makefile constraints-hashes\n"


def with_hashes(report: dict[str, Any]) -> str:
    """Return a requirements file with the SHA-256 of every file that a report of pip names; where it is from is not."""
    lines = []
    for entry in report["install"]:
        about, archive = entry["metadata"], entry["download_info"]["archive_info"]
        # What a version has behind a plus is the build of one index.
        version = about["version"].partition("+")[0]
        lines.append(f"{about['name'].lower()}=={version} --hash=sha256:{archive['hashes']['sha256']}\n")
    return HEAD + "".join(sorted(lines))


if __name__ == "__main__":
    print(with_hashes(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), end="")
