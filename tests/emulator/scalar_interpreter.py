"""A kernel of integer operations and branches, one thread at a time: what the warp-wide engine must agree with.

A program is a list of basic blocks. A block is (operations, terminator). An operation is (opcode, destination, a, b),
where operands are register numbers;
a terminator is ("jump", target), ("branch", comparison, a, b, taken, otherwise),
("switch", register, targets) or ("end",).
"""

from __future__ import annotations

from collections.abc import Sequence

MASK = 0xFFFFFFFF
REGISTERS = 6


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


OPERATIONS = {
    "add.u32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.u32": lambda a, b: a * b,
    "mul.hi.u32": lambda a, b: a * b >> 32,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "shl.b32": lambda a, b: a << b if b < 32 else 0,
    "shr.u32": lambda a, b: a >> b if b < 32 else 0,
    "shr.s32": lambda a, b: _signed(a) >> min(b, 31),
    "min.s32": lambda a, b: min(a, b, key=_signed),
    "max.u32": max,
    "mov.u32": lambda a, _: a,
}
COMPARISONS = {
    "eq.u32": lambda a, b: a == b,
    "lt.u32": lambda a, b: a < b,
    "ge.u32": lambda a, b: a >= b,
    "lt.s32": lambda a, b: _signed(a) < _signed(b),
    "ne.u32": lambda a, b: a != b,
}

Operation = tuple[str, int, int, int]
Block = tuple[Sequence[Operation], tuple]


def run_thread(program: Sequence[Block], registers: list[int], fuel: int) -> list[int]:
    """The registers at the end. Each block first takes one unit of fuel; without any the thread ends."""
    registers = list(registers)
    number = 0
    while fuel > 0:
        fuel -= 1
        operations, terminator = program[number]
        for opcode, d, a, b in operations:
            registers[d] = OPERATIONS[opcode](registers[a], registers[b]) & MASK
        if terminator[0] == "jump":
            number = terminator[1]
        elif terminator[0] == "branch":
            _, comparison, a, b, taken, otherwise = terminator
            number = taken if COMPARISONS[comparison](registers[a], registers[b]) else otherwise
        elif terminator[0] == "switch":
            number = terminator[2][registers[terminator[1]] % len(terminator[2])]
        else:
            break
    return registers


def to_ptx(program: Sequence[Block], fuel: int) -> str:
    """The body of a kernel that does the same: registers in %r1, %r2, …, fuel in %r90."""
    lines = [f"mov.u32 %r90, {fuel};"]
    for number, (operations, terminator) in enumerate(program):
        lines.append(f"B{number}: setp.eq.u32 %p2, %r90, 0; @%p2 bra END; sub.u32 %r90, %r90, 1;")
        for opcode, d, a, b in operations:
            operands = f"%r{a + 1}" if opcode == "mov.u32" else f"%r{a + 1}, %r{b + 1}"
            lines.append(f"{opcode} %r{d + 1}, {operands};")
        if terminator[0] == "jump":
            lines.append(f"bra B{terminator[1]};")
        elif terminator[0] == "branch":
            _, comparison, a, b, taken, otherwise = terminator
            lines.append(f"setp.{comparison} %p1, %r{a + 1}, %r{b + 1}; @%p1 bra B{taken}; bra B{otherwise};")
        elif terminator[0] == "switch":
            names = ", ".join(f"B{target}" for target in terminator[2])
            lines.append(
                f"T{number}: .branchtargets {names}; rem.u32 %r91, %r{terminator[1] + 1}, {len(terminator[2])};"
                f" brx.idx %r91, T{number};"
            )
        else:
            lines.append("bra END;")
    return "\n".join([*lines, "END:"])
