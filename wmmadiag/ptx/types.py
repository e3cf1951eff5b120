"""PTX types: widths and which register may stand where a type is expected.

Source: PTX ISA 9.x, "Fundamental Types", "Type Information for Instructions and Operands" and
"Operand Size Exceeding Instruction-Type Size".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

_WIDTHS_BY_CLASS: Mapping[str, Mapping[str, int]] = {
    "bits": {"b8": 8, "b16": 16, "b32": 32, "b64": 64, "b128": 128, "b1": 32, "b8x16": 128, "b6x16_p32": 128},
    "integer": {
        **{f"{sign}{width}": width for sign in "us" for width in (8, 16, 32, 64)},
        **dict.fromkeys(("u16x2", "s16x2", "u8x4", "s8x4"), 32),
        **dict.fromkeys(("u4", "s4"), 4),
        **dict.fromkeys(("u2", "s2"), 2),
    },
    "float": {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "f64": 64, "f32x2": 64, "tf32": 32},
    "packed": {
        **dict.fromkeys(("e4m3x2", "e5m2x2", "ue8m0x2", "ue4m3x2"), 16),
        **dict.fromkeys(("e2m3x2", "e3m2x2"), 16),
        "e2m1x2": 8,
        "e2m1x4": 16,
        **dict.fromkeys(("e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4"), 32),
        **dict.fromkeys(("e4m3", "e5m2"), 8),
        **dict.fromkeys(("e3m2", "e2m3"), 6),
        "e2m1": 4,
    },
    "pred": {"pred": 1},
}

WIDTHS: Mapping[str, int] = {name: width for table in _WIDTHS_BY_CLASS.values() for name, width in table.items()}
"""Width in bits of each type that an instruction can name."""

CLASSES: Mapping[str, str] = {name: kind for kind, table in _WIDTHS_BY_CLASS.items() for name in table}
"""Type → "bits", "integer", "float", "packed" (sub-byte and 8-bit floats, held in bit registers) or "pred"."""

_REGISTER_TYPES = "pred b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64"
REGISTER_TYPES = frozenset(_REGISTER_TYPES.split())
"""Types that `.reg` accepts (`.bf16` registers are not in the ISA, but are harmless)."""

MEMORY_TYPES = REGISTER_TYPES - {"pred"}
"""Types that a variable in memory or a parameter may have."""


def size(type_name: str) -> int:
    """Bytes that one element of a memory type takes."""
    return WIDTHS[type_name] // 8


@cache
def compatible(register: str, expected: str, relaxed: bool = False) -> bool:
    """Whether a register of one declared type may be an operand of an instruction type.

    Bit types agree with everything of their size, signed with unsigned, floats only with the same float. `relaxed` is
    the rule of ld, st and cvt: the register may also be wider than the type. A `.f16x2` register is a bit register.
    """
    expected_class = CLASSES[expected]
    register_class = "bits" if register == "f16x2" else CLASSES[register]
    if "pred" in (register, expected):
        return register == expected
    if not fits(WIDTHS[register], WIDTHS[expected], relaxed):
        return False
    if "bits" in (expected_class, register_class) or expected_class == "packed":
        return True
    return register == expected or expected_class == register_class == "integer"


def fits(register: int, expected: int, relaxed: bool) -> bool:
    """Whether a register of this width in bits can hold a value of that width."""
    return register == expected or (relaxed and register > expected)
