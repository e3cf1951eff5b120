"""set and setp. Source: PTX ISA 9.x, "Comparison and Select Instructions"."""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import form

_INTEGER = "eq ne lt le gt ge lo ls hi hs"
_FLOAT = "eq ne lt le gt ge equ neu ltu leu gtu geu num nan"
_BOOL = "and or xor"
_TYPES = {
    "b16 b32 b64": ("eq ne", ""),
    "u16 u32 u64 s16 s32 s64": (_INTEGER, ""),
    "f32": (_FLOAT, "{.ftz}"),
    "f64": (_FLOAT, ""),
    "f16 f16x2": (_FLOAT, "{.ftz}"),
    "bf16 bf16x2": (_FLOAT, ""),
}
_SET_RESULTS = "u32 s32 f32"
_SET_HALF = "f16 f16x2 bf16 bf16x2 u16 s16 u32 s32"

ROWS = (
    *(
        row
        for types, (compare, ftz) in _TYPES.items()
        for row in (
            form(f"setp.compare{ftz}.type d|q?:pred, a:type, b:type", compare=compare, type=types),
            form(
                f"setp.compare.bool{ftz}.type d|q?:pred, a:type, b:type, c:pred",
                compare=compare,
                bool=_BOOL,
                type=types,
            ),
        )
    ),
    *(
        row
        for types, (compare, ftz) in _TYPES.items()
        for results in (_SET_HALF if "f16" in types else _SET_RESULTS,)
        for row in (
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
    form("set.compare{.ftz}.dtype.atype d:dtype, a:atype, b:atype", compare=_FLOAT, dtype="f16 bf16", atype="f32 f64"),
)
