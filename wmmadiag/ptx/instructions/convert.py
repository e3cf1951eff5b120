"""cvt, cvt.pack. Source: PTX ISA 9.x, "Data Movement and Conversion Instructions: cvt"."""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import Form, form

_INT = "u8 u16 u32 u64 s8 s16 s32 s64"
_ROUND_INT = "rni rzi rmi rpi"
_RND = "rn rz rm rp"
_FP8 = "e4m3x2 e5m2x2"

_FP6 = "e2m3x2 e3m2x2"
_FP4 = "e2m1x2"
_SM90 = "7.8 sm_90"
_SAT = {"satfinite": "1"}


def _cvt(modifiers: str, dtype: str, atype: str, since: str = "", rounding: str = "") -> Form:
    """One source, whose register may be wider than its type, as may the destination (but not with bf16)."""
    slots = {"dtype": dtype, "atype": atype, **({"rounding": rounding} if rounding else {})}
    return form(
        f"cvt{modifiers}.dtype.atype d:dtype, a:atype", relaxed="bf16" not in (dtype, atype), since=since, slots=slots
    )


def _to_small(dtype: str, source: str, since: str) -> Form:
    """To two 8-, 6- or 4-bit floats, from two f32 or from a packed pair."""
    operands = "d:dtype, a:f32, b:f32" if source == "f32" else f"d:dtype, a:{source}"
    syntax = f"cvt.rounding.satfinite{{.relu}}.dtype.{source} {operands}"
    op = f"cvt.{{dtype}}.{source}"
    return form(syntax, op=op, defaults=_SAT, rounding="rn", dtype=dtype, since=since)


def _from_small(dtype: str, atype: str, since: str) -> Form:
    """From two 8-, 6- or 4-bit floats to a packed pair."""
    slots = {"dtype": dtype, "atype": atype}
    return form("cvt.rounding{.relu}.dtype.atype d:dtype, a:atype", rounding="rn", since=since, slots=slots)


