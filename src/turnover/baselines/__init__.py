"""The compared methods, one file each, under the API of `Influence`.

Owns: other estimates of influence. Must not know: the engine, evaluation, reports.
"""

from .feldman2020 import FeldmanZhang
from .hara2019 import SgdInfluence
from .hessian import Hessian
from .inverse_hessian import ConjugateGradients, Exact, Lissa
from .koh2017 import InfluenceFunctions
from .leave_one_out import LeaveOneOut
from .pruthi2020 import TracIn
from .row_gradients import RowLosses, parameter_names

__all__ = [
    "ConjugateGradients",
    "Exact",
    "FeldmanZhang",
    "Hessian",
    "InfluenceFunctions",
    "LeaveOneOut",
    "Lissa",
    "RowLosses",
    "SgdInfluence",
    "TracIn",
    "parameter_names",
]
