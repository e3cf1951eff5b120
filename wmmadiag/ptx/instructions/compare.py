"""set and setp. Source: PTX ISA 9.x, "Comparison and Select Instructions"."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.ptx.instructions.form import Form, form

_SIGNED = "eq ne lt le gt ge"
_UNSIGNED = f"{_SIGNED} lo ls hi hs"
_FLOAT = "eq ne lt le gt ge equ neu ltu leu gtu geu num nan"
_BOOL = "and or xor"
_ANY = "u32 s32 f32 f16"
# operand types → comparisons, ftz, result types of set, since
_TYPES = {
    "b16 b32 b64": ("eq ne", "", _ANY, ""),
    "u16 u32 u64": (_UNSIGNED, "", _ANY, ""),
    "s16 s32 s64": (_SIGNED, "", _ANY, ""),
    "f32": (_FLOAT, "{.ftz}", _ANY, ""),
    "f64": (_FLOAT, "", _ANY, ""),
    "f16": (_FLOAT, "{.ftz}", "f16 u16 s16 u32 s32", ""),
    "bf16": (_FLOAT, "", "u16 s16 u32 s32", "7.8 sm_90"),
    "f16x2": (_FLOAT, "{.ftz}", "f16x2 u32 s32", ""),
    "bf16x2": (_FLOAT, "", "bf16x2 u32 s32", "7.8 sm_90"),
}


def _set(operands: str, compare: str, ftz: str, results: str, since: str) -> Iterator[Form]:
    slots = {"compare": compare, "dtype": results, "atype": operands}
    plain = f"set.compare{ftz}.dtype.atype d:dtype, a:atype, b:atype"
    combined = f"set.compare.bool{ftz}.dtype.atype d:dtype, a:atype, b:atype, c:pred"
    yield form(plain, slots=slots, since=since)
    yield form(combined, slots={**slots, "bool": _BOOL}, since=since)


def _rows() -> Iterator[Form]:
    for operands, (compare, ftz, results, since) in _TYPES.items():
        slots = {"compare": compare, "type": operands}
        yield form(f"setp.compare{ftz}.type d|q?:pred, a, b", slots=slots, since=since)
        combined = f"setp.compare.bool{ftz}.type d|q?:pred, a, b, c:pred"
        yield form(combined, slots={**slots, "bool": _BOOL}, since=since)
        yield from _set(operands, compare, ftz, results, since)
        if "x2" not in operands:  # any scalar compares to a bf16, without .ftz
            yield from _set(operands, compare, "", "bf16", "7.8 sm_90")


ROWS = tuple(_rows())
