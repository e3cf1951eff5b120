"""Commands that go on, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wmmadiag.checks.registry import all_checks
from wmmadiag.debugger.against import open_other
from wmmadiag.debugger.commands.breaking import stop_conditions
from wmmadiag.debugger.commands.command import Command, CommandRun, Reply, count_of, whole
from wmmadiag.debugger.position import Moment
from wmmadiag.debugger.stepping import Unit
from wmmadiag.debugger.text import array_text, moment_text
from wmmadiag.errors import ConfigurationError

if TYPE_CHECKING:
    from wmmadiag.debugger.breakpoints import Breakpoint
    from wmmadiag.debugger.interpreter import Interpreter


def moment_data(moment: Moment) -> dict[str, Any]:
    """A moment for `--json`."""
    place = moment.place
    return {
        "reason": moment.reason,
        "message": moment.words,
        "file": None if place is None else place.file,
        "line": None if place is None else place.line,
        "block": moment.block,
        "warp": moment.warp,
        "lane": moment.lane,
        "time": moment.time,
    }


def moved(moment: Moment, more: str = "") -> Reply:
    """The reply of a command that went somewhere."""
    return Reply("\n".join(filter(None, [more, moment_text(moment)])), moment_data(moment))


def _stopped(interpreter: Interpreter, moment: Moment, met: Breakpoint | None) -> Reply:
    if met is None:
        return moved(moment, "" if moment.words else moment.reason)
    more = f"breakpoint {met.number}: {met.words}"
    if met.element and moment.time:
        session = interpreter.session
        new = session.values(met.element)
        with session.machine.returning():
            session.machine.seek(moment.time - 1)
            old = session.values(met.element)
        if new.size == 1:
            more += f"\n  was {array_text(old.reshape(()))}, is {array_text(new.reshape(()))}"
    return moved(moment, more)


def _continue(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    moment, met = interpreter.breakpoints.run()
    for _ in range(count_of(words) - 1):
        if met is None:
            break
        moment, met = interpreter.breakpoints.run()
    return _stopped(interpreter, moment, met)


def _run(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    if words == ["--to-fault"] or words == ["--to-departure"]:
        return _departure(interpreter, ())
    if words:
        raise ConfigurationError(f"run takes no '{words[0]}'", hint="run, or run --to-fault")
    interpreter.session.seek(0)
    return _continue(interpreter, ())


def _stepper(unit: Unit, *, back: bool = False) -> CommandRun:
    def run(interpreter: Interpreter, words: Sequence[str]) -> Reply:
        session = interpreter.session
        step: Callable[[Unit, int], Moment] = session.reverse_step if back else session.step
        return moved(step(unit, count_of(words)))

    return run


def _reverse_continue(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    if words:
        raise ConfigurationError("reverse-continue takes no argument", hint="set a breakpoint first")
    return moved(interpreter.breakpoints.back())


def _until(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    if not words:
        raise ConfigurationError("until what?", hint="until 86, until tensor, until nan")
    _, conditions = stop_conditions(interpreter.session, words)
    interpreter.session.go(conditions)
    return moved(interpreter.session.moment)


def _departure(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    if words:
        raise ConfigurationError("departure takes no argument", hint="`departure` alone")
    found = interpreter.session.to_departure()
    data = moment_data(found.moment) | {
        "kind": found.kind, "message": found.words, "hint": found.hint,
        "others": [str(place) for place in found.others],
        "stages": [
            {"line": one.place.line, "what": one.what, "reading": one.reading, "status": one.status,
             "checked": one.checked, "departing": one.departing} for one in found.stages
        ],
    }  # fmt: skip
    return Reply("\n".join([str(found), *_values(interpreter)]), data)


def _values(interpreter: Interpreter) -> list[str]:
    """At a multiplication whose values depart: the element that is furthest off."""
    session = interpreter.session
    try:
        view = session.multiplication()["c"]
    except (ConfigurationError, KeyError):
        return []
    difference = view.difference
    if not np.isfinite(difference).any() or not np.nanmax(np.abs(difference)):
        return []
    worst = np.unravel_index(int(np.nanargmax(np.abs(difference))), difference.shape)
    row, column = map(int, worst)
    held, wanted = float(view.values[worst]), float(view.expected[worst])
    name = view.name or "the accumulator"
    return [f"{name}[{row}][{column}] = {held:.6g}, the oracle says {wanted:.6g}; `diff` shows all"]


def _cause(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    found = interpreter.session.to_cause(*words[:1])
    cause = found.cause
    data = moment_data(found.moment) | {
        "name": cause.name, "verdict": cause.verdict, "message": cause.sentence, "cause_line": found.line,
        "fix": None if cause.fix is None else cause.fix.diff,
    }  # fmt: skip
    fix = "" if cause.fix is None or not cause.fix.diff else f"{cause.fix.diff.rstrip()}\n"
    return Reply(f"{fix}{found}", data)


def _against(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    session = interpreter.session
    if words:
        session.other = open_other(session, " ".join(words))
    found = session.to_difference()
    return Reply(str(found), moment_data(found.moment) | {"kind": found.kind, "message": found.words})


def _finding(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    session = interpreter.session
    if not words:
        found = session.evidence.run.found
        rows = [f"{one.finding.level.value:<8} {one.finding.check}: {one.finding.message}" for one in found]
        return Reply("\n".join(rows) or "the checks find nothing", {"findings": rows})
    return moved(session.run_to(finding=words[0]))


def _seek(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    if len(words) != 1:
        raise ConfigurationError("seek to which time?", hint="seek 1430; `where` tells the time")
    return moved(interpreter.session.seek(whole(words[0], "time")))


def _chooser(which: str) -> CommandRun:
    def run(interpreter: Interpreter, words: Sequence[str]) -> Reply:
        session = interpreter.session
        if not words:
            now = {"block": session.coordinates(), "warp": session.warp, "lane": session.lane}[which]
            return Reply(f"{which} {now}", {which: now})
        numbers = [whole(word, which) for part in words for word in part.strip("()").split(",") if word]
        if which == "block":
            return moved(session.select(block=numbers[0] if len(numbers) == 1 else numbers))
        return moved(session.select(**{which: numbers[0]}))

    return run


def _checks(interpreter: Interpreter) -> Sequence[str]:
    del interpreter

    return tuple(all_checks())


GROUP = "going on, and back"
CHOOSE = "whom to look at"
COMMANDS = (
    Command("run", ("r",), "[--to-fault]", "from the beginning to a breakpoint; --to-fault: as departure", _run, GROUP),
    Command("continue", ("c",), "[COUNT]", "to the next breakpoint, or the end", _continue, GROUP, True),
    Command("departure", ("dep",), "", "to where the kernel first departs from its oracle", _departure, GROUP),
    Command("cause", (), "[EFFORT]", "diagnose the case and go to the cause; quick, normal or thorough", _cause, GROUP),
    Command("finding", ("fi",), "[CHECK]", "to the first access that a check complains of; alone: list findings",
            _finding, GROUP, complete=_checks),
    Command("against", (), "[VARIANT|CARD|FILE.npz]", "to where this run first differs from another one", _against,
            GROUP),
    Command("until", ("u",), "LINE | FUNCTION | tensor | nan", "to there, whatever the breakpoints", _until, GROUP),
    Command("step", ("s",), "[COUNT]", "one line of the warp, into functions", _stepper("line"), GROUP, True),
    Command("next", ("n",), "[COUNT]", "one line of the kernel, over functions", _stepper("next"), GROUP, True),
    Command("stepi", ("si",), "[COUNT]", "one instruction of the warp", _stepper("instruction"), GROUP, True),
    Command("tensor", ("t",), "[COUNT]", "to the warp's next multiplication", _stepper("tensor"), GROUP, True),
    Command("fragment", ("f",), "[COUNT]", "to its next operation on a fragment", _stepper("fragment"), GROUP, True),
    Command("barrier", ("bar",), "[COUNT]", "to its next barrier", _stepper("barrier"), GROUP, True),
    Command("reverse-step", ("rs", "back"), "[COUNT]", "one line back", _stepper("line", back=True), GROUP, True),
    Command("reverse-next", ("rn",), "[COUNT]", "one line of the kernel back", _stepper("next", back=True), GROUP,
            True),
    Command("reverse-stepi", ("rsi",), "[COUNT]", "one instruction back", _stepper("instruction", back=True), GROUP,
            True),
    Command("reverse-tensor", ("rt",), "[COUNT]", "to the warp's last multiplication", _stepper("tensor", back=True),
            GROUP, True),
    Command("reverse-barrier", (), "[COUNT]", "to its last barrier", _stepper("barrier", back=True), GROUP, True),
    Command("reverse-continue", ("rc",), "", "back to the last breakpoint, or the beginning", _reverse_continue, GROUP,
            True),
    Command("seek", (), "TIME", "to a time: warp instructions since the beginning", _seek, GROUP),
    Command("block", (), "[N | X,Y,Z]", "choose a block: go to its beginning", _chooser("block"), CHOOSE),
    Command("warp", ("w",), "[N]", "choose a warp of the block", _chooser("warp"), CHOOSE),
    Command("lane", (), "[N]", "choose a lane of the warp", _chooser("lane"), CHOOSE),
)  # fmt: skip
