"""The scalar and built-in vector types of CUDA C++ by their names, for what is read before a compiler is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# cuda_fp16.h, cuda_bf16.h, cuda_fp8.h; CUTLASS's numeric_types.h; c10/util/Half.h and BFloat16.h.
_CLASSES: Mapping[str, str] = {
    "half": "f16", "__half": "f16", "half_t": "f16", "__half_raw": "f16", "at::Half": "f16", "c10::Half": "f16",
    "nv_bfloat16": "bf16", "__nv_bfloat16": "bf16", "bfloat16": "bf16", "at::BFloat16": "bf16", "c10::BFloat16": "bf16",
    "__nv_fp8_e4m3": "e4m3", "__nv_fp8_e5m2": "e5m2", "float_e4m3_t": "e4m3", "float_e5m2_t": "e5m2",
    "at::Float8_e4m3fn": "e4m3", "c10::Float8_e4m3fn": "e4m3", "at::Float8_e5m2": "e5m2", "c10::Float8_e5m2": "e5m2",
}  # fmt: skip
# ISO C++ [basic.fundamental] under the LP64 model of 64-bit Linux; the words of a name may stand in any order.
_FUNDAMENTAL: Mapping[str, str] = {
    "float": "f32", "double": "f64", "bool": "u8", "char": "i8", "signed char": "i8", "unsigned char": "u8",
    "short": "i16", "int": "i32", "long": "i64", "long long": "i64", "signed": "i32",
    "unsigned short": "u16", "unsigned": "u32", "unsigned long": "u64", "unsigned long long": "u64",
}  # fmt: skip
# <cstddef>, <cstdint>, <sys/types.h>.
_TYPEDEFS: Mapping[str, str] = {
    "uint": "u32", "size_t": "u64", "ssize_t": "i64", "ptrdiff_t": "i64", "intptr_t": "i64", "uintptr_t": "u64",
    **{f"{sign}int{bits}_t": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
# CUDA C++ Programming Guide, "Built-in Vector Types".
_VECTORS: Mapping[str, str] = {
    "char": "i8", "uchar": "u8", "short": "i16", "ushort": "u16", "int": "i32", "uint": "u32", "long": "i64",
    "ulong": "u64", "longlong": "i64", "ulonglong": "u64", "float": "f32", "double": "f64",
}  # fmt: skip
_PAIRS: Mapping[str, str] = {"half2": "f16", "__half2": "f16", "nv_bfloat162": "bf16", "__nv_bfloat162": "bf16"}
_BYTES: Mapping[str, int] = {
    "e4m3": 1, "e5m2": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4, "u32": 4, "f32": 4,
    "i64": 8, "u64": 8, "f64": 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scalar:
    """What a name stands for."""

    dtype: str  # number format of one lane: f16, bf16, f32, f64, i8 … u64, e4m3, e5m2; of a bool u8
    lanes: int = 1  # elements of a vector type (half2: 2), else 1
    vector: bool = False  # whether it is a vector type, of one element too (float1)

    @property
    def bytes(self) -> int:
        """Bytes of the whole."""
        return _BYTES[self.dtype] * self.lanes


def _words(text: str) -> tuple[str, ...]:
    return tuple(sorted(text.split()))


def _known() -> dict[tuple[str, ...], Scalar]:
    found = {_words(name): Scalar(dtype) for name, dtype in {**_CLASSES, **_FUNDAMENTAL}.items()}
    for name, dtype in _FUNDAMENTAL.items():  # `int` may be left out: [dcl.type.simple]
        if name.split()[-1] in ("short", "long", "signed", "unsigned"):
            found[_words(f"{name} int")] = Scalar(dtype)
        if name in ("short", "long", "long long"):
            found[_words(f"signed {name}")] = found[_words(f"signed {name} int")] = Scalar(dtype)
    for name, dtype in _TYPEDEFS.items():
        found[(name,)] = found[f"std::{name}",] = Scalar(dtype)
    for name, dtype in _VECTORS.items():
        found |= {(f"{name}{lanes}",): Scalar(dtype, lanes, True) for lanes in (1, 2, 3, 4)}
    return found | {(name,): Scalar(dtype, 2, True) for name, dtype in _PAIRS.items()}


_KNOWN = _known()


def scalar_named(text: str) -> Scalar | None:
    """The type of a name without qualifiers, "unsigned long" or "float4"; None for any other."""
    return _KNOWN.get(_words(text))
