"""The operations under the name by which `diagnose/` and `probes/` import them; they are in `wmmadiag.ops`."""

from wmmadiag.ops import OPERATIONS, Operation, Parameter, Role

__all__ = ["OPERATIONS", "Operation", "Parameter", "Role"]
