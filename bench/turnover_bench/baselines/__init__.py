"""Other methods of data attribution, one file per method, with the API of `Influence`.

Owns: other estimates of influence. Offers: the methods, solvers of the inverse Hessian, and row gradients. Must not
know: the engine, evaluation, reports.

| file | content |
| --- | --- |
| `leave_one_out.py` | retraining without each row |
| `feldman2020.py` | Feldman & Zhang: models on random subsets of the rows |
| `koh2017.py` | Koh & Liang: influence functions; Hessian products and solvers |
| `hara2019.py` | Hara et al.: SGD-influence; record a training, walk it back |
| `pruthi2020.py` | Pruthi et al.: TracIn and its checkpoints |
| `row_gradients.py` | losses as a function of parameters; gradients of every row |
| `packages.py` | methods of captum, traker, kronfluence and dattri, which are imported where they are used |
| `methods.py` | all methods that need no more than a recipe, by name |
| `_questions.py` | what all share: the three questions, rows and queries, the cache folder, the progress bar |
"""

from .feldman2020 import FeldmanZhang
from .hara2019 import SgdInfluence
from .koh2017 import ConjugateGradients, Exact, Hessian, InfluenceFunctions, Lissa
from .leave_one_out import LeaveOneOut
from .methods import METHODS, Method, check_method, trained_method
from .packages import (
    DATTRI_SOLVERS,
    LOGRA,
    CaptumArnoldi,
    CaptumSimilarity,
    CaptumTracIn,
    DattriInfluenceFunctions,
    DattriLoGra,
    DattriSolver,
    KronfluenceEkfac,
    PackageMethod,
    State,
    Trak,
    kronfluence_task,
    training_weights,
)
from .pruthi2020 import TracIn
from .row_gradients import RowLosses, parameter_names

__all__ = [
    "DATTRI_SOLVERS",
    "LOGRA",
    "METHODS",
    "CaptumArnoldi",
    "CaptumSimilarity",
    "CaptumTracIn",
    "ConjugateGradients",
    "DattriInfluenceFunctions",
    "DattriLoGra",
    "DattriSolver",
    "Exact",
    "FeldmanZhang",
    "Hessian",
    "InfluenceFunctions",
    "KronfluenceEkfac",
    "LeaveOneOut",
    "Lissa",
    "Method",
    "PackageMethod",
    "RowLosses",
    "SgdInfluence",
    "State",
    "TracIn",
    "Trak",
    "check_method",
    "kronfluence_task",
    "parameter_names",
    "trained_method",
    "training_weights",
]
