"""Which declared shared array the address of each access starts from.

A pointer into an array may be moved, but only within it: an access whose address was computed from the address of `a`
belongs to `a`, wherever it lands. Compilers keep to that, so the PTX tells: from each `mov` of a variable's address,
along moves, additions and the like, to the access. An address that may start from several arrays, or from a pointer
that was loaded from memory, belongs to none.
"""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.emulator.memory_layout import Placed
from wmmadiag.ptx.ir import Access, Address, Immediate, Instruction, Operand, PtxFunction, Register, SymbolAddress
from wmmadiag.ptx.value_flow import POINTER_OPS

_ADDRESS_ROLES = ("addr", "dst")


_last: tuple[LoweredKernel | None, Mapping[int, Placed]] = (None, {})  # several checks ask about the same kernel


def accessed_arrays(kernel: LoweredKernel) -> Mapping[int, Placed]:
    """Program counter of each access of shared memory that starts from one declared array → that array, as placed."""
    global _last
    if _last[0] is not kernel:
        _last = (kernel, _accessed_arrays(kernel))
    return _last[1]


def _accessed_arrays(kernel: LoweredKernel) -> Mapping[int, Placed]:
    found: dict[int, Placed] = {}
    function = kernel.entry
    by_line = _arrays_by_line(function, kernel)
    for pc, node in enumerate(kernel.nodes):
        placed = by_line.get(node.ptx_line)
        if placed is not None and node.op in _ACCESSES:
            found[pc] = placed
    return found


_ACCESSES = frozenset({"ld", "st", "atom", "cp.async", "wmma.load", "wmma.store", "ldmatrix", "stmatrix"})


def _arrays_by_line(function: PtxFunction, kernel: LoweredKernel) -> dict[int, Placed]:
    """PTX line of an access → the array."""
    layout = kernel.layout
    placed: dict[str, Placed] = {}
    for key, one in layout.shared.items():
        placed[key.removeprefix(f"{function.name}:")] = one
    other = frozenset(key.removeprefix(f"{function.name}:") for key in layout.dynamic)
    bases: dict[str, set[str]] = {}

    def of(operand: Operand | None) -> set[str]:
        if isinstance(operand, SymbolAddress):
            return {operand.name} if operand.name in placed or operand.name in other else set()
        if isinstance(operand, Register):
            return bases.get(operand.name, set())
        return set()

    moves = [move for instruction in function.instructions if (move := _move(instruction)) is not None]
    changed = True
    while changed:
        changed = False
        for name, sources in moves:
            known = bases.setdefault(name, set())
            before = len(known)
            known.update(*map(of, sources))
            changed |= len(known) != before
    result: dict[int, Placed] = {}
    for instruction in function.instructions:
        for spec, operand in zip(instruction.specs, instruction.operands, strict=True):
            if spec.role not in _ADDRESS_ROLES or not isinstance(operand, Address):
                continue
            names = {operand.base} if isinstance(operand.base, str) else of(operand.base)
            if len(names) == 1 and (name := next(iter(names))) in placed:
                result[instruction.ptx_line] = placed[name]
    return result


def _move(instruction: Instruction) -> tuple[str, tuple[Operand, ...]] | None:
    """(register, what it may point into where that does) of an instruction that keeps addresses."""
    if not instruction.op.startswith(POINTER_OPS):
        return None
    pairs = tuple(zip(instruction.specs, instruction.operands, strict=True))
    written = [one for spec, one in pairs if spec.access is Access.WRITE and isinstance(one, Register)]
    if len(written) != 1 or written[0].type == "pred":
        return None
    read = (one for spec, one in pairs if spec.access is Access.READ and not isinstance(one, Immediate))
    return written[0].name, tuple(one for one in read if one is not None)
