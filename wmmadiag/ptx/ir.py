"""The typed intermediate representation of a PTX module.

`parser.parse` builds it, `verifier` checks every instruction against the instruction table
(`wmmadiag.ptx.instructions`), and `wmmadiag.emulator.lower` turns it into a decoded program. All of it is immutable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from wmmadiag.place import Place


class Space(str, Enum):
    """State spaces (PTX ISA, "State Spaces")."""

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    CONST = "const"
    PARAM = "param"
    REG = "reg"


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register; `name` is unique within its function (brace scopes are renamed apart).

    `type` is the declared PTX type without the dot: "pred", "b16", "f32", "b64", "b128", …
    """

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal. `value` is an int for integer literals, and for float literals the IEEE bits.

    `type`: "int" (signed or unsigned 64-bit literal, value in -2^63 .. 2^64-1), "f32" (`0f…`: value = 32 bits) or
    "f64" (`0d…` or decimal: value = 64 bits). The lowering converts to the operand's type.
    """

    value: int
    type: str


@dataclass(frozen=True, slots=True)
class SymbolAddress:
    """The address of a variable or function: `name + offset` (bytes)."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Special:
    """A special register: "%tid.x", "%laneid", "%clock64", "%envreg3" …"""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`; base is a register, a variable's name, or None for an absolute address. Offset in bytes."""

    base: Register | str | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, …}`: 1 to 128 elements."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target or a `.branchtargets` list's name."""

    name: str


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a destination that is thrown away, or a source that is absent."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate read, possibly negated: `p` or `!p`."""

    register: Register
    negated: bool = False


@dataclass(frozen=True, slots=True)
class OperandPair:
    """`d|p`: two destinations (setp, shfl, elect, …)."""

    first: Operand
    second: Operand


Operand: TypeAlias = (
    Register | Immediate | SymbolAddress | Special | Address | Vector | Label | Sink | Predicate | OperandPair
)


class Access(str, Enum):
    """What an instruction does to an operand."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """One operand position of an instruction form, after types were resolved.

    `role`: the PTX ISA's name ("d", "a", "b", "c", "p", "q", "addr", "mask", …).
    `type`: type of a scalar operand or of each vector element ("s32", "f16x2", "pred", "b64", "addr", "label", …).
    `count`: number of vector elements, 1 for scalars.
    """

    role: str
    type: str
    access: Access = Access.READ
    count: int = 1


@dataclass(frozen=True, slots=True)
class Instruction:
    """One verified instruction.

    `text`: opcode with modifiers as written ("ldmatrix.sync.aligned.x4.m8n8.shared.b16").
    `op`: canonical key of the semantics, equal to the name under which the native core registers it
        ("add.f32", "setp.s32", "ld", "wmma.load", "mma", "bar.sync", …; see `instructions`).
    `attributes`: all other modifiers, canonical ("rounding": "rn", "ftz": "1", "space": "shared",
        "shape": "m16n16k16").
    `operands` and `specs` run in parallel, in PTX order.
    `guard`: the predicate of `@p` / `@!p`.
    `ptx_line`: 1-based line in the PTX text.
    """

    text: str
    op: str
    attributes: Mapping[str, str]
    operands: tuple[Operand, ...]
    specs: tuple[OperandSpec, ...]
    guard: Predicate | None
    place: Place
    ptx_line: int

    def operand(self, role: str) -> Operand | None:
        """The operand with that role, or None if this form has none."""
        for spec, operand in zip(self.specs, self.operands, strict=True):
            if spec.role == role:
                return operand
        return None


@dataclass(frozen=True, slots=True)
class Initializer:
    """Initial bytes of a variable, with the addresses to be patched in.

    `data`: exactly the variable's size in bytes.
    `relocations`: (byte offset, width in bytes, right shift in bits, symbol address, generic?) for each address in it;
        `generic` is true for `generic(sym)`.
    """

    data: bytes
    relocations: tuple[tuple[int, int, int, SymbolAddress, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class PtxVariable:
    """A variable in memory. `size` in bytes, 0 for an unsized `.extern .shared x[]` (dynamic shared memory).

    `element`: declared element type, `shape`: declared dimensions (empty for a scalar).
    """

    name: str
    space: Space
    align: int
    size: int
    element: str
    shape: tuple[int, ...] = ()
    initializer: Initializer | None = None
    extern: bool = False
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class PtxParameter:
    """A `.param` of a function: `offset` in bytes in the entry's parameter block, `size` and `align` in bytes."""

    name: str
    type: str
    size: int
    align: int
    offset: int


@dataclass(frozen=True, slots=True)
class PtxFunction:
    """A `.func` or `.entry` with a body (`instructions` is empty for an extern declaration).

    `parameters` / `returns`: formal arguments; each is a `PtxParameter` in `.param` space or a `Register`.
    `variables`: its `.local`, `.shared` and `.param` variables, names unique within the function.
    `labels`: name → index into `instructions` (may equal its length).
    `branch_targets`: name of a `.branchtargets` list → its labels.
    `limits`: performance directives: "maxntid" → (x, y, z), "reqntid", "minnctapersm", "maxnreg", "maxnctapersm".
    """

    name: str
    entry: bool
    parameters: tuple[PtxParameter | Register, ...]
    returns: tuple[PtxParameter | Register, ...]
    variables: tuple[PtxVariable, ...]
    registers: tuple[Register, ...]
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    branch_targets: Mapping[str, tuple[str, ...]]
    limits: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    declared_only: bool = False
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed PTX module. `target` such as "sm_90" or "sm_90a", `version` such as (9, 5).

    Attributes:
        pointed: functions whose address kernels of other modules take.
    """

    version: tuple[int, int]
    target: str
    functions: Mapping[str, PtxFunction]
    variables: Mapping[str, PtxVariable]
    pointed: frozenset[str] = frozenset()

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the kernels, in order of appearance."""
        return tuple(name for name, function in self.functions.items() if function.entry)
