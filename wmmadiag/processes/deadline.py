"""When a command must have answered: what may take long asks how much time is left.

A deadline ends work, it never decides: what it cuts short is undecided. One that is set inside another one can only
be nearer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from wmmadiag.errors import BudgetError


@dataclass(frozen=True, slots=True)
class _Deadline:
    end: float
    seconds: float


_DEADLINE: ContextVar[_Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Within the block at most so many seconds of wall time may pass; None or 0: as many as outside of it."""
    outer = _DEADLINE.get()
    end = time.monotonic() + seconds if seconds else None
    if end is None or seconds is None or (outer is not None and outer.end <= end):
        yield
        return
    token = _DEADLINE.set(_Deadline(end, seconds))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def seconds_left(most: float = 0.0) -> float:
    """How long what begins now may take; 0 for ever.

    Args:
        most: its own limit, 0 for none.

    Raises:
        BudgetError: no time is left.
    """
    found = _DEADLINE.get()
    if found is None:
        return most
    left = found.end - time.monotonic()
    if left <= 0:
        raise out_of_time()
    return min(left, most) if most else left


def out_of_time() -> BudgetError:
    """What is raised when the time is over."""
    found = _DEADLINE.get()
    return BudgetError(
        f"the time is over: {found.seconds:g} s" if found is not None else "the time is over",
        hint="give more with --budget-seconds, or take fewer cases, checks or schedules",
    )
