"""f16, f16x2, bf16 and bf16x2 arithmetic, and mixed precision. Source: PTX ISA 9.x, "Half Precision Floating Point"."""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import form

_RN = {"rounding": "rn"}
_HALF = "f16 f16x2"
_BF16 = "bf16 bf16x2"

ROWS = (
    *(
        row
        for name in ("add", "sub", "mul")
        for row in (
            form(f"{name}{{.rounding}}{{.ftz}}{{.sat}}.type d, a, b", defaults=_RN, rounding="rn", type=_HALF),
            form(f"{name}{{.rounding}}.type d, a, b", defaults=_RN, rounding="rn", type=_BF16, since="7.8 sm_90"),
        )
    ),
    form("fma.rounding{.ftz}{.sat}.type d, a, b, c", rounding="rn", type=_HALF),
    form("fma.rounding{.ftz}.relu.type d, a, b, c", op="fma.{type}", defaults={"relu": "1"}, rounding="rn",
         type=_HALF, since="7.0 sm_80"),
    form("fma.rounding{.relu}.type d, a, b, c", rounding="rn", type=_BF16, since="7.0 sm_80"),
    form("fma.rounding.oob{.relu}.type d, a, b, c", op="fma.{type}", defaults={"oob": "1"}, rounding="rn",
         type=f"{_HALF} {_BF16}", since="8.1 sm_90"),
    form("neg{.ftz}.type d, a", type=_HALF),
    form("neg.type d, a", type=_BF16, since="7.0 sm_80"),
    form("abs{.ftz}.type d, a", type=_HALF),
    form("abs.type d, a", type=_BF16, since="7.0 sm_80"),
    *(
        row
        for name in ("min", "max")
        for row in (
            form(f"{name}{{.ftz}}{{.NaN}}{{.xorsign.abs}}.type d, a, b", type=_HALF, since="7.0 sm_80"),
            form(f"{name}{{.NaN}}{{.xorsign.abs}}.type d, a, b", type=_BF16, since="7.0 sm_80"),
        )
    ),
    # Mixed precision: f32 accumulates a half (PTX 8.6, sm_100).
    form("add{.rounding}{.sat}.f32.atype d:f32, a:atype, c:f32", defaults=_RN, rounding="rn rz rm rp",
         atype="f16 bf16", since="8.6 sm_100"),
    form("sub{.rounding}{.sat}.f32.atype d:f32, a:atype, c:f32", defaults=_RN, rounding="rn rz rm rp",
         atype="f16 bf16", since="8.6 sm_100"),
    form("fma.rounding{.sat}.f32.atype d:f32, a:atype, b:atype, c:f32", rounding="rn rz rm rp", atype="f16 bf16",
         since="8.6 sm_100"),
)  # fmt: skip
