"""Commands that say where to stop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from wmmadiag.debugger.commands.command import Command, Reply, whole
from wmmadiag.debugger.conditions import Conditions
from wmmadiag.errors import ConfigurationError

if TYPE_CHECKING:
    from wmmadiag.debugger.interpreter import Interpreter
    from wmmadiag.debugger.session import Session

_WHERE = "LINE | FILE:LINE | FUNCTION | tensor | nan  [block N] [warp N]"


def stop_conditions(session: Session, words: Sequence[str]) -> tuple[str, Conditions]:
    """What `break` is given, in words and as conditions.

    Raises:
        ConfigurationError: it is no place to stop.
    """
    rest, block, warp = list(words), None, None
    while len(rest) > 2 and rest[-2] in ("block", "warp"):
        number, which = whole(rest.pop(), "number"), rest.pop()
        block, warp = (number, warp) if which == "block" else (block, number)
    where = rest[0] if rest else ""
    only = "".join(f", {name} {n}" for name, n in (("block", block), ("warp", warp)) if n is not None)
    if not where:
        raise ConfigurationError("break where?", hint=f"break {_WHERE}")
    if len(rest) > 1:
        raise ConfigurationError(f"'{' '.join(rest)}' is no place", hint=f"break {_WHERE}")
    if where == "tensor":
        return f"tensor-core operation{only}", session.conditions(tensor=True, block=block, warp=warp)
    if where == "nan":
        return f"a NaN{only}", session.conditions(nan=True, block=block, warp=warp)
    if where.isdigit() or (":" in where and where.rpartition(":")[2].isdigit()):
        file, _, wanted = where.rpartition(":")
        line = session.lines.slid(int(wanted), file)
        at = f"{file}:{line}" if file else line
        slid = "" if line == int(wanted) else f" ({wanted} has no code)"
        what = f"line {str(at).rpartition('/')[2]}{slid}{only}"
        return what, session.conditions(line=at, block=block, warp=warp)
    return f"function {where}{only}", session.conditions(function=where, block=block, warp=warp)


def _break(interpreter: Interpreter, words: Sequence[str], *, temporary: bool = False) -> Reply:
    place = interpreter.session.moment.place
    words = words or ([] if place is None else [f"{place.file}:{place.line}"])
    what, _ = stop_conditions(interpreter.session, words)
    made = interpreter.breakpoints.add(what, lambda one: stop_conditions(one, words)[1], temporary=temporary)
    places = sum(map(bool, made.conditions.before))
    more = f" ({places} places)" if places > 1 else ""
    return Reply(f"breakpoint {made.number}: {what}{more}", {"number": made.number, "where": what})


def _watch(interpreter: Interpreter, words: Sequence[str], *, reads: bool = False) -> Reply:
    if not words:
        raise ConfigurationError("watch what?", hint="watch sK[3][5], or watch O[0,1,17,3]")
    block = None
    rest = list(words)
    if len(rest) > 2 and rest[-2] == "block":
        block = whole(rest[-1], "block")
        rest = rest[:-2]
    element = interpreter.session.arrays.element(" ".join(rest))
    what = f"{'access to' if reads else 'write to'} {element.text}"
    made = interpreter.breakpoints.add(
        what, lambda one: one.conditions(watch=" ".join(rest), block=block, reads=reads), element=element.text
    )
    return Reply(f"breakpoint {made.number}: {what}", {"number": made.number, "where": what})


def _delete(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    count = interpreter.breakpoints.delete([whole(word, "breakpoint") for word in words])
    return Reply(f"deleted {count} breakpoint{'s' * (count != 1)}", {"deleted": count})


def _enable(interpreter: Interpreter, words: Sequence[str], *, on: bool = True) -> Reply:
    points = [interpreter.breakpoints.get(whole(word, "breakpoint")) for word in words]
    for one in points or interpreter.breakpoints.all.values():
        one.enabled = on
    return Reply("on" if on else "off")


def _places(interpreter: Interpreter) -> Sequence[str]:
    return ("tensor", "nan", *interpreter.session.lines.functions)


def arrays(interpreter: Interpreter) -> Sequence[str]:
    """The names of arrays, as words that may follow a command."""
    return tuple(interpreter.session.arrays.parts)


GROUP = "where to stop"
COMMANDS = (
    Command("break", ("b", "br"), _WHERE, "stop before a line, a function, a tensor-core operation; at a NaN",
            _break, GROUP, complete=_places),
    Command("tbreak", ("tb",), _WHERE, "the same, once", partial(_break, temporary=True), GROUP, complete=_places),
    Command("watch", ("wa",), "ELEMENT [block N]", "stop after a write to sK[3][5], O[0,1,17,3] or a whole array",
            _watch, GROUP, complete=arrays),
    Command("awatch", (), "ELEMENT [block N]", "the same, also after a read", partial(_watch, reads=True), GROUP,
            complete=arrays),
    Command("delete", ("d", "del"), "[NUMBER…]", "delete breakpoints, or all", _delete, GROUP),
    Command("enable", (), "[NUMBER…]", "let breakpoints count", _enable, GROUP),
    Command("disable", (), "[NUMBER…]", "let them not count", partial(_enable, on=False), GROUP),
)  # fmt: skip
