"""The two ways in which the process of a program begins: anew, or as a copy of this one, whose imports are made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Protocol


class Started(Protocol):
    """A process that runs a program."""

    pid: int  # which is its group's, too

    def wait(self) -> int:
        """Its exit status, or minus the signal that ended it, once it has ended."""


class _Copy:
    """A copy of this process that runs a program."""

    def __init__(self, pid: int) -> None:
        self.pid, self.status = pid, -1
        self.ended = False

    def wait(self) -> int:
        if not self.ended:
            _, status = os.waitpid(self.pid, 0)
            self.status, self.ended = os.waitstatus_to_exitcode(status), True
        return self.status


def may_copy() -> bool:
    """Whether a copy of this process is whole: only the thread that asks is in it."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir()) == 1
    except OSError:
        return False


def load() -> None:
    """Import what a launch needs."""


def anew(words: Sequence[str], handed: Sequence[int], output: int | IO[bytes] | None, *, quiet: bool) -> Started:
    """A new interpreter, for a caller of any kind.

    Args:
        words: of `child.main`.
        handed: descriptors that it keeps.
        output: its standard output; `quiet`: its standard error, too, and it reads nothing.
    """
    start = f"import sys; sys.path[:] = {sys.path!r}; from wmmadiag.programs.child import main; main(sys.argv[1:])"
    return subprocess.Popen(
        [sys.executable, "-c", start, *words],
        pass_fds=handed,
        start_new_session=True,
        stdin=subprocess.DEVNULL if quiet else None,
        stdout=output,
        stderr=output if quiet else None,
    )


def as_copy(words: Sequence[str], closed: Sequence[int], output: int | None) -> Started:
    """A copy of this process, where `may_copy`.

    Args:
        words, output: as of `anew`.
        closed: descriptors that are this process's alone.
    """
    pid = os.fork()
    if pid:
        return _Copy(pid)
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if callable(signal.getsignal(number)):  # ours; what is ignored stays so
                signal.signal(number, signal.SIG_DFL)
        for one in closed:
            os.close(one)
        if output is not None:
            os.dup2(output, 1)
        from wmmadiag.programs.child import main

        main(words)
    except BaseException:  # nothing of this process's may be unwound twice
        traceback.print_exc()
    finally:
        os._exit(1)
