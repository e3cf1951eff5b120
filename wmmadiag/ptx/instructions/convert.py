"""cvt, cvt.pack. Source: PTX ISA 9.x, "Data Movement and Conversion Instructions: cvt"."""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import form

_INT = "u8 u16 u32 u64 s8 s16 s32 s64"
_ROUND_INT = "rni rzi rmi rpi"
_RND = "rn rz rm rp"
_FP8 = "e4m3x2 e5m2x2"
_FP6_4 = "e2m1x2 e2m3x2 e3m2x2"

ROWS = (
    # integer to integer
    form("cvt{.sat}.dtype.atype d:dtype, a:atype", dtype=_INT, atype=_INT, relaxed=True),
    # integer to float: rounding required
    form(
        "cvt.rounding{.ftz}{.sat}.dtype.atype d:dtype, a:atype",
        rounding=_RND,
        dtype="f16 f32 f64",
        atype=_INT,
        relaxed=True,
    ),
    form(
        "cvt.rounding.dtype.atype d:dtype, a:atype",
        rounding=_RND,
        dtype="bf16",
        atype=_INT,
        relaxed=True,
        ptx=(7, 8),
        sm=90,
    ),
    # float to integer: integer rounding required
    form(
        "cvt.rounding{.ftz}{.sat}.dtype.atype d:dtype, a:atype",
        rounding=_ROUND_INT,
        dtype=_INT,
        atype="f16 f32 f64",
        relaxed=True,
    ),
    form(
        "cvt.rounding.dtype.atype d:dtype, a:atype",
        rounding=_ROUND_INT,
        dtype=_INT,
        atype="bf16",
        relaxed=True,
        ptx=(7, 8),
        sm=90,
    ),
    # float to a narrower float: rounding required
    form(
        "cvt.rounding{.ftz}{.sat}.dtype.atype d:dtype, a:atype",
        rounding=_RND,
        dtype="f16",
        atype="f32 f64",
        relaxed=True,
    ),
    form(
        "cvt.rounding{.ftz}{.sat}.dtype.atype d:dtype, a:atype", rounding=_RND, dtype="f32", atype="f64", relaxed=True
    ),
    form(
        "cvt.rounding.dtype.atype d:dtype, a:atype",
        rounding=_RND,
        dtype="bf16",
        atype="f16 f64",
        relaxed=True,
        ptx=(7, 8),
        sm=90,
    ),
    # float to a wider float: no rounding
    form("cvt{.ftz}{.sat}.dtype.atype d:dtype, a:atype", dtype="f32 f64", atype="f16", relaxed=True),
    form("cvt{.ftz}{.sat}.dtype.atype d:dtype, a:atype", dtype="f64", atype="f32", relaxed=True),
    form("cvt{.ftz}.dtype.atype d:dtype, a:atype", dtype="f32", atype="bf16", relaxed=True, ptx=(7, 1), sm=80),
    form("cvt.dtype.atype d:dtype, a:atype", dtype="f64", atype="bf16", relaxed=True, ptx=(7, 8), sm=90),
    # same size: copy, or round to an integral value
    form(
        "cvt{.rounding}{.ftz}{.sat}.dtype.atype d:dtype, a:atype",
        rounding=_ROUND_INT,
        dtype="f16",
        atype="f16",
        relaxed=True,
    ),
    form(
        "cvt{.rounding}{.ftz}{.sat}.dtype.atype d:dtype, a:atype",
        rounding=_ROUND_INT,
        dtype="f32",
        atype="f32",
        relaxed=True,
    ),
    form(
        "cvt{.rounding}{.sat}.dtype.atype d:dtype, a:atype", rounding=_ROUND_INT, dtype="f64", atype="f64", relaxed=True
    ),
    form(
        "cvt.rounding.dtype.atype d:dtype, a:atype",
        rounding=_ROUND_INT,
        dtype="bf16",
        atype="bf16",
        relaxed=True,
        ptx=(7, 8),
        sm=90,
    ),
    form(
        "cvt.rounding.dtype.atype d:dtype, a:atype",
        rounding=_RND,
        dtype="f16",
        atype="bf16",
        relaxed=True,
        ptx=(7, 8),
        sm=90,
    ),
    # the ".relu" and ".satfinite" forms of f32 to f16, bf16, tf32
    form(
        "cvt.rounding{.relu}{.satfinite}.dtype.f32 d:dtype, a:f32",
        op="cvt.{dtype}.f32",
        rounding="rn rz",
        dtype="f16 bf16",
        ptx=(7, 0),
        sm=80,
    ),
    form(
        "cvt.rounding{.relu}{.satfinite}.dtype.f32 d:dtype, a:f32, b:f32",
        op="cvt.{dtype}.f32",
        rounding="rn rz",
        dtype="f16x2 bf16x2",
        ptx=(7, 0),
        sm=80,
    ),
    form(
        "cvt.rounding{.relu}{.satfinite}.dtype.f32 d:dtype, a:f32, b:f32, rbits:b32",
        op="cvt.{dtype}.f32",
        rounding="rs",
        dtype="f16x2 bf16x2",
        ptx=(8, 7),
        sm=100,
    ),
    form("cvt.rounding{.satfinite}.tf32.f32 d:b32, a:f32", rounding="rna", ptx=(7, 0), sm=80),
    form("cvt.rounding{.relu}{.satfinite}.tf32.f32 d:b32, a:f32", rounding="rn rz", ptx=(7, 8), sm=90),
    # 8-, 6- and 4-bit floats, in pairs
    form(
        "cvt.rounding.satfinite{.relu}.dtype.f32 d:dtype, a:f32, b:f32",
        op="cvt.{dtype}.f32",
        defaults={"satfinite": "1"},
        rounding="rn",
        dtype=_FP8,
        ptx=(8, 1),
        sm=89,
    ),
    form(
        "cvt.rounding.satfinite{.relu}.dtype.f32 d:dtype, a:f32, b:f32",
        op="cvt.{dtype}.f32",
        defaults={"satfinite": "1"},
        rounding="rn",
        dtype=_FP6_4,
        ptx=(8, 6),
        sm=100,
    ),
    form(
        "cvt.rounding.satfinite{.relu}.dtype.f16x2 d:dtype, a:f16x2",
        op="cvt.{dtype}.f16x2",
        defaults={"satfinite": "1"},
        rounding="rn",
        dtype=_FP8,
        ptx=(8, 1),
        sm=89,
    ),
    form("cvt.rounding{.relu}.f16x2.atype d:f16x2, a:atype", rounding="rn", atype=_FP8, ptx=(8, 1), sm=89),
    form("cvt.rounding{.relu}.f16x2.atype d:f16x2, a:atype", rounding="rn", atype=_FP6_4, ptx=(8, 6), sm=100),
    form("cvt.rounding{.satfinite}.ue8m0x2.f32 d:ue8m0x2, a:f32, b:f32", rounding="rz rp", ptx=(8, 6), sm=100),
    form("cvt.rounding{.satfinite}.ue8m0x2.bf16x2 d:ue8m0x2, a:bf16x2", rounding="rz rp", ptx=(8, 6), sm=100),
    form("cvt.rounding.bf16x2.ue8m0x2 d:bf16x2, a:ue8m0x2", rounding="rn", ptx=(8, 6), sm=100),
    # cvt.pack: two s32 saturated to small integers, appended to c
    form("cvt.pack.sat.dtype.s32 d:u32, a:s32, b:s32", op="cvt.pack.{dtype}.s32", dtype="u16 s16"),
    form(
        "cvt.pack.sat.dtype.s32.b32 d:u32, a:s32, b:s32, c:b32",
        op="cvt.pack.{dtype}.s32.b32",
        dtype="u2 s2 u4 s4 u8 s8",
        sm=75,
    ),
)
