"""The element types that a card can name: storage, precision, range, and the patterns that mark untouched memory.

Importing this needs no NumPy; `storage_dtype` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class ElementType:
    """One element type."""

    name: str  # as a card names it
    storage: str  # name of the NumPy (or ml_dtypes) dtype that holds it in memory
    kind: str  # "float", "int" or "uint"
    bytes: int  # of one stored element
    # significand bits, the implicit one included; for integers the width. tf32 has 11 although stored in 32 bits.
    precision: int
    min_exponent: int  # of the smallest normal number, 2**min_exponent; 0 for integers
    largest: float  # the largest finite value
    # bit pattern of an element nobody has written: a quiet NaN with a payload that no arithmetic makes, or for integers
    # a fixed odd pattern. The argument's index is added to a float's payload (`poison_pattern`).
    poison: int

    @property
    def is_float(self) -> bool:
        """Whether NaN and rounding exist in this type."""
        return self.kind == "float"

    @property
    def is_foreign(self) -> bool:
        """Whether NumPy itself has no such type: bfloat16, and those of a byte."""
        return self.storage.startswith(("bfloat", "float8"))

    @property
    def unit(self) -> float:
        """Largest relative error of rounding to nearest into this type; 0 for integers."""
        return 2.0**-self.precision if self.is_float else 0.0

    @property
    def half_subnormal(self) -> float:
        """Largest absolute error of rounding to nearest below the normal range; 0 for integers."""
        return 2.0 ** (self.min_exponent - self.precision) if self.is_float else 0.0


# IEEE 754-2019 table 3.5 for f16, f32, f64; bf16 and tf32: PTX ISA 9.0, section 5.2.3 "Alternate Floating-Point Data
# Formats"; e4m3 and e5m2: Micikevicius et al. 2022 (arXiv 2209.05433), table 1.
_TYPES = (
    ElementType("f16", "float16", "float", 2, 11, -14, 65504.0, 0x7E50),
    ElementType("bf16", "bfloat16", "float", 2, 8, -126, (2 - 2**-7) * 2.0**127, 0x7FD0),
    ElementType("tf32", "float32", "float", 4, 11, -126, (2 - 2**-10) * 2.0**127, 0x7FC0A500),
    ElementType("f32", "float32", "float", 4, 24, -126, (2 - 2**-23) * 2.0**127, 0x7FC0A500),
    ElementType("e4m3", "float8_e4m3fn", "float", 1, 4, -6, 448.0, 0xFF),
    ElementType("e5m2", "float8_e5m2", "float", 1, 3, -14, 57344.0, 0xFD),
    ElementType("f64", "float64", "float", 8, 53, -1022, 1.7976931348623157e308, 0x7FF800000000A500),
    ElementType("s8", "int8", "int", 1, 8, 0, 127.0, 0xA5),
    ElementType("u8", "uint8", "uint", 1, 8, 0, 255.0, 0xA5),
    ElementType("s16", "int16", "int", 2, 16, 0, 2.0**15 - 1, 0xA5A5),
    ElementType("u16", "uint16", "uint", 2, 16, 0, 2.0**16 - 1, 0xA5A5),
    ElementType("s32", "int32", "int", 4, 32, 0, 2.0**31 - 1, 0xA5A5A5A5),
    ElementType("u32", "uint32", "uint", 4, 32, 0, 2.0**32 - 1, 0xA5A5A5A5),
    ElementType("s64", "int64", "int", 8, 64, 0, 2.0**63, 0xA5A5A5A5A5A5A5A5),
    ElementType("u64", "uint64", "uint", 8, 64, 0, 2.0**64, 0xA5A5A5A5A5A5A5A5),
    ElementType("bool", "uint8", "uint", 1, 8, 0, 1.0, 0xA5),
)
TYPES: Mapping[str, ElementType] = {entry.name: entry for entry in _TYPES}

# C and CUDA spellings, as a kernel's signature has them.
_SPELLINGS = {
    "f16": "half, __half, float16, fp16",
    "bf16": "__nv_bfloat16, nv_bfloat16, bfloat16",
    "e4m3": "__nv_fp8_e4m3, float8_e4m3fn",
    "e5m2": "__nv_fp8_e5m2, float8_e5m2",
    "f32": "float, float32, fp32",
    "f64": "double, float64",
    "s8": "char, signed char, int8_t, int8, i8",
    "u8": "unsigned char, uint8_t, uint8",
    "s16": "short, int16_t, i16",
    "u16": "unsigned short, uint16_t",
    "s32": "int, int32_t, int32, i32",
    "u32": "unsigned, unsigned int, uint32_t, uint32",
    "s64": "long, long long, int64_t, int64, i64, ptrdiff_t",
    "u64": "unsigned long, unsigned long long, uint64_t, size_t",
}
ALIASES: Mapping[str, str] = {spelling: name for name, of in _SPELLINGS.items() for spelling in of.split(", ")}


def element_type(name: str) -> ElementType | None:
    """The type of that name or C spelling, or None."""
    return TYPES.get(name) or TYPES.get(ALIASES.get(name, ""))


def storage_dtype(element: ElementType) -> np.dtype[Any]:
    """The NumPy dtype of one stored element."""
    import numpy as np

    if element.is_foreign:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, element.storage))
        return found
    return np.dtype(element.storage)


def poison_pattern(element: ElementType, argument: int) -> int:
    """Bits that mark an unwritten element of the argument with this index: floats get a payload of their own.

    Those of a byte have no room for one, but a NaN that no conversion makes.
    """
    return element.poison + (argument % 16 if element.is_float and element.bytes > 1 else 0)
