"""Benchmarks of other packages on our scores, beside methods of their own.

Owns: dattri's and quanda's metrics on one small task, and their page. Must not know: anything of the library that users
cannot see.

| file | idea |
| --- | --- |
| `digits.py` | rows, network and trainings of the tasks |
| `by_dattri.py` | dattri's network, retraining, LDS and AUC of wrong labels |
| `by_quanda.py`, `torchvision_operators.py` | quanda's benchmarks of classes, subclasses and wrong labels |
| `dattri_attributor.py`, `quanda_explainer.py` | `Influence` as dattri's `BaseAttributor` and as quanda's `Explainer` |
| `likeness.py` | what subclass detection rewards |
| `page.py` | the page of both, which may be measured apart |

`make bench-peers` runs both, each in its environment.
"""
