"""What a child process begins with; its arguments: target, descriptors of connection and bond, words for the target."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection

from wmmadiag.processes.life import bind_to_parent


def serve() -> None:
    """Tie the bond, hand the connection to the target, and end with it.

    At once: a thread that the target has left behind must not keep a process, and a connection, that nobody serves.
    """
    target, descriptor, watched, *words = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    if isinstance(sys.stdout, io.TextIOWrapper):  # what is printed is not lost where the end comes at once
        sys.stdout.reconfigure(line_buffering=True)
    bind_to_parent(int(watched))
    module, _, name = target.partition(":")
    status = 1
    try:
        getattr(importlib.import_module(module), name)(Connection(int(descriptor)), *words)
        status = 0
    except (EOFError, BrokenPipeError, ConnectionError):  # the parent has closed it: nobody asks any more
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)
