"""Methods of other packages on a recipe's rows and trained weights, with the API of all baselines.

Owns: the only files besides `integrations` that import captum, traker, kronfluence or dattri, each where it is
used. Offers: one class per method. Must not know: the engine, evaluation, integrations.

| file | content |
| --- | --- |
| `by_captum.py` | TracInCP and TracInCPFast, Arnoldi influence functions, cosine similarity |
| `by_traker.py` | TRAK |
| `by_kronfluence.py` | EK-FAC; a classification as kronfluence takes it |
| `by_dattri.py` | influence functions (conjugate gradients, LiSSA, DataInf), LoGra |
| `package_method.py` | what all share: rows, weights, losses; the scores of a question from those of all rows |
"""

from .by_captum import CaptumArnoldi, CaptumSimilarity, CaptumTracIn
from .by_dattri import DATTRI_SOLVERS, LOGRA, DattriInfluenceFunctions, DattriLoGra, DattriSolver
from .by_kronfluence import KronfluenceEkfac, kronfluence_task
from .by_traker import Trak
from .package_method import PackageMethod, State, check_installed, is_installed, training_weights

__all__ = [
    "DATTRI_SOLVERS",
    "LOGRA",
    "CaptumArnoldi",
    "CaptumSimilarity",
    "CaptumTracIn",
    "DattriInfluenceFunctions",
    "DattriLoGra",
    "DattriSolver",
    "KronfluenceEkfac",
    "PackageMethod",
    "State",
    "Trak",
    "check_installed",
    "is_installed",
    "kronfluence_task",
    "training_weights",
]
