"""f32, f64 and f32x2 arithmetic and approximations. Source: PTX ISA 9.x, "Floating Point Instructions"."""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import form

_RND = "rn rz rm rp"
_RN = {"rounding": "rn"}
_KINDS = "finite infinite number notanumber normal subnormal"

ROWS = (
    *(
        row
        for name in ("add", "sub", "mul")
        for row in (
            form(f"{name}{{.rounding}}{{.ftz}}{{.sat}}.f32 d, a, b", defaults=_RN, rounding=_RND),
            form(f"{name}{{.rounding}}{{.ftz}}.f32x2 d, a, b", defaults=_RN, rounding=_RND, since="8.6 sm_100"),
            form(f"{name}{{.rounding}}.f64 d, a, b", defaults=_RN, rounding=_RND),
        )
    ),
    form("fma.rounding{.ftz}{.sat}.f32 d, a, b, c", rounding=_RND),
    form("fma.rounding{.ftz}.f32x2 d, a, b, c", rounding=_RND, since="8.6 sm_100"),
    form("fma.rounding.f64 d, a, b, c", rounding=_RND),
    form("mad.rounding{.ftz}{.sat}.f32 d, a, b, c", op="fma.f32", rounding=_RND),
    form("mad.rounding.f64 d, a, b, c", op="fma.f64", rounding=_RND),
    form("div.full{.ftz}.f32 d, a, b"),
    form("div.approx{.ftz}.f32 d, a, b"),
    form("div.rounding{.ftz}.f32 d, a, b", rounding=_RND),
    form("div.rounding.f64 d, a, b", rounding=_RND),
    form("rcp.approx{.ftz}.f32 d, a"),
    form("rcp.approx.ftz.f64 d, a", op="rcp.approx.f64", defaults={"ftz": "1"}),
    form("rcp.rounding{.ftz}.f32 d, a", rounding=_RND),
    form("rcp.rounding.f64 d, a", rounding=_RND),
    form("sqrt.approx{.ftz}.f32 d, a"),
    form("sqrt.rounding{.ftz}.f32 d, a", rounding=_RND),
    form("sqrt.rounding.f64 d, a", rounding=_RND),
    form("rsqrt.approx{.ftz}.f32 d, a"),
    form("rsqrt.approx{.ftz}.f64 d, a"),
    form("sin.approx{.ftz}.f32 d, a"),
    form("cos.approx{.ftz}.f32 d, a"),
    form("lg2.approx{.ftz}.f32 d, a"),
    form("ex2.approx{.ftz}.f32 d, a"),
    form("ex2.approx.type d, a", type="f16 f16x2", since="7.0 sm_75"),
    form(
        "ex2.approx.ftz.type d, a", op="ex2.approx.{type}", defaults={"ftz": "1"}, type="bf16 bf16x2", since="7.8 sm_90"
    ),
    form("tanh.approx.f32 d, a", since="7.0 sm_75"),
    form("tanh.approx.type d, a", type="f16 f16x2", since="7.0 sm_75"),
    form("tanh.approx.type d, a", type="bf16 bf16x2", since="7.8 sm_90"),
    form("abs{.ftz}.f32 d, a"),
    form("abs.f64 d, a"),
    form("neg{.ftz}.f32 d, a"),
    form("neg.f64 d, a"),
    *(
        row
        for name in ("min", "max")
        for row in (
            form(f"{name}{{.ftz}}{{.NaN}}{{.xorsign.abs}}.f32 d, a, b"),
            form(f"{name}{{.ftz}}{{.NaN}}{{.abs}}.f32 d, a, b, c", since="8.8 sm_100"),
            form(f"{name}.f64 d, a, b"),
        )
    ),
    form("copysign.type d, a, b", type="f32 f64"),
    form("testp.mode.type d:pred, a", mode=_KINDS, type="f32 f64"),
)
