"""Let an editor debug kernels: the Debug Adapter Protocol over standard input and output.

Editors start this; editors/vscode/ shows how. To debug from a terminal: wmmadiag debug.
"""

from __future__ import annotations

import argparse
import contextlib
import sys

from wmmadiag.cli.console import Console
from wmmadiag.errors import ConfigurationError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments: there are none, all is in the editor's launch configuration."""
    del parser


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.debugger.dap import Adapter, messages, write

    del args, console
    if sys.stdin.isatty():
        raise ConfigurationError("editors speak to `wmmadiag dap`, not people", hint="wmmadiag debug CARD")
    output = sys.stdout.buffer
    adapter = Adapter(lambda message: write(output, message))
    with contextlib.redirect_stdout(sys.stderr):  # nothing but messages may come out there
        for message in messages(sys.stdin.buffer):
            adapter.handle(message)
            if adapter.ended:
                break
    return 0
