"""Faithfulness of scores: turn-over dropout and its baselines on the same data, splits and ground truth.

Owns: the tasks, all methods, the table and its page. Must not know: anything of the library that users cannot see.

| file | idea |
| --- | --- |
| `config.py` | which tasks there are and how large |
| `tasks.py` | data, trainings and queries of a task; retraining on random halves |
| `trainings.py` | the trainings that methods share, with their cost; the scores of a method |
| `ours.py` | turn-over dropout: the original estimator, each addition, all together, what else was tried, row scores |
| `baselines.py` | methods of other packages; cleanlab, training loss, AUM, Feldman & Zhang |
| `methods.py` | all of them by name |
| `cells.py` | one method on one task with one seed, measured, kept on disk and judged |
| `run.py` | all cells in their order; the default, chosen on seeds that are not reported; publishing |
| `table.py` | means over seeds, here or of an earlier run |
| `goals.py`, `page.py` | what was aimed at, what is missing and why; the page |

Run it with `make bench-faithfulness`; what is finished is kept in runs/faithfulness and not run again.
"""
