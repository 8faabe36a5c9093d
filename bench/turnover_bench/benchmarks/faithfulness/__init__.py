"""Faithfulness of scores: turn-over dropout and its baselines on the same data, splits and ground truth.

Owns: the tasks, all methods, the table and its page. Must not know: anything of the library that users cannot see.

| file | idea |
| --- | --- |
| `tasks.py` | which tasks there are and how large; their data, trainings and queries; retraining on random halves |
| `trainings.py` | the trainings that methods share, with their cost; the scores of a method |
| `methods.py` | all methods by name: turn-over dropout, other packages, what finds wrong labels otherwise |
| `cells.py` | one method on one task with one seed, measured, kept on disk and judged |
| `run.py` | all cells in their order, means over seeds, publishing |
| `page.py` | the page: figures, what was aimed at, what is missing and why |

Run it with `make bench-faithfulness`; what is finished is kept in runs/faithfulness and not run again.
"""
