"""What `info` tells: breakpoints, warps, barriers, arrays, registers, names, memory, the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wmmadiag.debugger.commands.command import Reply, as_numbers
from wmmadiag.debugger.text import grid, number, register_text, waiting_text
from wmmadiag.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from wmmadiag.debugger.interpreter import Interpreter

_MOST_REGISTERS = 24
_MOST_LOCAL = 64


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
        {name: as_numbers(one.values) for name, one in found.items()},
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


def info(interpreter: Interpreter, words: Sequence[str]) -> Reply:
    """All about one thing; without a word, what there is to ask about.

    Raises:
        ConfigurationError: there is nothing of that name, or several.
    """
    if not words:
        width = max(map(len, INFO))
        return Reply("\n".join(f"info {name:<{width}}  {text}" for name, (text, _) in INFO.items()))
    found = [name for name in INFO if name.startswith(words[0])]
    if len(found) != 1:
        hint = f"one of {', '.join(found)}" if found else did_you_mean(words[0], list(INFO))
        raise ConfigurationError(f"info about '{words[0]}'?", hint=hint)
    return INFO[found[0]][1](interpreter)
