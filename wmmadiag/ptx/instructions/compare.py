"""set and setp. Source: PTX ISA 9.x, "Comparison and Select Instructions"."""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import form

_SIGNED = "eq ne lt le gt ge"
_UNSIGNED = f"{_SIGNED} lo ls hi hs"
_FLOAT = "eq ne lt le gt ge equ neu ltu leu gtu geu num nan"
_BOOL = "and or xor"
# operand types → comparisons, ftz, result types of set
_TYPES = {
    "b16 b32 b64": ("eq ne", "", "u32 s32 f32 f16 bf16"),
    "u16 u32 u64": (_UNSIGNED, "", "u32 s32 f32 f16 bf16"),
    "s16 s32 s64": (_SIGNED, "", "u32 s32 f32 f16 bf16"),
    "f32": (_FLOAT, "{.ftz}", "u32 s32 f32 f16"),
    "f64": (_FLOAT, "", "u32 s32 f32 f16 bf16"),
    "f16": (_FLOAT, "{.ftz}", "f16 u16 s16 u32 s32"),
    "bf16": (_FLOAT, "", "bf16 u16 s16 u32 s32"),
    "f16x2": (_FLOAT, "{.ftz}", "f16x2 u32 s32"),
    "bf16x2": (_FLOAT, "", "bf16x2 u32 s32"),
}

ROWS = (
    *(
        row
        for types, (compare, ftz, results) in _TYPES.items()
        for row in (
            form(f"setp.compare{ftz}.type d|q?:pred, a, b", compare=compare, type=types),
            form(f"setp.compare.bool{ftz}.type d|q?:pred, a, b, c:pred", compare=compare, bool=_BOOL, type=types),
            form(
                f"set.compare{ftz}.dtype.atype d:dtype, a:atype, b:atype", compare=compare, dtype=results, atype=types
            ),
            form(
                f"set.compare.bool{ftz}.dtype.atype d:dtype, a:atype, b:atype, c:pred",
                compare=compare,
                bool=_BOOL,
                dtype=results,
                atype=types,
            ),
        )
    ),
    form("set.compare.dtype.atype d:dtype, a:atype, b:atype", compare=_FLOAT, dtype="bf16", atype="f32 f16"),
    form(
        "set.compare.bool.dtype.atype d:dtype, a:atype, b:atype, c:pred",
        compare=_FLOAT,
        bool=_BOOL,
        dtype="bf16",
        atype="f32 f16",
    ),
)
