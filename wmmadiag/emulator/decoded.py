"""Instructions on their way from PTX to the engine: operands are virtual registers and constants, not yet slots."""

from __future__ import annotations

from dataclasses import dataclass, field

from wmmadiag.place import Place

REGISTER_BYTES = {
    "pred": 0, "b8": 2, "u8": 2, "s8": 2,
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), 2),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2"), 4),
    **dict.fromkeys(("b64", "u64", "s64", "f64"), 8),
    "b128": 16,
}  # fmt: skip
"""Bytes that one lane's value takes in a register of each declared type; 0: a predicate, one mask for the warp."""

SPACES = {"generic": 0, "global": 1, "shared": 2, "local": 3}
"""State space → the engine's number (`Space` in program.hpp)."""

SIGN_EXTEND, ADDRESS32, TRANSPOSED, WHOLE_LDM, WIDE_STATE = 1 << 0, 1 << 1, 1 << 3, 1 << 5, 1 << 7
STRONG, ACQUIRE, RELEASE, READ_ONLY, BLOCK_SCOPE = 1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12
UNSEEN = 1 << 13
"""Flags, as in program.hpp."""
CODE_SHIFT = 16


@dataclass(slots=True, eq=False)
class Value:
    """A virtual register or a constant."""

    bytes: int  # per lane: 2, 4, 8 or 16; 0 for a predicate
    constant: int | None = None  # the broadcast value of a constant, else None
    preset: int | None = None  # number of the engine's preset that fills it when a warp starts, else None
    name: str = ""  # for messages and debuggers: the PTX register's name


@dataclass(slots=True, eq=False)
class TensorSpec:
    """A fragment operation: maps and registers. A load or store has only `d`."""

    rule: object | None  # MmaRule of a multiplication, else None
    maps: tuple[int, int, int, int]  # for a, b, c, d: a map key of `fragment_maps.MapTable`, or -1
    registers: tuple[tuple[Value, ...], ...]  # for a, b, c, d: their values
    column_order: tuple[int, ...] = ()  # position of each column in the dense matrices, empty for 0, 1, 2, …
    tiles: int = 1  # independent matrices (mma.m8n8k4 f16: 4)


@dataclass(slots=True, eq=False)
class Decoded:
    """One operation of the engine.

    `extra` mixes values (become slots), None (no operand) and plain ints; `writes_extra`: the positions it writes.
    `together`: destinations and sources may share a slot (lane operations with one destination).
    """

    op: str
    place: Place
    ptx_line: int
    modifiers: int = 0
    guard: Value | None = None
    guard_negated: bool = False
    d: Value | None = None
    d2: Value | None = None
    s: tuple[Value | None, ...] = ()
    extra: list[Value | int | None] = field(default_factory=list)
    writes_extra: tuple[int, ...] = ()
    space: int = 0
    bytes: int = 0
    register_bytes: int = 0
    count: int = 0
    flags: int = 0
    immediate: int = 0
    target: str | None = None
    targets: tuple[str, ...] = ()
    tensor: TensorSpec | None = None
    together: bool = False
    text: str = ""

    def written(self) -> list[Value]:
        """Virtual registers that it writes."""
        values = [v for v in (self.d, self.d2) if v is not None]
        values += [v for i in self.writes_extra if isinstance(v := self.extra[i], Value)]
        if self.tensor is not None and self.op != "wmma.store":
            values += self.tensor.registers[3]
        return values

    def read(self) -> list[Value]:
        """Virtual registers and constants that it reads; under a guard, also what it may leave as it was."""
        values = [v for v in self.s if v is not None]
        if self.extra:
            written = set(self.writes_extra)
            values += [v for i, v in enumerate(self.extra) if isinstance(v, Value) and i not in written]
        if self.tensor is not None:
            for group in self.tensor.registers[:3] if self.op != "wmma.store" else self.tensor.registers:
                values += group
        if self.guard is not None:
            values.append(self.guard)
            values += self.written()
        return values
