"""Which changes of a program the compiler's messages are about."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace

from wmmadiag.compile.diagnostics import Diagnostic
from wmmadiag.csource.edits import applied
from wmmadiag.csource.lexical import closing
from wmmadiag.diagnose.changes import Texts
from wmmadiag.diagnose.trials.schemata import OTHER_TYPE, Schemata
from wmmadiag.place import Place

_FOLLOWS = "<error-type>"
"""In a message that follows from another one: it is about what could not be declared."""
_ALONE = re.compile(r"As<(?P<original>.*), <error-type>, (?P<number>\d+)U?>")
"""Of an alternative that is an error by itself, in place of something that is none."""
_NUMBER = re.compile(r", (\d+)U?$")
"""The change that a message is about, wherever it says to be: in a macro's argument, where the macro is used."""
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_QUOTED = re.compile(r'"([^"]*)"')
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class Blame:
    """What messages say of a program's changes, by number."""

    refused: dict[int, str] = field(default_factory=dict)  # with the message that names it
    other_type: set[int] = field(default_factory=set)  # of another type than what they stand in for
    suspects: set[int] = field(default_factory=set)  # one of them, or several, may be what a message is about


def blame(errors: Sequence[Diagnostic], schemata: Schemata, texts: Texts) -> Blame:
    """Whom errors name. Where some are refused, the others may follow from that.

    Args:
        texts: the source without a change.
    """
    found = Blame()
    unknown: dict[str, str] = {}
    for error in errors:
        undefined = _UNDEFINED.match(error.message)
        if undefined is not None:
            unknown.setdefault(undefined[1], error.message)
    unsaid: list[Diagnostic] = []
    named: set[Place] = set()
    for error in errors:
        # A template of a library says what is wrong in its own file, and who asked for it behind that.
        place = next((one for one in error.places() if one.file in schemata.lines), None)
        if place is None:
            continue
        error, lines = replace(error, place=place), schemata.lines[place.file]
        key = _number(error.message, schemata.changes)
        key = lines.own.get(error.place.line) if key is None else key
        if _FOLLOWS in error.message:
            message = _also_undefined(error, lines.stands.get(error.place.line), unknown)
            if key is not None and message:
                found.refused.setdefault(key, message)
            continue
        if key is None:
            unsaid.append(error)
            continue
        named.add(error.place)
        if OTHER_TYPE in error.message:
            found.other_type.add(key)
        else:
            found.refused.setdefault(key, error.message)
    for error in unsaid:
        if error.place not in named:  # of a macro's use: it may follow
            around = [
                numbers for first, last, numbers in schemata.lines[error.place.file].around
                if first <= error.place.line <= last
            ]  # fmt: skip
            found.suspects |= set(around[-1]) if around else _given(error.place, schemata, texts)
    if not found.suspects and not found.refused and not found.other_type:
        directives = {key for lines in schemata.lines.values() for key in lines.directives}
        found.suspects = directives or _naming(errors, schemata, texts)
    found.other_type -= found.refused.keys()
    return found


def _number(message: str, changes: Container[int]) -> int | None:
    """The number of the change that a message names by the type of its alternative, `As<T, 12>`; None for none.

    T may be a template with numbers of its own, and so may whatever else the message names.
    """
    start, depth = message.find("As<"), 0
    if start < 0:
        return None
    for at in range(start, len(message)):
        depth += (message[at] == "<") - (message[at] == ">" and message[at - 1] != "-")
        if depth == 0 and message[at] == ">":
            number = _NUMBER.search(message, start, at)
            return int(number[1]) if number is not None and int(number[1]) in changes else None
    return None


def _given(place: Place, schemata: Schemata, texts: Texts) -> set[int]:
    """What stands in the arguments of the call that a message is about: it is where the call begins."""
    text = applied(texts[place.file], schemata.edits[place.file])
    start = -1
    for _ in range(place.line - 1):
        start = text.find(b"\n", start + 1)
    opened = text.find(b"(", start + max(1, place.column))
    end = closing(text, opened) if opened >= 0 else None
    last = text.count(b"\n", 0, end) + 1 if end is not None else place.line
    around = schemata.lines[place.file].around
    return {number for first, _, numbers in around if place.line < first <= last for number in numbers}


def _naming(errors: Sequence[Diagnostic], schemata: Schemata, texts: Texts) -> set[int]:
    """What names, and did not before, something that messages name: a function that is defined nowhere."""
    told = {word for error in errors for quoted in _QUOTED.findall(error.message) for word in _WORD.findall(quoted)}
    found = set()
    for key, change in schemata.changes.items():
        old = b" ".join(texts[one.file][one.start : one.end] for one in change.edits).decode("utf-8", "replace")
        new = " ".join(one.text for one in change.edits)
        if told & (set(_WORD.findall(new)) - set(_WORD.findall(old))):
            found.add(key)
    return found


def _also_undefined(error: Diagnostic, stands: tuple[str, str] | None, unknown: dict[str, str]) -> str:
    """The message about a name that the compiler has said already, and says once only; "" where that is not sure."""
    alone = _ALONE.search(error.message)
    if stands is None or alone is None or _FOLLOWS in alone["original"]:
        return ""
    original, alternative = stands
    new = set(_WORD.findall(alternative)) - set(_WORD.findall(original))
    return next((unknown[name] for name in sorted(new)), "") if new and new <= unknown.keys() else ""
