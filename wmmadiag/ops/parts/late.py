"""NumPy, imported when it is first used: the catalogue is read with every card, most of it never evaluated."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:

    class _Late:
        """Stands for NumPy, and keeps each of its names that was asked for."""

        def __getattr__(self, name: str) -> object:
            value = getattr(importlib.import_module("numpy"), name)
            setattr(self, name, value)
            return value

    np = _Late()
    NDArray = None  # in annotations alone, which nothing evaluates

__all__ = ["NDArray", "np"]
