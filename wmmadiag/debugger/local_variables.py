"""What local variables of the source hold: the registers that the instructions of their definitions write.

The compiler keeps no record of it. A variable that is set once by integer arithmetic has the value that follows from
its definition (`definitions.py`). Of others the registers tell: a statement that defines one (`float m = …`, `m += 2`)
has a place in the source, and so has every instruction; those of the statement compute the variable, and the one whose
result no other of them reads holds it. Which definition counts is known from the run: the one that the warp executed
last. Where that leaves several registers, all of them are given; where none, the variable was optimised away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.debugger.definitions import defined_value
from wmmadiag.debugger.machine import Conditions
from wmmadiag.debugger.registers import register_type
from wmmadiag.errors import ConfigurationError
from wmmadiag.place import Place

if TYPE_CHECKING:
    from wmmadiag.debugger.inspect import Inspection, Register
    from wmmadiag.diagnose.source.model import Statement, Variable
    from wmmadiag.diagnose.source.read import SourceModel
    from wmmadiag.emulator.decoded import Value

_SIZES = {
    "int": 4, "unsigned": 4, "float": 4, "int32_t": 4, "uint32_t": 4, "half2": 4, "__half2": 4, "size_t": 8, "long": 8,
    "int64_t": 8, "uint64_t": 8, "double": 8, "half": 2, "__half": 2, "short": 2, "bfloat16": 2, "__nv_bfloat16": 2,
    "int16_t": 2, "uint16_t": 2,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Local:
    """A local variable of the selected warp.

    Attributes:
        name, type: as declared.
        line: of the definition: the only one, or the one that the warp executed last.
        code: its text.
        values: of the 32 lanes; None where several registers may hold it, or a predicate, which may be its negation.
        registers: that may hold it, as they are now; empty where the value follows from the definition, and is sure.
    """

    name: str
    type: str
    line: int
    code: str
    values: NDArray[Any] | None
    registers: tuple[Register, ...] = ()


def local_variable(session: Inspection, name: str) -> Local:
    """What a local variable holds.

    Raises:
        ConfigurationError: there is no such variable, the warp has not assigned it yet, or it was optimised away.
    """
    file, model, variable = _declared(session, name)
    value = defined_value(model, variable, lambda wanted: _outside(session, wanted))
    if value is not None:
        text = session.lines.source_line(Place(file, variable.line)).strip()
        return Local(name, variable.type, variable.line, text, value)
    places = session.lines.places
    statements = [model.statements[index] for index in _defining(model, variable)]
    groups = [_results(session, _instructions(session, file, model, one), variable) for one in statements]
    if not any(groups):
        lines = ", ".join(dict.fromkeys(str(one.line) for one in statements)) or str(variable.line)
        raise ConfigurationError(
            f"'{name}' has no register of its own: it was optimised away",
            hint=f"its value is part of what later lines compute; it is defined at line {lines}",
        )
    last = _last_executed(session, [pc for group in groups for pc, _ in group])
    if last is None:
        first = variable.initial.text if variable.kind == "loop" and variable.initial is not None else ""
        raise ConfigurationError(
            f"warp {session.warp} has run no instruction that assigns '{name}' in this block",
            hint=f"go on to line {variable.line}" + (f"; it begins as {first}" if first else ""),
        )
    group = next(group for group in groups if any(pc == last for pc, _ in group))
    # Copies of the statement (unrolled, inlined elsewhere) have registers of their own: the one that ran last counts.
    texts = {pc: session.target.kernel.kernel.nodes[pc].text for pc, _ in group}
    chosen = [one for one in group if one[0] == last or texts[one[0]] != texts[last]]
    found = {value.name: session.registers(value.name)[value.name] for _, value in chosen}
    registers = tuple(found.values())
    values = registers[0].values if len(registers) == 1 and not _boolean(variable) else None
    return Local(
        name, variable.type, places[last].line, session.lines.source_line(places[last]).strip(), values, registers
    )


def _outside(session: Inspection, name: str) -> NDArray[np.int64] | None:
    """What a built-in variable or a scalar argument of the kernel holds in each lane."""
    base, _, axis = name.partition(".")
    if base == "threadIdx" and axis in ("x", "y", "z"):
        x, y, _ = session.case.launch.block
        thread = session.warp * 32 + np.arange(32)
        return np.asarray((thread % x, thread // x % y, thread // x // y)["xyz".index(axis)], np.int64)
    value: Any = 32 if name == "warpSize" else session.builtin(name) if axis else session.scalar(name)
    return np.full(32, value, np.int64) if isinstance(value, (int, np.integer)) else None


def _declared(session: Inspection, name: str) -> tuple[str, SourceModel, Variable]:
    """The declaration that a name means where the thread stands, in its function or a caller; else the only one."""
    standing = session.standing()
    frames = () if standing is None else session.target.kernel.kernel.place(standing.pc).frames()
    for frame in frames:
        model = session.models.get(frame.file)
        if model is not None and 0 < frame.line < len(model.line_starts):
            variable = model.variable(name, model.line_starts[frame.line] - 1)
            if variable is not None and variable.kind in ("local", "loop"):
                return frame.file, model, variable
    everywhere = [
        (file, model, one)
        for file, model in session.models.items()
        for one in model.variables
        if one.name == name and one.kind in ("local", "loop") and not one.dims
    ]
    if len(everywhere) == 1:
        return everywhere[0]
    if everywhere:
        lines = ", ".join(str(one.line) for _, _, one in everywhere)
        raise ConfigurationError(
            f"several variables are called '{name}', and none of them is visible here",
            hint=f"they are declared at lines {lines}: go there",
        )
    raise ConfigurationError(f"there is no variable '{name}'")


def _defining(model: SourceModel, variable: Variable) -> list[int]:
    """The statements that give a variable its value."""
    first, last = variable.visible
    found = [model.statement_at(variable.name_at)] if variable.initial is not None else []
    for one in model.assignments:
        names = [token.text for token in model.tokens[one.target.first : one.target.last]]
        if names == [variable.name] and first <= one.target.start < last:
            found.append(one.statement)
    for index, token in enumerate(model.tokens):
        if token.text in ("++", "--") and first <= token.offset < last:
            near = [model.tokens[at].text for at in (index - 1, index + 1) if 0 <= at < len(model.tokens)]
            if variable.name in near:
                found.append(model.statement_at(token.offset))
    return [index for index in dict.fromkeys(found) if index >= 0]


def _instructions(session: Inspection, file: str, model: SourceModel, statement: Statement) -> list[int]:
    """The instructions of a simple statement, or of a loop's head."""
    end = statement.end if statement.simple else statement.head_end
    first, past = _point(model, statement.start), _point(model, end)
    places = session.lines.places
    return [pc for pc, p in enumerate(places) if p.file == file and first <= (p.line, p.column) < past]


