"""What local variables of the source hold: the registers that the instructions of their definitions write.

The compiler keeps no record of it. A variable that is set once by integer arithmetic has the value that follows from
its definition (`definitions.py`). Of others the registers tell: a statement that defines one (`float m = …`, `m += 2`)
has a place in the source, and so has every instruction; those of the statement compute the variable, and the one whose
result no other of them reads holds it. Which definition counts is known from the run: the one that the warp executed
last. Where that leaves several registers, all of them are given; where none, the variable was optimised away, unless
the source was compiled so that it keeps its variables (`kept.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compile.ask.answers import TypeFacts
from wmmadiag.compile.ask.questions import AskedSource
from wmmadiag.csource.nodes import Node, ancestors, field
from wmmadiag.csource.writes import writes
from wmmadiag.debugger.conditions import Conditions
from wmmadiag.debugger.definitions import Definitions
from wmmadiag.debugger.kept_values import copied
from wmmadiag.emulator.decoded import Value
from wmmadiag.errors import ConfigurationError
from wmmadiag.place import Place
from wmmadiag.ptx.meaning import meaning

if TYPE_CHECKING:
    from wmmadiag.debugger import declared
    from wmmadiag.debugger.inspect import Inspection, RegisterView

_Part: TypeAlias = tuple[int, int]
"""Offsets between which a part of a source stands."""
_LOOPS = frozenset({"for_statement", "for_range_loop", "while_statement", "do_statement", "if_statement"})


@dataclass(frozen=True, slots=True)
class Local:
    """A local variable of the selected warp."""

    # name, type: as declared
    name: str
    type: str
    line: int  # of the definition: the only one, or the one that the warp executed last
    code: str  # its text
    # of the 32 lanes; None where several registers may hold it, or a predicate, which may be its negation
    values: NDArray[Any] | None
    # that may hold it, as they are now; empty where the value follows from the definition, and is sure
    registers: tuple[RegisterView, ...] = ()
    lanes: int = 0xFFFFFFFF  # mask of those that have one; kept: whether it is a copy made where it was assigned
    kept: bool = False


def local_variable(session: Inspection, name: str) -> Local:
    """What a local variable holds.

    Raises:
        ConfigurationError: there is no such variable, the warp has not assigned it yet, or it was optimised away.
    """
    local = _declared(session, name)
    variable, source, file = local.variable, local.file.source, local.file.name
    compilation = session.target.compilation
    asked = AskedSource(compilation.text, compilation.source, compilation.options)
    definitions = Definitions(local, asked, lambda wanted: _outside(session, wanted))
    type_, declared_at = variable.type + " *" * variable.pointers, local.file.line(variable)
    value = definitions.value()
    if value is not None:
        text = session.lines.source_line(Place(file, declared_at)).strip()
        return Local(name, type_, declared_at, text, value)
    marked = session.target.kept.get((file, variable.declarator.start_byte))
    if marked is not None:
        copy = copied(session, marked, definitions.type)
        if copy is None:
            raise _not_assigned(session, local)
        place = session.lines.places[copy.pc]
        code = session.lines.source_line(place).strip()
        return Local(name, type_, place.line, code, copy.values, lanes=copy.lanes, kept=True)
    kind = _RegisterKind(8, "") if variable.pointers else _kind(definitions.type)
    places = session.lines.places
    parts = list(dict.fromkeys(_defining(local)))
    groups = [_results(session, _instructions(session, local, one), kind) for one in parts]
    if not any(groups):
        lines = ", ".join(str(source.place_at(start).line) for start, _ in parts) or str(declared_at)
        raise ConfigurationError(
            f"'{name}' has no register of its own: it was optimised away (defined at line {lines})",
            hint="`keep` compiles the source so that its variables keep their values, and comes back here",
        )
    last = _last_executed(session, [pc for group in groups for pc, _ in group])
    if last is None:
        raise _not_assigned(session, local)
    group = next(group for group in groups if any(pc == last for pc, _ in group))
    # Copies of the statement (unrolled, inlined elsewhere) have registers of their own: the one that ran last counts.
    texts = {pc: session.target.kernel.kernel.nodes[pc].text for pc, _ in group}
    chosen = [one for one in group if one[0] == last or texts[one[0]] != texts[last]]
    found = {value.name: session.registers(value.name)[value.name] for _, value in chosen}
    registers = tuple(found.values())
    values = registers[0].values if len(registers) == 1 and kind.kind != "bool" else None
    return Local(name, type_, places[last].line, session.lines.source_line(places[last]).strip(), values, registers)


def _not_assigned(session: Inspection, local: declared.DeclaredLocal) -> ConfigurationError:
    variable = local.variable
    looped = variable.node.parent is not None and variable.node.parent.type == "for_statement"
    first = local.file.source.words(variable.value) if looped and variable.value is not None else ""
    away = f"go on to line {local.file.line(variable)}" + (f"; it begins as {first}" if first else "")
    kept = "" if session.target.kept else ", or `keep`: the optimiser may have moved it"
    return ConfigurationError(
        f"warp {session.warp} has run no instruction that assigns '{variable.name}' in this block", hint=f"{away}{kept}"
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


def _declared(session: Inspection, name: str) -> declared.DeclaredLocal:
    """The declaration that a name means where the thread stands, in its function or a caller; else the only one."""
    standing = session.standing()
    for frame in () if standing is None else session.target.kernel.kernel.place(standing.pc).frames():
        here = session.declared.local_at(name, frame)
        if here is not None:
            return here
    everywhere = [one for one in session.declared.locals if one.variable.name == name and not one.variable.dimensions]
    if len(everywhere) == 1:
        return everywhere[0]
    if everywhere:
        lines = ", ".join(str(one.file.line(one.variable)) for one in everywhere)
        raise ConfigurationError(
            f"several variables are called '{name}', and none of them is visible here",
            hint=f"they are declared at lines {lines}: go there",
        )
    raise ConfigurationError(f"there is no variable '{name}'", hint="`info variables` lists those that are alive here")


def _defining(local: declared.DeclaredLocal) -> Iterator[_Part]:
    """The statements, or heads of loops, that give a variable its value."""
    variable = local.variable
    if variable.value is not None:
        yield _part(variable.node)
    for one in writes(local.function.node, {}):
        assigns = one.node.type in ("assignment_expression", "update_expression")
        if one.whole and assigns and local.file.variable(one.name) == variable:
            yield _part(one.node)


def _part(node: Node) -> _Part:
    """The simple statement that a node stands in, or the head of the loop or condition."""
    for one in (node, *ancestors(node)):
        if one.type in _LOOPS:
            body = field(one, "body") or field(one, "consequence")
            return one.start_byte, body.start_byte if body is not None else one.end_byte
        if one.type.endswith("_statement") or (one.type == "declaration" and not _in_head(one)):
            return one.start_byte, one.end_byte
    return node.start_byte, node.end_byte


def _in_head(node: Node) -> bool:
    return node.parent is not None and (node.parent.type in _LOOPS or node.parent.type == "condition_clause")


def _instructions(session: Inspection, local: declared.DeclaredLocal, part: _Part) -> list[int]:
    """The instructions of a part of a source."""
    source = local.file.source
    first, past = (_point(source.lines, offset) for offset in part)
    places = session.lines.places
    return [pc for pc, p in enumerate(places) if p.file == source.name and first <= (p.line, p.column) < past]


def _point(lines: Sequence[int], offset: int) -> tuple[int, int]:
    """(line, column) of an offset; columns count bytes from 1, as the compiler's do."""
    line = int(np.searchsorted(lines, offset, side="right"))
    return line, offset - lines[line - 1] + 1


