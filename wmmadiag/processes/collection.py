"""Python's collector of cycles, paused while very many objects are made that stay.

Parsing and lowering a large module make millions of objects, none of them garbage: looking through all of them again
and again took half of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_RARE = 100_000
"""Objects that are made before the newest ones are looked through."""


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


@contextmanager
def rare_collection() -> Iterator[None]:
    """Within this (also as a decorator) what is there already is not looked through, and what is new is seldom: for
    long work that keeps most of what it makes."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_RARE, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
