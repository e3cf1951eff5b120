"""The prompt: reads commands from a terminal, a file or a pipe, and writes their answers."""

from __future__ import annotations

import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.compile.cache import cache_folder
from wmmadiag.debugger.commands.command import Reply
from wmmadiag.debugger.interpreter import Interpreter
from wmmadiag.errors import WmmadiagError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completion
    from prompt_toolkit.document import Document

PROMPT = "(wmmadiag) "
WriteText = Callable[[str], None]


class Prompt:
    """Runs lines and writes what they answer.

    Args:
        interpreter: who runs them.
        write: takes text for standard output; as_json: one JSON object per command.
    """

    def __init__(self, interpreter: Interpreter, write: WriteText, *, as_json: bool = False) -> None:
        self.interpreter, self._write, self.as_json = interpreter, write, as_json

    def run(
        self, lines: Iterable[str], *, echo: bool = False, stop_at_error: bool = False, survive: bool = False
    ) -> int | None:
        """Run lines until they end (None) or one leaves (0); with `stop_at_error` an error's exit code.

        Args:
            survive: a bug in a command ends the command only: a user would lose the session.
        """
        for line in lines:
            if echo and line.strip():
                self._write(f"{PROMPT}{line.strip()}")
            try:
                code, leave = self._one(line)
            except Exception as bug:
                if not survive or isinstance(bug, (BrokenPipeError, MemoryError)):
                    raise
                code, leave = 0, False
                self._say_error(line, _reported(bug))
            if leave:
                return 0
            if stop_at_error and code:
                return code
        return None

    def _one(self, line: str) -> tuple[int, bool]:
        try:
            reply = self.interpreter.run(line)
        except WmmadiagError as error:
            self._say_error(line, error)
            return error.exit_code, False
        except KeyboardInterrupt:
            self._write("interrupted")
            return 0, False
        self._say(line, reply)
        return 0, reply.leave

    def _say(self, line: str, reply: Reply) -> None:
        if self.as_json:
            if line.strip() and not line.lstrip().startswith("#"):
                self._json({"command": line.strip(), "ok": True, "text": reply.text, "data": reply.data})
        elif reply.text:
            self._write(reply.text)

    def _say_error(self, line: str, error: WmmadiagError) -> None:
        if self.as_json:
            message = {"message": error.message, "hint": error.hint, "detail": error.detail}
            self._json({"command": line.strip(), "ok": False, "error": message})
        else:
            self._write(f"error: {error}")

    def _json(self, data: dict[str, Any]) -> None:
        self._write(json.dumps(_finite(data), default=str, allow_nan=False))


def _reported(bug: Exception) -> WmmadiagError:
    if os.environ.get("WMMADIAG_DEBUG") == "1":
        traceback.print_exc()
    what = f"{type(bug).__name__}: {bug}".strip().rstrip(":")
    return WmmadiagError(
        f"internal error, a bug of wmmadiag: {what}",
        hint="please report it with the commands before it; WMMADIAG_DEBUG=1 shows where it happened."
        " The session goes on",
    )


def _finite(data: Any) -> Any:
    """The same with null for what JSON has no number for."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    return [_finite(value) for value in data] if isinstance(data, (list, tuple)) else data


def lines_of() -> Iterator[str]:
    """Lines that a user types: with history, completion and editing on a terminal, as they are from a pipe."""
    if not sys.stdin.isatty():
        for line in sys.stdin:
            yield line.rstrip("\n")
        return
    while True:
        try:
            yield input(PROMPT)
        except KeyboardInterrupt:
            print("(quit leaves)")
        except EOFError:
            return


def typed_lines(interpreter: Interpreter) -> Iterator[str]:
    """The same, with prompt_toolkit where both ends are a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        yield from lines_of()
        return
    session = _toolkit(interpreter)
    while True:
        try:
            yield session.prompt(PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def _toolkit(interpreter: Interpreter) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class CommandCompleter(Completer):
        def get_completions(self, document: Document, complete_event: object) -> Iterator[Completion]:
            del complete_event
            before = document.text_before_cursor.lstrip()
            word = before.rpartition(" ")[2]
            for found in interpreter.completions(before):
                yield Completion(found, start_position=-len(word))

    path = history_path()
    history = InMemoryHistory() if path is None else FileHistory(str(path))
    return PromptSession(history=history, completer=CommandCompleter(), complete_while_typing=False)


def history_path() -> Path | None:
    """Where typed commands are kept; None where nothing can be kept."""
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder / "debugger_history"
