"""The process that runs launches on one GPU.

It lives until its parent goes or a launch leaves a sticky error, after which no call of the process can succeed.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from multiprocessing.connection import Connection
from typing import Any

from wmmadiag.errors import WmmadiagError
from wmmadiag.gpu.assemble import assemble
from wmmadiag.gpu.devices import DriverError
from wmmadiag.gpu.meanings import meaning
from wmmadiag.gpu.session import GpuSession
from wmmadiag.gpu.wire import Failed


class _ProcessOutput:
    """Device printf goes to the process' standard output, a failed assertion to its standard error.

    Both are one file, read after each launch.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process)
        os.dup2(self._file.fileno(), 1)
        os.dup2(self._file.fileno(), 2)
        self._libc = ctypes.CDLL(None)

    def __call__(self) -> str:
        self._libc.fflush(None)
        self._file.seek(0)
        text = self._file.read().decode("utf-8", "replace")
        self._file.seek(0)
        self._file.truncate()
        return text


def main(connection: Connection, device: str) -> None:
    """Answer requests until the parent closes the connection or the GPU is lost to this process.

    Args:
        device: the GPU's number.

    Raises:
        EOFError: the connection is closed.
    """
    output = _ProcessOutput()
    session: GpuSession | None = None
    while True:
        request: tuple[Any, ...] = connection.recv()
        answer: Any
        try:
            if request[0] == "assemble":  # here, since a compiler that crashes takes its process with it
                answer = assemble(*request[1:])
                connection.send(answer)
                continue
            session = session or GpuSession(int(device))
            if request[0] == "load":
                answer = session.load(request[1], request[2])
            elif request[0] == "run":
                answer = session.run(request[1], output)
            else:
                answer = session.time(*request[1:])
        except DriverError as error:
            answer = Failed(error.code, error.doing)
        except WmmadiagError as error:
            answer = error
        connection.send(answer)
        if isinstance(answer, Failed) and meaning(answer.code).sticky:
            connection.close()
            os._exit(0)  # the driver's own clean-up would only meet the same error again
