"""The command line: one file per command, which parses its options, calls one library function and prints.

Owns: the commands, their help, how they end, and how rows look on a terminal. Offers: `main`. Must not know: how
anything is computed, HTML.

| file | one idea |
| --- | --- |
| `app.py` | all commands in one app; `main` |
| `run.py`, `demo.py`, `report.py`, `serve.py` | commands that make or show a run |
| `explain.py`, `cleanse.py`, `memorized.py`, `annotate.py`, `audit.py`, `evaluate.py` | commands that ask a run |
| `queries.py` | what `explain` is asked about |
| `finished_run.py` | the end of a run |
| `options.py` | options that commands share, and the run that they name |
| `tracking.py` | what a run tells an experiment tracker |
| `outcomes.py` | exit codes, error messages, resuming; commands as they can be typed here |
| `terminal.py` | standard output and error, JSON |
| `progress.py` | one bar and one estimate of the time left for a whole run |
| `drawing.py` | a row's text, cells or image; what it shares with another; lists of rows by score |
| `help_page.py` | docs/commands.md, made from the help of all commands |
"""

from .app import main

__all__ = ["main"]
