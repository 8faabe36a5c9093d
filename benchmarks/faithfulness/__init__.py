"""How far scores can be trusted: turn-over dropout and its rivals on the same data, splits and ground truth.

Owns: the tasks, one file a rival, the table and its page. Must not know: anything of the library that users cannot see.

| file | idea |
| --- | --- |
| `config.py` | which tasks there are and how large |
| `networks.py`, `tasks.py` | the networks; data, trainings and queries of a task |
| `ground_truth.py` | retraining on random halves, once a task |
| `trainings.py` | the trainings that methods share, with their seconds and memory |
| `answers.py` | what a method says, and how good that is |
| `ours.py` | turn-over dropout: the paper's estimate, each addition, all together |
| `captum_tracin.py`, `trak_models.py`, `kronfluence_ekfac.py` | rivals that say something of pairs |
| `cleanlab_folds.py`, `training_loss.py`, `subsets.py` | rivals that say something of rows, and many models |
| `methods.py` | all of them by name |
| `cells.py`, `cost.py` | one method on one task with one seed, kept on disk; its seconds and memory |
| `further.py` | steps after scoring that were tried |
| `choose.py`, `explored.py` | options chosen, and what else was tried, on seeds that are not reported |
| `measure.py`, `run.py` | all cells of a task; everything in its order |
| `earlier.py` | figures of an earlier run that the one at hand lacks |
| `table.py`, `goals.py`, `gap.py`, `page.py`, `plot.py` | means over seeds; the page made of them |

Run it with `make bench-faithfulness`; what is finished is kept in runs/faithfulness and not run again.
"""
