"""One worker process per GPU, kept until a sticky error ends it, then replaced."""

from __future__ import annotations

import atexit
import threading
from typing import Any

from wmmadiag.errors import BudgetError, UndecidedError, WmmadiagError
from wmmadiag.gpu.assemble import OPTIMISED, Assembly
from wmmadiag.gpu.meanings import meaning
from wmmadiag.gpu.wire import Failed
from wmmadiag.processes.child import Child, ChildEnded, ChildSilent

_START_SECONDS = 120.0


class Worker:
    """A process that owns a context on one GPU."""

    def __init__(self, device: int) -> None:
        self.device = device
        # What device code prints is the answer's, so that whatever else the process says is nobody's.
        self._child = Child("wmmadiag.gpu.worker:main", str(device), silent=True)
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
            if not self._child.running:
                self._known.clear()
            if key not in self._known:
                failed = self._exchange(("load", key, code), _START_SECONDS)
                if failed is not None:
                    return failed
                self._known.add(key)
            return self._exchange(request, seconds)

    def assemble(self, ptx: str, arch: str, name: str = "<ptx>", how: Assembly = OPTIMISED) -> bytes:
        """`assemble.assemble`, in the worker: no GPU is needed.

        Raises:
            CompileError, ConfigurationError: as there.
            UndecidedError: the assembler crashed.
        """
        with self._lock:
            try:
                code = self._exchange(("assemble", ptx, arch, name, how), 0.0)
            except UndecidedError as error:
                raise UndecidedError(
                    f"the assembler crashed on {name}",
                    detail=error.detail,
                    hint="try another version of nvidia-nvjitlink; the emulator does not need it",
                ) from None
        assert isinstance(code, bytes)
        return code

    def _exchange(self, request: tuple[Any, ...], seconds: float) -> Any:
        try:
            answer = self._child.ask(request, seconds or None)
        except ChildSilent:
            raise BudgetError(
                f"the launch did not end on the GPU within {seconds:g} s",
                hint="look for an endless loop or a barrier that not all threads reach: the emulator says where "
                "each warp stands; or raise the budget",
            ) from None
        except ChildEnded as ended:
            raise UndecidedError(
                "the process that runs kernels on the GPU ended without an answer",
                detail=ended.words(),
                hint="see the system's log; run on the emulator meanwhile",
            ) from None
        if isinstance(answer, WmmadiagError):
            raise answer
        if isinstance(answer, Failed) and meaning(answer.code).sticky:
            self.stop()
        return answer

    def stop(self) -> None:
        """End the process; the next request starts another."""
        self._child.stop()


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