@dataclass(frozen=True, slots=True)
class _RegisterKind:
    """What can hold a variable: `bytes`, 0 for unknown; `kind` as `TypeFacts.kind`, "" for unknown."""

    bytes: int
    kind: str


def _kind(facts: TypeFacts | None) -> _RegisterKind:
    return _RegisterKind(0, "") if facts is None else _RegisterKind(facts.size, facts.kind)


def _results(session: Inspection, pcs: Sequence[int], kind: _RegisterKind) -> list[tuple[int, Value]]:
    """Instructions of a statement whose result no other of them reads, if it can hold the variable."""
    nodes = session.target.kernel.kernel.nodes
    read = {value for pc in pcs for value in nodes[pc].read() if value not in nodes[pc].written()}
    found = [
        (pc, value)
        for pc in pcs
        for value in nodes[pc].written()
        if value.name and value not in read and _fits(value, meaning(nodes[pc].text).type, kind)
    ]
    # Constants that other statements need are set up anywhere.
    computed = [one for one in found if any(True for _ in nodes[one[0]].read())]
    return computed or found


def _fits(value: Value, written: str, kind: _RegisterKind) -> bool:
    """Whether a register that an instruction of some type writes can hold a variable."""
    predicate = value.name.startswith("%p") and value.name[2:].isdigit()
    if kind.kind == "bool":
        return predicate
    whole = kind.kind in ("int", "uint")
    other = written.startswith(("f", "bf")) if whole else kind.kind == "float" and written.startswith(("s", "u"))
    small = kind.bytes < 4 and value.bytes == 4
    return not predicate and not other and (kind.bytes == 0 or value.bytes == kind.bytes or small)


def _last_executed(session: Inspection, pcs: Iterable[int]) -> int | None:
    """Which of these the selected warp ran last in this block."""
    machine = session.machine
    only = Conditions(before=session.lines.table(pcs), block=machine.block, warp=session.warp)
    with machine.returning() as now:
        stop = machine.last_before(only, now, machine.block_starts[-1])
    return None if stop is None else stop.pc
