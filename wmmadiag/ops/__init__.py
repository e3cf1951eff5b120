"""The operations that kernels compute, as data: one object in one file of `catalogue/` each.

An `Operation` holds all that the rest of wmmadiag knows of it: its tensors and parameters, and how sources call them;
the float64 reference and the bound of what rounding explains, with its derivation; shapes and inputs to try; what tells
it by names and code; and the ways in which a kernel of it may be meant (`readings`).
"""

from __future__ import annotations

from wmmadiag.ops.model import Operation, Role
from wmmadiag.ops.readings import Assumed, Reading, readings
from wmmadiag.ops.registry import OPERATIONS

__all__ = ["OPERATIONS", "Assumed", "Operation", "Reading", "Role", "readings"]
