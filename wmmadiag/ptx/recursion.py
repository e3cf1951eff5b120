"""Functions that come to themselves again, and what must survive a call."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.ptx.components import components
from wmmadiag.ptx.indirect import INDIRECT, targets
from wmmadiag.ptx.ir import (
    Access,
    Address,
    Instruction,
    Label,
    Module,
    Operand,
    OperandPair,
    Predicate,
    PtxFunction,
    Register,
    SymbolAddress,
    Vector,
)


def callee(instruction: Instruction) -> str | None:
    """Name of the function that an instruction calls, or None."""
    if instruction.op != "call":
        return None
    symbol = instruction.operand("callee")
    return symbol.name if isinstance(symbol, SymbolAddress) else None


def callees(module: Module, caller: PtxFunction, one: Instruction) -> tuple[PtxFunction, ...]:
    """What an instruction may call."""
    if one.op == INDIRECT:
        return targets(module, caller, one)
    function = module.functions.get(callee(one) or "")
    return () if function is None else (function,)


def recursive(module: Module) -> frozenset[str]:
    """The functions on cycles of the call graph; a call through a pointer goes to all that the pointer may hold."""
    graph = {
        name: {target.name for one in function.instructions for target in callees(module, function, one)}
        for name, function in module.functions.items()
    }
    component = components(graph)
    return frozenset(
        name
        for name, called in graph.items()
        if any(one == name or component[one] == component[name] for one in called)
    )


def registers(operand: Operand | None) -> Iterator[Register]:
    """The registers in an operand."""
    if isinstance(operand, Register):
        yield operand
    elif isinstance(operand, Predicate):
        yield operand.register
    elif isinstance(operand, Address):
        if isinstance(operand.base, Register):
            yield operand.base
    elif isinstance(operand, Vector):
        for element in operand.elements:
            yield from registers(element)
    elif isinstance(operand, OperandPair):
        yield from registers(operand.first)
        yield from registers(operand.second)


def kept_over_calls(function: PtxFunction) -> dict[int, tuple[Register, ...]]:
    """Index of each call → the registers that are read behind it, and that the call does not give."""
    code = function.instructions
    effects = [_effect(one) for one in code]
    alive: list[frozenset[Register]] = [frozenset()] * (len(code) + 1)
    behind: list[frozenset[Register]] = [frozenset()] * len(code)
    changed = True
    while changed:
        changed = False
        for index in range(len(code) - 1, -1, -1):
            reads, writes = effects[index]
            behind[index] = frozenset().union(*(alive[one] for one in _following(function, index)))
            before = reads | (behind[index] - writes)
            changed |= before != alive[index]
            alive[index] = before
    return {
        index: tuple(sorted(behind[index] - effects[index][1], key=lambda one: one.name))
        for index, one in enumerate(code)
        if one.op in ("call", INDIRECT)
    }


def _effect(one: Instruction) -> tuple[frozenset[Register], frozenset[Register]]:
    """The registers that an instruction reads, and those that it writes whatever its guard says."""
    reads: set[Register] = set()
    writes: set[Register] = set()
    for spec, operand in zip(one.specs, one.operands, strict=True):
        into = writes if spec.access is Access.WRITE and not isinstance(operand, Address) else reads
        into.update(registers(operand))
    if one.guard is not None:
        return frozenset(reads | {one.guard.register}), frozenset()
    return frozenset(reads), frozenset(writes)


def _following(function: PtxFunction, index: int) -> Iterator[int]:
    one = function.instructions[index]
    for operand in one.operands if one.op in ("bra", "brx.idx") else ():
        if isinstance(operand, Label):
            for name in function.branch_targets.get(operand.name, (operand.name,)):
                yield function.labels[name]
    if one.guard is not None or one.op not in ("bra", "brx.idx", "ret", "exit", "trap"):
        yield index + 1
