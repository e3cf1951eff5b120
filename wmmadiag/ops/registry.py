"""The operations that there are, found by walking `catalogue/`.

To add one, write `catalogue/NAME.py`, which defines `OPERATION = Operation("NAME", …)`. What does not fit together in
it fails in `tests/ops/test_operation_registry.py`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from wmmadiag.ops import catalogue
from wmmadiag.ops.model import Operation


def catalogued(package: ModuleType) -> Mapping[str, Operation]:
    """The operations that the modules of a package define, by name, in the order of `ORDER`, then of their names.

    Raises:
        TypeError: a module defines none, or one of another name.
    """
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    first = [name for name in getattr(package, "ORDER", ()) if name in names]
    found: dict[str, Operation] = {}
    for name in (*first, *(name for name in names if name not in first)):
        module = importlib.import_module(f"{package.__name__}.{name}")
        operation = getattr(module, "OPERATION", None)
        if not isinstance(operation, Operation):
            raise TypeError(f"{module.__file__}: it defines no OPERATION")
        if operation.name != name:
            raise TypeError(f"{module.__file__}: the operation is called '{operation.name}', its file '{name}'")
        found[name] = operation
    return MappingProxyType(found)


OPERATIONS: Mapping[str, Operation] = catalogued(catalogue)
"""Every operation by name, the commonest first."""
