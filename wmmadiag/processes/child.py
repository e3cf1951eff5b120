"""A child process that answers requests, one at a time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.processes.life import end_group

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_END_SECONDS = 5.0


class ChildEnded(Exception):
    """The child ended without an answer; `status` as `subprocess` has it (negative: a signal's), None if unknown."""

    def __init__(self, status: int | None) -> None:
        super().__init__(status)
        self.status = status

    def words(self) -> str:
        """How it ended: "exit status 3", "signal SIGSEGV", or ""."""
        if self.status is None:
            return ""
        if self.status >= 0:
            return f"exit status {self.status}"
        try:
            return f"signal {signal.Signals(-self.status).name}"
        except ValueError:
            return f"signal {-self.status}"


class ChildSilent(Exception):
    """No answer came in time; the child was ended."""


def _current_folder() -> str:
    """The folder that this process works in; "" where it is gone."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


class Child:
    """A process that a function serves; it starts with the first request, and again after it has ended or this process
    has gone to another folder: names of files mean the same on both sides.

    Attributes:
        target: "package.module:function", called in the child with a connection and `arguments`. The function receives
            requests and sends answers until the connection closes.
        arguments: words for it.
        silent: whether what the child prints is thrown away; else it goes to standard error.
    """

    def __init__(self, target: str, *arguments: str, silent: bool = False) -> None:
        self.target = target
        self.arguments = arguments
        self.silent = silent
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._life = -1
        self._folder = ""
        self._ending = threading.Lock()

    @property
    def running(self) -> bool:
        """Whether the next request meets a child that has answered before."""
        process = self._process
        return process is not None and process.poll() is None

    def connection(self) -> Connection:
        """The connection to the running child."""
        folder = _current_folder()
        if self._connection is not None and self.running and folder == self._folder:
            return self._connection
        self.stop()
        self._folder = folder
        from multiprocessing import Pipe

        ours, theirs = Pipe()
        watched, self._life = os.pipe()
        # The child imports what this process would: not what happens to lie in the current folder.
        start = f"import sys; sys.path[:] = {sys.path!r}; from wmmadiag.processes.serve import serve; serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", start, self.target, str(theirs.fileno()), str(watched), *self.arguments],
            pass_fds=[theirs.fileno(), watched],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if self.silent else 2,
            start_new_session=True,
        )
        theirs.close()
        os.close(watched)
        self._connection = ours
        return ours

    def send(self, request: Any) -> None:
        """Send a request.

        Raises:
            ChildEnded: the child is gone.
        """
        try:
            self.connection().send(request)
        except (BrokenPipeError, ConnectionError):
            raise self._ended() from None

    def receive(self, seconds: float | None = None) -> Any:
        """The answer to the last request.

        Args:
            seconds: how long it may take; None: for ever.

        Raises:
            ChildEnded: the child ended without one.
            ChildSilent: none came in time; the child was ended.
        """
        connection = self._connection  # not another child's, which was never asked
        if connection is None:
            raise ChildEnded(None)
        try:
            if not connection.poll(seconds):
                raise ChildSilent
            return connection.recv()
        except (EOFError, ConnectionError):
            raise self._ended() from None
        except BaseException:  # silence, an interrupt: an answer that came later would be taken for the next one's
            self.stop()
            raise

    def ask(self, request: Any, seconds: float | None = None) -> Any:
        """Send a request and wait for its answer; arguments and errors of `receive`."""
        self.send(request)
        return self.receive(seconds)

    def _ended(self) -> ChildEnded:
        status, process = None, self._process
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):  # its connection has closed, but it lives
                status = process.wait(_END_SECONDS)
        self.stop()
        return ChildEnded(status)

    def stop(self) -> None:
        """End the child and what it started; the next request starts another.

        Two threads may both find that it must end, one of them while it waits for an answer: each descriptor is closed
        once, since its number may be somebody else's by the second time.
        """
        with self._ending:
            connection, process, life = self._connection, self._process, self._life
            self._connection, self._process, self._life = None, None, -1
        if process is not None:  # first: who waits for its answer then sees that it has ended
            end_group(process.pid)
            process.wait()
        if connection is not None:
            connection.close()
        if life >= 0:
            os.close(life)
