"""Waiting for a compiler: what goes on is told after two seconds, and an interrupt ends the wait.

A compiler called from the main thread would keep every signal from Python until it returns, minutes later for some
libraries' headers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

FIRST = 2.0
"""Seconds of silence."""
AGAIN = 1.0
"""Seconds until it is told again."""

Result = TypeVar("Result")

_tell: Callable[[str], None] | None = None
_waited = 0.0


def tell_by(tell: Callable[[str], None] | None) -> None:
    """Have what goes on told by this function, a line each time: the command line shows it on a terminal."""
    global _tell
    _tell = tell


def long_waits() -> float:
    """Seconds of all waits of this process that were long enough to be told."""
    return _waited


def waited_for(work: Callable[[], Result], what: str) -> Result:
    """The result of `work`, which leaves Python alone while it runs; `what`: what goes on, "compiling k.cu"."""
    global _waited
    if threading.current_thread() is not threading.main_thread():
        return work()
    done: list[Result] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # it belongs to the thread that waits
            failed.append(error)

    worker = threading.Thread(target=run, name=what, daemon=True)
    began = time.monotonic()
    try:
        worker.start()
    except RuntimeError:  # the system has no thread to give: then there is nobody to tell, either
        return work()
    worker.join(FIRST)
    while worker.is_alive():
        if _tell is not None:
            _tell(f"{what}, {time.monotonic() - began:.0f} s")
        worker.join(AGAIN)
    took = time.monotonic() - began
    _waited += took if took >= FIRST else 0.0
    if failed:
        raise failed[0]
    return done[0]


@contextmanager
def telling(tell: Callable[[float], None], first: float, again: float = AGAIN) -> Iterator[None]:
    """Have the seconds that something takes told while it runs, from `first` on."""
    ended = threading.Event()
    began = time.monotonic()

    def turns() -> None:
        wait = first
        while not ended.wait(wait):
            tell(time.monotonic() - began)
            wait = again

    teller = threading.Thread(target=turns, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