def _point(model: SourceModel, offset: int) -> tuple[int, int]:
    """(line, column) of an offset; columns count from 1."""
    line = model.line_of(offset)
    return line, offset - model.line_starts[line - 1] + 1


def _results(session: Inspection, pcs: Sequence[int], variable: Variable) -> list[tuple[int, Value]]:
    """Instructions of a statement whose result no other of them reads, if it can hold the variable."""
    nodes = session.target.kernel.kernel.nodes
    read = {value for pc in pcs for value in nodes[pc].read() if value not in nodes[pc].written()}
    size = 8 if variable.pointer else _size(variable.type)
    found = [
        (pc, value)
        for pc in pcs
        for value in nodes[pc].written()
        if value.name and value not in read and _fits(value, size, register_type(nodes[pc]), variable)
    ]
    # Constants that other statements need are set up anywhere.
    computed = [one for one in found if any(True for _ in nodes[one[0]].read())]
    return computed or found


def _size(type_: str) -> int:
    """Bytes of a type as written; 0 where that is not known."""
    words = [word for word in type_.replace("&", " ").split() if word not in ("const", "volatile", "constexpr")]
    if words[:1] in (["unsigned"], ["signed"]) and len(words) > 1:
        words = words[1:]
    return _SIZES.get(words[0].rpartition("::")[2], 0) if words else 0


def _fits(value: Value, size: int, kind: str, variable: Variable) -> bool:
    """Whether a register that an instruction of some type writes can hold the variable."""
    predicate = value.name.startswith("%p") and value.name[2:].isdigit()
    if _boolean(variable):
        return predicate
    real = {"float", "double", "half", "__half"} & set(variable.type.split())
    other = kind.startswith(("s", "u")) if real else size and kind.startswith(("f", "bf"))
    return not predicate and not other and (size == 0 or value.bytes == size or (size < 4 and value.bytes == 4))


def _boolean(variable: Variable) -> bool:
    return "bool" in variable.type.split()


def _last_executed(session: Inspection, pcs: Iterable[int]) -> int | None:
    """Which of these the selected warp ran last in this block."""
    machine = session.machine
    now = machine.time
    only = Conditions(before=session.lines.table(pcs), block=machine.block, warp=session.warp)
    try:
        stop = machine.last_before(only, now, machine.block_starts[-1])
    finally:
        machine.seek(now)
    return None if stop is None else stop.pc
