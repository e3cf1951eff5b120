"""From lines that a user types to commands and their answers."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from wmmadiag.debugger.breakpoints import Breakpoints
from wmmadiag.debugger.commands import breaking, loading, looking, running
from wmmadiag.debugger.commands.command import Command, Reply
from wmmadiag.debugger.local_variables import NotKeptError
from wmmadiag.debugger.position import Moment
from wmmadiag.debugger.session import Session
from wmmadiag.errors import ConfigurationError, did_you_mean


class Interpreter:
    """Runs commands on a session.

    Attributes:
        session: what they are about.
        keeps: whether the source is compiled anew once a local variable is asked for, so that they keep their values.
        breakpoints: where it stops.
        listed: the line that `list` showed last; repeated: whether an empty line repeats the command.
        looked_behind: the moment at which `why` was asked last, and how many dependences it went.
    """

    def __init__(self, session: Session, *, keeps: bool = True) -> None:
        self.session = session
        self.keeps = keeps
        self.breakpoints = Breakpoints(session)
        self.listed: int | None = None
        self.repeated = False
        self.looked_behind: tuple[Moment | None, int] = (None, 0)
        self._last = ""

    def load(self, session: Session) -> None:
        """Go on with another session; its predecessor's breakpoints are gone."""
        self.session = session
        self.breakpoints = Breakpoints(session)
        self.listed = None

    @cached_property
    def commands(self) -> tuple[Command, ...]:
        """All commands, in the order of `help`."""
        own = (
            Command("help", ("h", "?"), "[COMMAND]", "this list, or all about a command", _help, "the rest",
                    complete=lambda interpreter: [one.name for one in interpreter.commands]),
            Command("quit", ("q", "exit"), "", "leave", lambda *_: Reply(leave=True), "the rest"),
        )  # fmt: skip
        return (*running.COMMANDS, *breaking.COMMANDS, *looking.COMMANDS, *loading.COMMANDS, *own)

    def find(self, word: str) -> Command:
        """The command that a word calls: its name, an alias, or an unambiguous beginning of a name.

        Raises:
            ConfigurationError: none, or several.
        """
        for one in self.commands:
            if word == one.name or word in one.aliases:
                return one
        begun = [one for one in self.commands if one.name.startswith(word)]
        if len(begun) == 1:
            return begun[0]
        if begun:
            names = " or ".join(one.name for one in begun)
            raise ConfigurationError(f"'{word}' may be {names}", hint="write more of it")
        known = [name for one in self.commands for name in (one.name, *one.aliases) if len(name) > 2]
        raise ConfigurationError(f"there is no command '{word}'", hint=did_you_mean(word, known, "help lists them"))

    def run(self, line: str) -> Reply:
        """Run one line; an empty one repeats the last command, if that can be repeated; # begins a comment.

        Raises:
            WmmadiagError: it cannot be done; the session stays as it is.
        """
        text = line.strip()
        self.repeated = not text
        if text.startswith("#"):
            return Reply()
        text = text or self._last
        if not text:
            return Reply()
        words = _words(text)
        command = self.find(words[0])
        self._last = text if command.repeats else ""
        try:
            return command.run(self, words[1:])
        except NotKeptError:
            if not self.keeps:
                raise
            told = loading.keep(self)
            reply = command.run(self, words[1:])
            return replace(reply, text=f"{told.text}\n{reply.text}")

    def completions(self, text: str) -> Sequence[str]:
        """Words that may stand at the end of a line that has been begun."""
        words = text.split(" ")
        if len(words) < 2:
            return [one.name for one in self.commands if one.name.startswith(words[0])]
        try:
            command = self.find(words[0])
        except ConfigurationError:
            return []
        return [word for word in command.complete(self) if word.startswith(words[-1])]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True) or [text]
    except ValueError:
        return text.split()


def _help(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    if words:
        one = interpreter.find(words[0])
        aliases = f"\nshort: {', '.join(one.aliases)}" if one.aliases else ""
        return Reply(f"{one.name} {one.usage}".rstrip() + f"\n  {one.summary}{aliases}")
    groups: dict[str, list[Command]] = {}
    for one in interpreter.commands:
        groups.setdefault(one.group, []).append(one)
    lines = []
    for group, commands in groups.items():
        lines.append(f"{group}:")
        for one in commands:
            name = ", ".join((one.name, *one.aliases[:1]))
            lines.append(f"  {name:<22} {one.summary}")
    lines.append("An empty line repeats a step. Ctrl-C interrupts a run. `help COMMAND` tells more.")
    return Reply("\n".join(lines), {"commands": [one.name for one in interpreter.commands]})
