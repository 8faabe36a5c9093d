"""The command line: commands that parse their options, call one library function and print.

Owns: the commands, their help, how they end, and how rows look on a terminal. Offers: `main`. Must not know: how
anything is computed, HTML.

| file | one idea |
| --- | --- |
| `app.py` | all commands in one app, each imported when it runs; `main` |
| `run.py` | `run` and `demo`, which make a run |
| `explain.py` | `explain` and `memorized`, which list training rows |
| `cleanse.py` | `cleanse` |
| `evaluate.py` | `evaluate`, `audit`, `report` and `serve`, which measure or show a run |
| `annotate.py` | `annotate`; what a run tells an experiment tracker |
| `command.py` | what all commands share: options, standard output and error, JSON, the bar, exit codes |
| `drawing.py` | a row's text, cells or image; what it shares with another; lists of rows by score |
"""

from .app import main

__all__ = ["main"]
