"""Which declared shared array the address of each access starts from.

A pointer into an array may be moved, but only within it: an access whose address was computed from the address of `a`
belongs to `a`, wherever it lands. Compilers keep to that, so the PTX tells: from each `mov` of a variable's address,
along moves, additions and the like, to the access. An address that may start from several arrays, or from a pointer
that was loaded from memory, belongs to none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.emulator.memory_layout import Placed
from wmmadiag.ptx.ir import (
    Access,
    Address,
    Immediate,
    Instruction,
    Operand,
    PtxFunction,
    Register,
    SymbolAddress,
)

_KEEPS = ("mov.", "cvta", "add.", "sub.", "mad.", "cvt.", "and.", "or.", "xor.", "selp.", "max.", "min.", "lop3.")
"""Operations whose result points into the array that one of their operands points into."""
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

    changed = True
    while changed:
        changed = False
        for instruction in function.instructions:
            changed |= _follow(instruction, of, bases)
    result: dict[int, Placed] = {}
    for instruction in function.instructions:
        for spec, operand in zip(instruction.specs, instruction.operands, strict=True):
            if spec.role not in _ADDRESS_ROLES or not isinstance(operand, Address):
                continue
            names = {operand.base} if isinstance(operand.base, str) else of(operand.base)
            if len(names) == 1 and (name := next(iter(names))) in placed:
                result[instruction.ptx_line] = placed[name]
    return result


def _follow(instruction: Instruction, of: Callable[[Operand | None], set[str]], bases: dict[str, set[str]]) -> bool:
    """Add what one instruction's destination may point into; True if that is news."""
    written = [
        operand
        for spec, operand in zip(instruction.specs, instruction.operands, strict=True)
        if spec.access is Access.WRITE and isinstance(operand, Register)
    ]
    if len(written) != 1 or written[0].type == "pred":
        return False
    keeps = instruction.op.startswith(_KEEPS)
    sources: set[str] = set()
    for spec, operand in zip(instruction.specs, instruction.operands, strict=True):
        if spec.access is Access.READ and not isinstance(operand, Immediate):
            sources |= of(operand)
    if not keeps:
        sources = set()
    known = bases.setdefault(written[0].name, set())
    before = len(known)
    known |= sources
    return len(known) != before
