"""What a command of the prompt is, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from wmmadiag.errors import ConfigurationError

if TYPE_CHECKING:
    from wmmadiag.debugger.interpreter import Interpreter


@dataclass(frozen=True, slots=True)
class Reply:
    """What a command answers: text for people, data for `--json`; `leave` ends the session."""

    text: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    leave: bool = False


CommandRun = Callable[["Interpreter", Sequence[str]], Reply]
Complete = Callable[["Interpreter"], Sequence[str]]


def _nothing(interpreter: Interpreter) -> Sequence[str]:
    del interpreter
    return ()


@dataclass(frozen=True, slots=True)
class Command:
    """One command."""

    # name, aliases: words that call it; unambiguous beginnings of the name do, too
    name: str
    aliases: tuple[str, ...]
    usage: str  # its arguments
    summary: str  # one line
    run: CommandRun  # called with the words after its name
    group: str  # under which `help` lists it
    repeats: bool = False  # an empty line repeats it
    complete: Complete = _nothing  # words that may follow it


def count_of(words: Sequence[str]) -> int:
    """The number that a command is given, at least 1.

    Raises:
        ConfigurationError: it is none.
    """
    if not words:
        return 1
    if len(words) == 1 and words[0].isdigit() and int(words[0]) > 0:
        return int(words[0])
    raise ConfigurationError(f"'{' '.join(words)}' is not a count", hint="give a number from 1 on, or nothing")


def whole(word: str, what: str) -> int:
    """A whole number of at least 0, also 0x….

    Raises:
        ConfigurationError: it is none.
    """
    try:
        value = int(word.replace(",", "").replace("_", ""), 0)
    except ValueError:
        value = -1
    if value < 0:
        raise ConfigurationError(f"'{word}' is no {what}", hint="give a number from 0 on")
    return value


def as_numbers(values: Any) -> Any:
    """Values as JSON has numbers."""
    array = np.asarray(values)
    return array.astype(np.float64).tolist() if array.dtype.kind not in "biuf" else array.tolist()
