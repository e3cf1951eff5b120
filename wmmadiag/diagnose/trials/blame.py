"""Which changes of a program the compiler's messages are about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from wmmadiag.compile.diagnostics import Diagnostic
from wmmadiag.diagnose.trials.schemata import OTHER_TYPE, Schemata

_FOLLOWS = "<error-type>"
"""In a message that follows from another one: it is about what could not be declared."""
_ALONE = re.compile(r"As<(?P<original>.*), <error-type>, (?P<number>\d+)U?>")
"""Of an alternative that is an error by itself, in place of something that is none."""
_NUMBER = re.compile(r"As<.*, (\d+)U?>")
"""The change that a message is about, wherever it says to be: in a macro's argument, where the macro is used."""
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class Blame:
    """What messages say of a program's changes, by number."""

    refused: dict[int, str] = field(default_factory=dict)  # with the message that names it
    other_type: set[int] = field(default_factory=set)  # of another type than what they stand in for
    suspects: set[int] = field(default_factory=set)  # one of them, or several, may be what a message is about


def blame(errors: Sequence[Diagnostic], schemata: Schemata) -> Blame:
    """Whom errors name. Where some are refused, the others may follow from that."""
    found = Blame()
    unknown: dict[str, str] = {}
    for error in errors:
        undefined = _UNDEFINED.match(error.message)
        if undefined is not None:
            unknown.setdefault(undefined[1], error.message)
    for error in errors:
        lines = schemata.lines.get(error.place.file)
        if lines is None:
            continue
        number = _NUMBER.search(error.message)
        key = int(number[1]) if number is not None else lines.own.get(error.place.line)
        if _FOLLOWS in error.message:
            message = _also_undefined(error, lines.stands.get(error.place.line), unknown)
            if key is not None and message:
                found.refused.setdefault(key, message)
        elif key is not None and OTHER_TYPE in error.message:
            found.other_type.add(key)
        elif key is not None:
            found.refused.setdefault(key, error.message)
        else:
            around = [numbers for first, last, numbers in lines.around if first <= error.place.line <= last]
            found.suspects |= set(around[-1]) if around else set()
    found.suspects = found.suspects or {key for lines in schemata.lines.values() for key in lines.directives}
    found.other_type -= found.refused.keys()
    return found


def _also_undefined(error: Diagnostic, stands: tuple[str, str] | None, unknown: dict[str, str]) -> str:
    """The message about a name that the compiler has said already, and says once only; "" where that is not sure."""
    alone = _ALONE.search(error.message)
    if stands is None or alone is None or _FOLLOWS in alone["original"]:
        return ""
    original, alternative = stands
    new = set(_WORD.findall(alternative)) - set(_WORD.findall(original))
    return next((unknown[name] for name in sorted(new)), "") if new and new <= unknown.keys() else ""
