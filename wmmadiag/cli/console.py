"""What the commands print through: colour, width, progress, errors."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from wmmadiag.errors import ConfigurationError, WmmadiagError
from wmmadiag.processes.waiting import FIRST, telling

MIN_WIDTH = 80
_RED = "31;1"
_BOLD = "1"


def colour_wanted(choice: str, stream: TextIO) -> bool:
    """Whether to colour a stream: as chosen; "auto": on a terminal, unless NO_COLOR is set (no-color.org)."""
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """Columns of the terminal, at least 80."""
    return max(MIN_WIDTH, shutil.get_terminal_size((MIN_WIDTH, 24)).columns)


_WORKFLOW_COMMAND = re.compile(r"((?:^|[\r\n])[^\S\r\n]*:):|(##)\[")
"""What a runner of GitHub Actions obeys: "::name" at a line's beginning, and the older "##[name]" anywhere in it
(actions/runner, `ActionCommand.cs`)."""


def disarmed(text: str) -> str:
    """Text in which a runner of GitHub Actions finds no workflow command: a space parts what would begin one."""
    return _WORKFLOW_COMMAND.sub(lambda found: f"{found[1]} :" if found[1] is not None else "## [", text)


class Console:
    """Standard output and error of one command.

    Attributes:
        colour_choice: "auto", "always" or "never".
        workflow: whether a runner of GitHub Actions reads along; then names and printed text of a kernel issue no
            workflow commands.
        quiet: whether only what is not right is told, and no progress.
    """

    def __init__(self, colour: str = "auto") -> None:
        self.colour_choice = colour
        self.workflow = os.environ.get("GITHUB_ACTIONS") == "true"
        self.quiet = False
        self._progress = ""
        self._turn = threading.RLock()

    @property
    def colour(self) -> bool:
        """Whether standard output is coloured."""
        return colour_wanted(self.colour_choice, sys.stdout)

    def print(self, text: str, *, commands: bool = False) -> None:
        """Write to standard output, a line break added where there is none.

        Args:
            commands: whether workflow commands in it are meant.
        """
        self.clear()
        if self.workflow and not commands:
            text = disarmed(text)
        try:
            sys.stdout.write(text if text.endswith("\n") else text + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise ConfigurationError(
                f"cannot write to standard output: {error.strerror}", hint="free the disk, or send the output elsewhere"
            ) from None

    def verdict(self, text: str, code: int) -> None:
        """Write what was found, whose exit code is `code`: of what is right a quiet command says nothing."""
        if code or not self.quiet:
            self.print(text)

    def note(self, text: str) -> None:
        """Write a line to standard error; one that cannot be written is nobody's to read, and changes no exit code."""
        self.clear()
        if self.workflow:
            text = disarmed(text)
        with contextlib.suppress(OSError):
            sys.stderr.write(text if text.endswith("\n") else text + "\n")
            sys.stderr.flush()

    def error(self, error: WmmadiagError | str) -> None:
        """Write an error to standard error: what, where, what next."""
        mark = "error:"
        if colour_wanted(self.colour_choice, sys.stderr):
            mark = f"\x1b[{_RED}m{mark}\x1b[0m"
        self.note(f"wmmadiag: {mark} {error}")

    def progress(self, text: str) -> None:
        """Show a passing line on standard error, if that is a terminal."""
        if self.quiet or not sys.stderr.isatty():
            return
        with self._turn:
            self.clear()
            self._progress = text[: terminal_width() - 1]
            sys.stderr.write(self._progress)
            sys.stderr.flush()

    @contextlib.contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Show what goes on, and for how long, once it takes longer than `waiting.FIRST` seconds."""
        if self.quiet or not sys.stderr.isatty():
            yield
            return
        try:
            with telling(lambda seconds: self.progress(f"{what}, {seconds:.0f} s"), FIRST):
                yield
        finally:
            self.clear()

    def clear(self) -> None:
        """Take the passing line away."""
        with self._turn:
            if self._progress:
                self._progress = ""
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()


def tolerant_streams() -> None:
    """Let neither a character that the terminal's encoding lacks nor a stream that is closed end the program."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: `wmmadiag … >&-`
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115, open until the end
        stream = getattr(sys, name)
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
