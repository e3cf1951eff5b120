"""Commands that show something."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wmmadiag.debugger.commands.breaking import arrays
from wmmadiag.debugger.commands.command import Command, Reply, as_numbers, whole
from wmmadiag.debugger.commands.informing import INFO, info
from wmmadiag.debugger.commands.running import moment_data
from wmmadiag.debugger.evaluate import element_at, evaluate, is_expression
from wmmadiag.debugger.fragment_view import FragmentView
from wmmadiag.debugger.local_variables import Local
from wmmadiag.debugger.text import (
    array_text,
    fragment_text,
    grid,
    listing,
    local_text,
    moment_text,
    number,
    register_text,
)
from wmmadiag.errors import ConfigurationError, did_you_mean
from wmmadiag.numerics.element_types import storage_dtype

if TYPE_CHECKING:
    from wmmadiag.debugger.interpreter import Interpreter
    from wmmadiag.debugger.session import Session

ASPECTS = ("values", "lanes", "registers", "provenance", "expected", "difference")
_FRAGMENT = re.compile(r"([A-Za-z_]\w*(?:\[[^\]]*\])*)(?:\.(\w+))?")
_AROUND = 5
_TREE = 60
_FIRST_LOOK = 2


def fragment_data(view: FragmentView) -> dict[str, Any]:
    """A fragment for `--json`: numbers that JSON lacks become null."""
    values = view.values.astype(np.float64)
    return {
        "name": view.name, "operand": view.letter, "type": view.type, "warp": view.warp, "line": view.place.line,
        "state": view.state, "values": _rows(values), "lanes": view.lanes.tolist(),
    }  # fmt: skip


def _rows(values: Any) -> Any:
    return [[float(v) if np.isfinite(v) else None for v in row] for row in values]


def _print(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    text = " ".join(words)
    if not text:
        raise ConfigurationError("print what?", hint="print acc, print sK[3], print O[0,1,17,3], print %r12")
    session = interpreter.session
    if text.startswith("%"):
        found = session.registers(text)[text]
        return Reply(register_text(found), {"name": text, "type": found.type, "values": as_numbers(found.values)})
    if is_expression(text) or ("." in text and session.target.kept and not _is_ours(session, text)):
        value = evaluate(session, text)
        if element := element_at(session, value):
            return Reply(f"{text} = {value:#x}, {element}", {"name": text, "value": value, "element": element})
        return Reply(f"{text} = {number(value)}", {"name": text, "value": value})
    match = _FRAGMENT.fullmatch(text)
    base = match[1].partition("[")[0] if match is not None else ""
    hidden = base in session.locals and session.local_here(base)  # a local variable, whatever else has its name
    if match is not None and "[" in text and (hidden or _is_element(session, match[1])):
        value = evaluate(session, text)
        return Reply(f"{text} = {number(value)}", {"name": text, "value": value})
    plain = base not in session.arrays.parts and base not in session._parameters
    if match is not None and (base in session.fragment_names or (base in "abcd" and plain)):
        view = session.fragment(match[1])
        aspect = match[2] or "values"
        if aspect not in ASPECTS:
            raise ConfigurationError(f"a fragment has no '{aspect}'", hint=did_you_mean(aspect, ASPECTS))
        data = fragment_data(view)
        if aspect in ("expected", "difference"):
            data |= {aspect: _rows(getattr(view, aspect)), "reading": view.reading}
        elif aspect == "provenance":
            data["provenance"] = view.provenance.tolist()
        return Reply(fragment_text(view, aspect), data)
    if "[" in text or (match is not None and base in session.arrays.parts and not match[2] and not hidden):
        values = session.values(text)
        return Reply(array_text(values, text), {"name": text, "values": as_numbers(values)})
    if match is not None and base in "abcd" and match[2] in ASPECTS:
        raise ConfigurationError(f"'{base}' is an array here", hint=f"the operand's: mma {base} {match[2]}")
    value = session.variable(text)
    if isinstance(value, Local):
        return Reply(local_text(value), {"name": text, "line": value.line, "values": as_numbers(value.values)})
    if isinstance(value, np.ndarray):
        return Reply(array_text(value, text), {"name": text, "values": as_numbers(value)})
    return Reply(f"{text} = {number(value)}", {"name": text, "value": np.asarray(value).item()})


def _is_element(session: Session, text: str) -> bool:
    """Whether `acc[0][0]` is an element of a fragment, and not a fragment of an array that the source names so."""
    used = {use.text.replace(" ", "") for use in session.uses}
    return text.partition("[")[0] in session.fragment_names and text not in used


def _is_ours(session: Session, text: str) -> bool:
    """Whether a text with a dot is what the prompt itself understands: threadIdx.x, an aspect of a fragment."""
    return session.knows(text) or text.rpartition(".")[2] in ASPECTS


def _examine(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    if not words:
        raise ConfigurationError("examine what?", hint="x sK[3][5] 8: eight elements from there on, with their bits")
    count = whole(words[1], "count") if len(words) > 1 else 8
    session = interpreter.session
    element = session.arrays.element(words[0])
    item = max(element.part.item, 1)
    end = element.extent.start + element.extent.size
    size = min(count * item, end - element.start) // item * item
    raw = session.arrays.read(element.space, element.start, size)
    kind = session.arrays.type_of(element.part.name, item)

    values = raw.view(storage_dtype(kind)) if kind.bytes == item else raw
    rows = []
    for position, value in enumerate(values):
        bits = raw[position * item : (position + 1) * item][::-1].tobytes().hex()
        name = session.arrays.name(element.space, element.start + position * item)
        rows.append([name, f"0x{bits}", number(value)])
    return Reply(grid(rows), {"elements": rows})


def _list(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    session = interpreter.session
    place = session.moment.place
    file, centre = (place.file, place.line) if place is not None else (session.lines.main, 1)
    if words:
        name, _, line = words[0].rpartition(":")
        first, _, last = line.partition(",")
        if not first.isdigit() and line in session.lines.functions:
            pc = session.lines.functions[line][0]
            name, first = session.lines.places[pc].file, str(session.lines.places[pc].line)
        if not first.isdigit() or (last and not last.isdigit()):
            raise ConfigurationError(f"'{words[0]}' is no line", hint="list 86, list 80,95, list FUNCTION")
        file = session.lines.file(Path(name).name) if name else file
        if last:
            return Reply(listing(session, int(first), int(last), Path(file).name))
        centre = int(first)
    elif interpreter.listed is not None and interpreter.repeated:
        centre = interpreter.listed + 2 * _AROUND + 1
    interpreter.listed = centre
    return Reply(listing(session, centre - _AROUND, centre + _AROUND, Path(file).name))


def _where(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    del words
    session = interpreter.session
    frames = session.where()
    rows = [
        f"#{depth} {Path(frame.file).name}:{frame.line} {frame.function}".rstrip()
        for depth, frame in enumerate(frame for frame in frames if frame.line)
    ]
    standing = session.standing()
    if standing is not None:
        rows.append(f"next: {session.target.kernel.kernel.nodes[standing.pc].text}  (pc {standing.pc})")
    return Reply("\n".join([moment_text(session.moment), *rows]), moment_data(session.moment) | {"frames": rows})


def _explain(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    if not words:
        raise ConfigurationError("explain which element?", hint="explain O[0,0,3,17]")
    whole_tree = len(words) > 1 and words[-1] == "all"
    tree = interpreter.session.explain(" ".join(words[:-1] if whole_tree else words))
    lines = tree.render().split("\n")
    shown = lines if whole_tree else lines[:_TREE]
    more = [f"… {len(lines) - len(shown):,} more lines; explain … all"] if len(shown) < len(lines) else []
    return Reply("\n".join([*shown, *more]), {"tree": lines})


def _diff(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    session = interpreter.session
    name = words[0] if words else "c"
    view = session.fragment(name)
    difference = view.difference
    known = np.isfinite(difference)
    if not known.any():
        return Reply(f"{view.text}: {view.reading}", {"name": view.text, "reading": view.reading, "largest": None})
    worst = np.unravel_index(int(np.nanargmax(np.abs(np.where(known, difference, 0)))), difference.shape)
    row, column = int(worst[0]), int(worst[1])
    words_ = (
        f"largest at ({row}, {column}), lane {view.lanes[worst]} x[{view.index[worst]}]: "
        f"{float(view.values[worst]):.6g}, the oracle says {float(view.expected[worst]):.6g}"
    )
    data = fragment_data(view) | {
        "difference": _rows(difference), "reading": view.reading, "largest": float(np.nanmax(np.abs(difference))),
    }  # fmt: skip
    return Reply(f"{fragment_text(view, 'difference')}\n{words_}", data)


def _why(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    if len(words) > 1:
        raise ConfigurationError(f"why takes no '{words[1]}'", hint="why, why 4; why again goes on")
    session = interpreter.session
    before = interpreter.looked_behind if interpreter.looked_behind[0] is session.moment else (None, 0)
    known = 0 if words else before[1]
    depth = max(whole(words[0], "number of dependences"), 1) if words else known + 1 if known else _FIRST_LOOK
    found = [one for one in session.behind(depth) if one.distance > known]
    interpreter.looked_behind = (session.moment, depth)
    sign = {"fits": "=", "departs": "≠"}
    lines = [f"{sign.get(one.status, ' ')}{one.line:>5}  {'· ' * (one.distance - 1)}{one.code}" for one in found]
    rows = [{"line": one.line, "distance": one.distance, "status": one.status} for one in found]
    data = {"lines": rows, "depth": depth}
    nothing = "nothing more stands behind it" if known else "this line depends on no other"
    return Reply("\n".join(lines) or nothing, data)


def _mma(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    found = interpreter.session.multiplication()
    wanted, aspect = (*words, "", "")[:2]
    if wanted and wanted not in found:
        raise ConfigurationError(f"'{wanted}' is no operand", hint="mma a, mma b, mma c, mma d")
    if (aspect or "values") not in ASPECTS:
        raise ConfigurationError(f"a fragment has no '{aspect}'", hint=did_you_mean(aspect, ASPECTS))
    views = [found[wanted]] if wanted else list(found.values())
    text = "\n\n".join(fragment_text(view, aspect or "values") for view in views)
    return Reply(text, {view.letter: fragment_data(view) for view in views})


def _writer(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    if not words:
        raise ConfigurationError("who wrote what?", hint="writer sK[3][5]")
    found = interpreter.session.last_writer(" ".join(words))
    if found is None:
        return Reply(f"nobody has written {' '.join(words)} yet", {"writer": None})
    data = {"line": found.place.line, "file": found.place.file, "block": found.block, "warp": found.warp,
            "time": found.time}  # fmt: skip
    return Reply(f"{found}\n    {found.instruction}", data)


def _names(interpreter: Interpreter) -> Sequence[str]:
    session = interpreter.session
    return (*session.fragment_names, *session.arrays.parts, *session.locals, "threadIdx.x", "blockIdx.x")


def _fragments(interpreter: Interpreter) -> Sequence[str]:
    return (*interpreter.session.fragment_names, "a", "b", "c", "d")


GROUP = "what is there"
COMMANDS = (
    Command("print", ("p",), "NAME[.lanes|.provenance|.expected|.difference] | EXPRESSION | %REGISTER",
            "a fragment, array, register, variable, or an expression: wn * 32 + k0", _print, GROUP, complete=_names),
    Command("x", (), "ELEMENT [COUNT]", "elements with their bits", _examine, GROUP, complete=arrays),
    Command("list", ("l",), "[LINE | FIRST,LAST | FUNCTION]", "source, with the warps beside their lines", _list, GROUP,
            True),
    Command("where", ("bt", "backtrace"), "", "where the thread is, and the next instruction", _where, GROUP),
    Command("info", ("i",), "[" + "|".join(INFO) + "]", "all about something", info, GROUP,
            complete=lambda _: tuple(INFO)),
    Command("mma", (), "[a|b|c|d [lanes|provenance|difference|…]]", "operands and result of the multiplication",
            _mma, GROUP),
    Command("diff", (), "[FRAGMENT]", "a fragment less what the oracle says (without a name: the accumulator)",
            _diff, GROUP, complete=_fragments),
    Command("why", (), "[DEPTH]", "the source lines that this one depends on, nearest first; again: those behind them",
            _why, GROUP, True),
    Command("writer", (), "ELEMENT", "who wrote these bytes last", _writer, GROUP, complete=arrays),
    Command("explain", ("e",), "O[0,0,3,17] [all]", "where an output element comes from", _explain, GROUP,
            complete=arrays),
)  # fmt: skip
