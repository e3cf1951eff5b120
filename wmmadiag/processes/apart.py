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
from typing import Any, TypeVar

from wmmadiag.processes.child import ChildEnded
from wmmadiag.processes.life import bind_to_parent, end_group

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
    """A copy of this process that answers requests, one after the other; a new one after it has died.

    Args:
        answer: called in the copy with each request; what it returns and raises comes back.
    """

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self._answer = answer
        self._asking = threading.Lock()
        self._process = 0
        self._connection: Connection | None = None
        self._life = -1

    def begin(self) -> None:
        """Make the copy, of this process as it is now, unless there is one.

        Raises:
            OSError: the system makes none.
        """
        if self._connection is not None:
            return
        ours, theirs = Pipe()
        watched, life = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(life)
            ours.close()
            _serve(theirs, watched, self._answer)
        theirs.close()
        os.close(watched)
        self._connection, self._process, self._life = ours, child, life
        _RUNNING.add(self)

    def ask(self, request: Any) -> Any:
        """The answer to a request.

        Raises:
            ChildEnded: the copy ended without an answer, or was stopped.
            OSError: the system makes none.
        """
        with self._asking:
            self.begin()
            connection = self._connection
            try:
                if connection is None:
                    raise EOFError
                connection.send(request)
                answer, failure = connection.recv()
            except (EOFError, ConnectionError):
                raise ChildEnded(self.stop()) from None
            except BaseException:  # an interrupt: what comes later would be taken for the next answer
                self.stop()
                raise
        if failure is not None:
            raise failure
        return answer

    def stop(self) -> int | None:
        """End the copy and what it started, whoever waits for its answer. How it ended, if it did so by itself: as
        `subprocess` has it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return None
        _RUNNING.discard(self)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)  # first: one that has just begun leads no group yet
        end_group(self._process)
        status = os.waitpid(self._process, 0)[1]
        connection.close()  # last: who waits for an answer reads from it
        os.close(self._life)
        return os.waitstatus_to_exitcode(status)

    def forget(self) -> None:
        """In another copy of this process: this one is not its own. What it held of it would keep either alive."""
        connection, self._connection = self._connection, None
        self._asking = threading.Lock()
        if connection is not None:
            connection.close()
            os.close(self._life)


_RUNNING: set[Copy] = set()


@atexit.register
def _stop_all() -> None:
    for one in list(_RUNNING):
        one.stop()


def _forget_all() -> None:
    for one in _RUNNING:
        one.forget()
    _RUNNING.clear()


os.register_at_fork(after_in_child=_forget_all)


def _serve(connection: Connection, watched: int, answers: Callable[[Any], Any]) -> None:
    """In the copy: answer until the connection closes."""
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked says when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        bind_to_parent(watched)
        while True:
            request = connection.recv()
            try:
                answer: tuple[object, BaseException | None] = (answers(request), None)
            except BaseException as error:
                answer = (None, error)
            connection.send(answer)
    finally:
        os._exit(0)
