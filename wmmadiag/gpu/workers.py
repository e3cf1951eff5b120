"""One worker process per GPU, kept until a sticky error ends it, then replaced."""

from __future__ import annotations

import atexit
import subprocess
import sys
import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from wmmadiag.errors import BudgetError, UndecidedError, WmmadiagError
from wmmadiag.gpu.assemble import OPTIMISED, Assembly
from wmmadiag.gpu.meanings import meaning
from wmmadiag.gpu.wire import Failed

_START_SECONDS = 120.0
_END_SECONDS = 5.0


class Worker:
    """A process that owns a context on one GPU."""

    def __init__(self, device: int) -> None:
        self.device = device
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def ask(self, key: str, code: bytes, *request: Any, seconds: float) -> Any:
        """Send a request about a module that is loaded first where that has not happened.

        Args:
            seconds: how long the answer may take; 0: for ever.

        Raises:
            BudgetError: no answer in time; the process is ended.
            UndecidedError: the process ended without an answer.
        """
        with self._lock:
            connection = self._running()
            if key not in self._known:
                failed = self._exchange(connection, ("load", key, code), _START_SECONDS)
                if failed is not None:
                    return failed
                self._known.add(key)
            return self._exchange(connection, request, seconds)

    def assemble(self, ptx: str, arch: str, name: str = "<ptx>", how: Assembly = OPTIMISED) -> bytes:
        """`assemble.assemble`, in the worker: no GPU is needed.

        Raises:
            CompileError, ConfigurationError: as there.
            UndecidedError: the assembler crashed.
        """
        with self._lock:
            try:
                code = self._exchange(self._running(), ("assemble", ptx, arch, name, how), 0.0)
            except UndecidedError as error:
                raise UndecidedError(
                    f"the assembler crashed on {name}",
                    detail=error.detail,
                    hint="try another version of nvidia-nvjitlink; the emulator does not need it",
                ) from None
        assert isinstance(code, bytes)
        return code

    def _exchange(self, connection: Connection, request: tuple[Any, ...], seconds: float) -> Any:
        try:
            connection.send(request)
            if not connection.poll(seconds or None):
                self.stop()
                raise BudgetError(
                    f"the launch did not end on the GPU within {seconds:g} s",
                    hint="look for an endless loop or a barrier that not all threads reach: the emulator says where "
                    "each warp stands; or raise the budget",
                )
            answer = connection.recv()
        except (EOFError, ConnectionError):
            code = self._exit_status()
            self.stop()
            raise UndecidedError(
                "the process that runs kernels on the GPU ended without an answer",
                detail=f"exit status {code}" if code is not None else "",
                hint="see the system's log; run on the emulator meanwhile",
            ) from None
        except BaseException:  # an interrupt: the kernel may run on, and its answer would be taken for the next one's
            self.stop()
            raise
        if isinstance(answer, WmmadiagError):
            raise answer
        if isinstance(answer, Failed) and meaning(answer.code).sticky:
            self.stop()
        return answer

    def _exit_status(self) -> int | None:
        """Of a process whose connection has closed; None if it hangs all the same."""
        try:
            return self._process.wait(_END_SECONDS) if self._process else None
        except subprocess.TimeoutExpired:
            return None

    def _running(self) -> Connection:
        if self._connection is not None and self._process is not None and self._process.poll() is None:
            return self._connection
        self.stop()
        ours, theirs = Pipe()
        # The worker imports what this process would: not what happens to lie in the current folder.
        start = f"import sys; sys.path[:] = {sys.path!r}; from wmmadiag.gpu.worker import main; sys.exit(main())"
        self._process = subprocess.Popen(
            [sys.executable, "-c", start, str(self.device), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self._connection = ours
        return ours

    def stop(self) -> None:
        """End the process; the next request starts another."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._connection, self._process, self._known = None, None, set()


_WORKERS: dict[int, Worker] = {}
_LOCK = threading.Lock()


def worker(device: int) -> Worker:
    """The worker of a GPU."""
    with _LOCK:
        if device not in _WORKERS:
            _WORKERS[device] = Worker(device)
        return _WORKERS[device]


@atexit.register
def stop_all() -> None:
    """End all workers."""
    for one in _WORKERS.values():
        one.stop()
