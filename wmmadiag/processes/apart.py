"""Functions called in a copy of this process, which may die of it.

For what a library does to its process: NVRTC 13.5 aborts where memory is short ("LLVM ERROR: out of memory"), calls
itself until the stack is full, or reads what is not there (`--Ofast-compile=min` of a kernel with `cuda::barrier`).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import ParamSpec, TypeVar

from wmmadiag.processes.child import ChildEnded

Asked = ParamSpec("Asked")
Result = TypeVar("Result")


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


class Copy:
    """A copy of this process that calls functions for it, one after the other; a new one after it has died."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._process = 0
        self._owner = 0
        self._connection: Connection | None = None
        atexit.register(self.stop)

    def call(self, work: Callable[Asked, Result], *given: Asked.args, **named: Asked.kwargs) -> Result:
        """What `work` returns, or raises, in the copy; both and their arguments can be pickled.

        Raises:
            ChildEnded: the copy ended without an answer.
            OSError: the system makes none.
        """
        with self._asking:
            connection = self._connection
            if connection is None or self._owner != os.getpid():
                connection = self._made()
            try:
                connection.send((work, given, named))
                answer, failure = connection.recv()
            except (EOFError, ConnectionError):
                raise ChildEnded(self.stop()) from None
            except BaseException:  # an interrupt: what comes later would be taken for the next answer
                self.stop()
                raise
        if failure is not None:
            raise failure
        return answer  # type: ignore[no-any-return]

    def _made(self) -> Connection:
        ours, theirs = Pipe()
        child = os.fork()
        if child == 0:
            ours.close()
            _serve(theirs)
        theirs.close()
        self._connection, self._process, self._owner = ours, child, os.getpid()
        return ours

    def stop(self) -> int | None:
        """End the copy, whoever waits for its answer. How it ended, if it did so by itself: as `subprocess` has it."""
        connection, self._connection = self._connection, None
        if connection is None or self._owner != os.getpid():
            return None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        status = os.waitpid(self._process, 0)[1]
        connection.close()  # last: who waits for an answer reads from it
        return os.waitstatus_to_exitcode(status)


def _serve(connection: Connection) -> None:
    """In the copy: answer until the connection closes."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked says when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        while True:
            work, given, named = connection.recv()
            try:
                answer: tuple[object, BaseException | None] = (work(*given, **named), None)
            except BaseException as error:
                answer = (None, error)
            connection.send(answer)
    finally:
        os._exit(0)
