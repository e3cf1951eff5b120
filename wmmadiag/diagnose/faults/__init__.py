"""Fault models: the float64 oracle changed in exactly one way, fitted to a wrong output within the rounding bound.

To add one, write a function in a module here, decorated with `registry.fault_model`, that yields candidates; it is
found by walking this package. `fitting.fit` judges them all.
"""

from wmmadiag.diagnose.faults.fitting import fit
from wmmadiag.diagnose.faults.model import Candidate, Fitted
from wmmadiag.diagnose.faults.separation import Separation, separate

__all__ = ["Candidate", "Fitted", "Separation", "fit", "separate"]
