"""A function called in a copy of this process, which may die of it.

For what a library does to a process that gets too little memory: NVRTC 13.5 aborts ("LLVM ERROR: out of memory"), or
calls itself until the stack is full.
"""

from __future__ import annotations

import os
import pickle
import resource
from collections.abc import Callable
from typing import TypeVar

from wmmadiag.processes.child import ChildEnded

Result = TypeVar("Result")


def memory_is_limited() -> bool:
    """Whether this process's memory has a limit (`ulimit -v`, `ulimit -d`)."""
    limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return any(limit != resource.RLIM_INFINITY for limit in limits)


def apart(work: Callable[[], Result]) -> Result:
    """What `work` returns, or raises, in a copy of this process.

    Raises:
        ChildEnded: the copy ended without an answer.
        OSError: the system makes none.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(work, reading, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        written = stream.read()
    _, status = os.waitpid(child, 0)
    if not written or status:
        raise ChildEnded(os.waitstatus_to_exitcode(status))
    answer, failure = pickle.loads(written)
    if failure is not None:
        raise failure
    return answer  # type: ignore[no-any-return]


def _answer(work: Callable[[], object], reading: int, writing: int) -> None:
    """In the child: nothing of this process's may be flushed or finalised twice."""
    status = 1
    try:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what a library says as it dies; its signal says as much
        try:
            answer: tuple[object, BaseException | None] = (work(), None)
        except BaseException as error:
            answer = (None, error)
        with os.fdopen(writing, "wb") as stream:
            pickle.dump(answer, stream)
        status = 0
    finally:
        os._exit(status)
