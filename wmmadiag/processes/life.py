"""The bond between a process and its children: a pipe that nobody writes to, and that breaks when the parent goes.

The kernel sends SIGIO to the child's whole process group when the pipe's other end closes (fcntl(2), O_ASYNC and
F_SETOWN), whatever ended the parent and whatever the child is doing: no thread that waits for the interpreter's lock,
and, unlike prctl(2)'s PR_SET_PDEATHSIG, nothing that depends on which of the parent's threads made the child.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys


def bind_to_parent(descriptor: int) -> None:
    """End this process, and all of its group, when the other end of a pipe closes.

    Args:
        descriptor: the reading end of a pipe whose writing end only the parent holds.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)  # it ends a process
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    gone = select.poll()
    gone.register(descriptor, 0)  # hang-ups are told unasked
    if gone.poll(0):
        sys.exit(1)  # it went before the bond was tied


def end_group(leader: int) -> None:
    """End the processes of a group, if there are any left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