ROWS = (
    # integer to integer
    _cvt("{.sat}", _INT, _INT),
    # integer to float: rounding required
    _cvt(".rounding{.ftz}{.sat}", "f32", _INT, rounding=_RND),
    _cvt(".rounding{.sat}", "f16 f64", _INT, rounding=_RND),
    _cvt(".rounding", "bf16", _INT, _SM90, rounding=_RND),
    # float to integer: integer rounding required
    _cvt(".rounding{.ftz}{.sat}", _INT, "f32", rounding=_ROUND_INT),
    _cvt(".rounding{.sat}", _INT, "f16 f64", rounding=_ROUND_INT),
    _cvt(".rounding", _INT, "bf16", _SM90, rounding=_ROUND_INT),
    # float to a narrower float: rounding required
    _cvt(".rounding{.ftz}{.sat}", "f16", "f32", rounding=_RND),
    _cvt(".rounding{.sat}", "f16", "f64", rounding=_RND),
    _cvt(".rounding{.ftz}{.sat}", "f32", "f64", rounding=_RND),
    _cvt(".rounding", "bf16", "f16 f64", _SM90, rounding=_RND),
    _cvt(".rounding", "bf16", "f32", "7.0 sm_80", rounding="rm rp"),
    # float to a wider float: no rounding
    _cvt("{.ftz}{.sat}", "f32", "f16"),
    _cvt("{.sat}", "f64", "f16"),
    _cvt("{.ftz}{.sat}", "f64", "f32"),
    _cvt("{.ftz}", "f32", "bf16", "7.1 sm_80"),
    _cvt("", "f64", "bf16", _SM90),
    # same size: copy, or round to an integral value
    _cvt("{.rounding}{.ftz}{.sat}", "f32", "f32", rounding=_ROUND_INT),
    _cvt("{.rounding}{.sat}", "f16", "f16", rounding=_ROUND_INT),
    _cvt("{.rounding}{.sat}", "f64", "f64", rounding=_ROUND_INT),
    _cvt(".rounding", "bf16", "bf16", _SM90, rounding=_ROUND_INT),
    _cvt(".rounding", "f16", "bf16", _SM90, rounding=_RND),
    # the ".relu" and ".satfinite" forms of f32 to f16, bf16, tf32, and stochastic rounding (".rs")
    _cvt(".rounding{.relu}{.satfinite}", "bf16", "f32", "7.0 sm_80", rounding="rn rz"),
    form("cvt.rounding.relu{.satfinite}.f16.f32 d:f16, a:f32", op="cvt.f16.f32", defaults={"relu": "1"},
         rounding="rn rz", since="7.0 sm_80"),
    form("cvt.rounding.satfinite.f16.f32 d:f16, a:f32", op="cvt.f16.f32", defaults=_SAT, rounding="rn rz",
         since="8.1 sm_75"),
    form("cvt.rounding{.relu}{.satfinite}.dtype.f32 d:dtype, a:f32, b:f32", op="cvt.{dtype}.f32", rounding="rn rz",
         dtype="f16x2 bf16x2", since="7.0 sm_80"),
    form("cvt.rs{.relu}{.satfinite}.dtype.f32 d:dtype, a:f32, b:f32, rbits:b32", dtype="f16x2 bf16x2",
         op="cvt.rs.{dtype}.f32", since="8.7 sm_100"),
    form("cvt.rs.satfinite{.relu}.dtype.f32 d:dtype, a:f32*4, rbits:b32", defaults=_SAT, op="cvt.rs.{dtype}.f32",
         dtype="e4m3x4 e5m2x4 e2m3x4 e3m2x4 e2m1x4", since="8.7 sm_100"),
    form("cvt.rounding{.satfinite}.tf32.f32 d:b32, a:f32", op="cvt.tf32.f32", rounding="rna", since="7.0 sm_80"),
    form("cvt.rounding{.relu}.tf32.f32 d:b32, a:f32", op="cvt.tf32.f32", rounding="rn rz", since=_SM90),
    form("cvt.rounding{.relu}.satfinite.tf32.f32 d:b32, a:f32", op="cvt.tf32.f32", defaults=_SAT, rounding="rn rz",
         since="8.6 sm_100"),
    # 8-, 6- and 4-bit floats, in pairs
    _to_small(_FP8, "f32", "8.1 sm_89"),
    _to_small(_FP8, "f16x2", "8.1 sm_89"),
    _to_small(_FP8, "bf16x2", "9.1 sm_100"),
    _to_small(f"{_FP6} {_FP4}", "f32", "8.6 sm_100"),
    _to_small(f"{_FP6} {_FP4}", "f16x2", "9.1 sm_100"),
    _to_small(f"{_FP6} {_FP4}", "bf16x2", "9.1 sm_100"),
    _from_small("f16x2", _FP8, "8.1 sm_89"),
    _from_small("f16x2", f"{_FP6} {_FP4}", "8.6 sm_100"),
    _from_small("bf16x2", f"{_FP8} {_FP6} {_FP4}", "9.2 sm_100"),
    form("cvt.rounding{.satfinite}.ue8m0x2.f32 d:ue8m0x2, a:f32, b:f32", rounding="rz rp", since="8.6 sm_100"),
    form("cvt.rounding{.satfinite}.ue8m0x2.bf16x2 d:ue8m0x2, a:bf16x2", rounding="rz rp", since="8.6 sm_100"),
    form("cvt.rounding.bf16x2.ue8m0x2 d:bf16x2, a:ue8m0x2", rounding="rn", since="8.6 sm_100"),
    # cvt.pack: two s32 saturated to small integers, in front of c
    form("cvt.pack.sat.dtype.s32 d:u32, a:s32, b:s32", op="cvt.pack.{dtype}.s32", dtype="u16 s16"),
    form("cvt.pack.sat.dtype.s32.b32 d:u32, a:s32, b:s32, c:b32", op="cvt.pack.{dtype}.s32.b32",
         dtype="u2 s2 u4 s4 u8 s8", since="sm_75"),
)  # fmt: skip
