"""How this program was called, so that commands it suggests can be typed as they stand."""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path


def own_name() -> str:
    """Return what to type for `turnover` here: the name where the shell finds it by that, else its path.

    In a clone that nobody activated, `make demo` calls `.venv/bin/turnover`, and the bare name would not be found.
    """
    called = Path(sys.argv[0])
    if called.stem != "turnover" or not called.is_file():
        return "turnover"
    found = shutil.which("turnover")
    if found is not None and Path(found).samefile(called):
        return "turnover"
    # Not resolved: in a .venv the path itself says which environment is meant.
    path, here = Path(os.path.abspath(called)), Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def as_called(sentence: str) -> str:
    """Return a sentence in which commands to type begin as this program was called; in prose it keeps its name."""
    return _COMMANDS.sub(lambda _: f"{own_name()} ", sentence)


_COMMANDS = re.compile(r"(?:(?<=: )|(?<=, or ))turnover (?=[a-z]+ )")
