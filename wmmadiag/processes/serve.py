"""What a child process begins with; its arguments: target, descriptors of connection and bond, words for the target."""

from __future__ import annotations

import importlib
import signal
import sys
from multiprocessing.connection import Connection

from wmmadiag.processes.life import bind_to_parent


def serve() -> int:
    """Tie the bond and hand the connection to the target; its exit status is the process'."""
    target, descriptor, watched, *words = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    bind_to_parent(int(watched))
    module, _, name = target.partition(":")
    function = getattr(importlib.import_module(module), name)
    try:
        function(Connection(int(descriptor)), *words)
    except (EOFError, BrokenPipeError, ConnectionError):  # the parent has closed it: nobody asks any more
        return 0
    return 0
