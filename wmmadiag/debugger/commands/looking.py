"""Commands that show something."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wmmadiag.debugger.commands.command import Command, Reply, whole
from wmmadiag.debugger.commands.running import moment_data
from wmmadiag.debugger.evaluate import evaluate, is_expression
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
    waiting_text,
)
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.suggest import did_you_mean

if TYPE_CHECKING:
    from wmmadiag.debugger.interpreter import Interpreter

ASPECTS = ("values", "lanes", "registers", "provenance", "expected", "difference")
_FRAGMENT = re.compile(r"([A-Za-z_]\w*(?:\[[^\]]*\])*)(?:\.(\w+))?")
_AROUND = 5
_TREE = 60
_MOST_REGISTERS = 24
_MOST_LOCAL = 64
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
        return Reply(register_text(found), {"name": text, "type": found.type, "values": _plain(found.values)})
    if is_expression(text):
        value = evaluate(session, text)
        return Reply(f"{text} = {number(value)}", {"name": text, "value": value})
    match = _FRAGMENT.fullmatch(text)
    used = {use.text.replace(" ", "") for use in session.uses}
    if (
        match is not None
        and "[" in text
        and match[1].partition("[")[0] in session.fragment_names
        and match[1] not in used
    ):
        value = evaluate(session, text)
        return Reply(f"{text} = {number(value)}", {"name": text, "value": value})
    base = match[1].partition("[")[0] if match is not None else ""
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
    if "[" in text or (match is not None and base in session.arrays.parts and not match[2]):
        values = session.values(text)
        return Reply(array_text(values, text), {"name": text, "values": _plain(values)})
    if match is not None and base in "abcd" and match[2] in ASPECTS:
        raise ConfigurationError(f"'{base}' is an array here", hint=f"the operand's: mma {base} {match[2]}")
    value = session.variable(text)
    if isinstance(value, Local):
        held = {one.name: _plain(one.values) for one in value.registers}
        known = None if value.values is None else _plain(value.values)
        return Reply(local_text(value), {"name": text, "line": value.line, "values": known, "registers": held})
    if isinstance(value, np.ndarray):
        return Reply(array_text(value, text), {"name": text, "values": _plain(value)})
    return Reply(f"{text} = {number(value)}", {"name": text, "value": np.asarray(value).item()})


def _plain(values: Any) -> Any:
    array = np.asarray(values)
    return array.astype(np.float64).tolist() if array.dtype.kind not in "biuf" else array.tolist()


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
    from wmmadiag.numerics.element_types import storage_dtype

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


# info …


def _breakpoints(interpreter: Interpreter) -> Reply:
    rows = [
        f"{one.number:>3}  {'on ' if one.enabled else 'off'}  met {one.hits}×  {one.words}"
        + ("  (once)" if one.temporary else "")
        for one in interpreter.breakpoints.all.values()
    ]
    return Reply("\n".join(rows) or "no breakpoints", {"breakpoints": rows})


def _warps(interpreter: Interpreter) -> Reply:
    rows = interpreter.session.barriers()
    data = [{"warp": r.warp, "lanes": r.lanes, "line": r.place.line, "waits": r.waits} for r in rows]
    return Reply(waiting_text(rows, interpreter.session.warp), {"warps": data})


def _barriers(interpreter: Interpreter) -> Reply:
    session = interpreter.session
    rows = []
    for one in session.machine.barriers:
        arrived = [w for w, mask in enumerate(one.arrived) if mask]
        missing = [w for w in range(session.machine.warps) if not one.arrived[w]]
        of = "the whole block" if one.expected == 0 else f"{one.expected} threads"
        rows.append(f"barrier {one.number} of {of}: warps {arrived} have arrived, {missing} have not")
    return Reply("\n".join(rows) or "nobody waits at a barrier", {"barriers": rows})


def _shared(interpreter: Interpreter) -> Reply:
    session = interpreter.session
    rows = [["name", "shape", "type", "where", "bytes"]]
    for name, (extent, part) in session.arrays.parts.items():
        kind = session.arrays.type_of(name, part.item).name
        start = extent.start + part.offset
        where = f"{extent.space} {start:#x}"
        rows.append([name, "×".join(map(str, part.shape)), kind, where, f"{extent.size:,}"])
    return Reply("\n".join("  ".join(cell.ljust(12) for cell in row).rstrip() for row in rows), {"arrays": rows[1:]})


def _registers(interpreter: Interpreter) -> Reply:
    found = {name: one for name, one in interpreter.session.registers("line").items() if not one.unwritten}
    shown = list(found.values())[:_MOST_REGISTERS]
    rows = [register_text(one) for one in shown]
    if len(found) > len(shown):
        rows.append(f"… {len(found) - len(shown)} more; print %NAME shows one")
    return Reply(
        "\n".join(rows) or "this line has written no register yet; print %r12 shows one",
        {name: _plain(one.values) for name, one in found.items()},
    )


def _variables(interpreter: Interpreter) -> Reply:
    session = interpreter.session
    scalars = [f"{a.spec.name} = {a.scalar}" for a in session.case.arguments if a.scalar is not None]
    rows = [
        f"fragments: {', '.join(session.fragment_names) or 'none by name'}",
        f"arrays: {', '.join(session.arrays.parts)}",
        f"arguments: {', '.join(scalars) or 'no numbers'}",
        f"locals: {', '.join(session.locals) or 'none'}",
        "threadIdx, blockIdx, blockDim, gridDim; registers: %name",
    ]
    return Reply(
        "\n".join(rows),
        {"fragments": session.fragment_names, "arrays": list(session.arrays.parts), "locals": session.locals},
    )


def _memory(interpreter: Interpreter) -> Reply:
    use = interpreter.session.machine.memory_use
    text = (
        f"{use.snapshots} snapshots, {use.bytes / 2**20:.1f} of {use.limit / 2**20:.0f} MiB, "
        f"{use.interval:,} warp instructions apart"
    )
    return Reply(text, {"snapshots": use.snapshots, "bytes": use.bytes, "limit": use.limit})


def _local(interpreter: Interpreter) -> Reply:
    session = interpreter.session
    data = session.machine.local(session.warp, session.lane)
    words = data[: data.size // 4 * 4].view(np.uint32)
    shown = words[:_MOST_LOCAL]
    rows = [[f"{4 * i:#x}", f"{int(word):#010x}", number(word.view(np.float32))] for i, word in enumerate(shown)]
    more = f"\n… {data.size:,} bytes in all" if words.size > shown.size else ""
    text = grid(rows) + more if rows else "this kernel has no local memory"
    return Reply(text, {"warp": session.warp, "lane": session.lane, "words": [int(word) for word in words]})


def _output(interpreter: Interpreter) -> Reply:
    text = interpreter.session.machine.output
    return Reply(text.rstrip("\n") or "the kernel has printed nothing yet", {"output": text})


def _target(interpreter: Interpreter) -> Reply:
    session = interpreter.session
    launch = session.case.launch
    text = (
        f"{session.target.title}\n{session.target.source}: {session.target.kernel.kernel.entry.name}, "
        f"grid {launch.grid}, block {launch.block}, {len(session.target.kernel.kernel.nodes)} instructions"
    )
    return Reply(text, {"title": session.target.title, "grid": launch.grid, "block": launch.block})


INFO: dict[str, tuple[str, Callable[[Any], Reply]]] = {
    "breakpoints": ("where it stops", _breakpoints),
    "warps": ("where each warp stands, and what it waits for", _warps),
    "threads": ("the same, by the name that gdb has for it", _warps),
    "barriers": ("who has arrived where", _barriers),
    "shared": ("arrays with shape, type and place", _shared),
    "registers": ("those that this line writes", _registers),
    "variables": ("what print knows by name", _variables),
    "memory": ("what going back costs", _memory),
    "local": ("the thread's local memory: offset, word, as a float", _local),
    "output": ("what the kernel printed", _output),
    "target": ("card, case, launch", _target),
}


def _info(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    if not words:
        width = max(map(len, INFO))
        return Reply("\n".join(f"info {name:<{width}}  {text}" for name, (text, _) in INFO.items()))
    found = [name for name in INFO if name.startswith(words[0])]
    if len(found) != 1:
        hint = f"one of {', '.join(found)}" if found else did_you_mean(words[0], list(INFO))
        raise ConfigurationError(f"info about '{words[0]}'?", hint=hint)
    return INFO[found[0]][1](interpreter)


def _names(interpreter: Interpreter) -> Sequence[str]:
    session = interpreter.session
    return (*session.fragment_names, *session.arrays.parts, *session.locals, "threadIdx.x", "blockIdx.x")


def _fragments(interpreter: Interpreter) -> Sequence[str]:
    return (*interpreter.session.fragment_names, "a", "b", "c", "d")


def _arrays(interpreter: Interpreter) -> Sequence[str]:
    return tuple(interpreter.session.arrays.parts)


def _infos(interpreter: Interpreter) -> Sequence[str]:
    del interpreter
    return tuple(INFO)


GROUP = "what is there"
COMMANDS = (
    Command("print", ("p",), "NAME[.lanes|.provenance|.expected|.difference] | EXPRESSION | %REGISTER",
            "a fragment, array, register, variable, or an expression: wn * 32 + k0", _print, GROUP, complete=_names),
    Command("x", (), "ELEMENT [COUNT]", "elements with their bits", _examine, GROUP, complete=_arrays),
    Command("list", ("l",), "[LINE | FIRST,LAST | FUNCTION]", "source, with the warps beside their lines", _list, GROUP,
            True),
    Command("where", ("bt", "backtrace"), "", "where the thread is, and the next instruction", _where, GROUP),
    Command("info", ("i",), "[" + "|".join(INFO) + "]", "all about something", _info, GROUP, complete=_infos),
    Command("mma", (), "[a|b|c|d [lanes|provenance|difference|…]]", "operands and result of the multiplication",
            _mma, GROUP),
    Command("diff", (), "[FRAGMENT]", "a fragment less what the oracle says (without a name: the accumulator)",
            _diff, GROUP, complete=_fragments),
    Command("why", (), "[DEPTH]", "the source lines that this one depends on, nearest first; again: those behind them",
            _why, GROUP, True),
    Command("writer", (), "ELEMENT", "who wrote these bytes last", _writer, GROUP, complete=_arrays),
    Command("explain", ("e",), "O[0,0,3,17] [all]", "where an output element comes from", _explain, GROUP,
            complete=_arrays),
)  # fmt: skip
