"""Python's collector of cycles, paused while very many objects are made that stay.

Parsing and lowering a large module make millions of objects, none of them garbage: looking through all of them again
and again took half of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """Within this (also as a decorator) cycles are not collected; afterwards as before."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
