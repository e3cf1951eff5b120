"""Logic, shift, permute, select and move. Source: PTX ISA 9.x, "Logic and Shift Instructions", "Data Movement"."""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import form

_BITS = "pred b16 b32 b64"
_ANY = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64"

ROWS = (
    form("and.type d, a, b", type=_BITS),
    form("or.type d, a, b", type=_BITS),
    form("xor.type d, a, b", type=_BITS),
    form("not.type d, a", type=_BITS),
    form("cnot.type d, a", type="b16 b32 b64"),
    form("lop3.b32 d, a, b, c, immLut:u32"),
    form("lop3.bool.b32 d|p, a, b, c, immLut:u32, q:pred", op="lop3.bool.b32", bool="or and", since="8.2"),
    form("shl.type d, a, b:u32", type="b16 b32 b64"),
    form("shr.type d, a, b:u32", op="shr.{type}", type="b16=u16 b32=u32 b64=u64 u16 u32 u64 s16 s32 s64"),
    form("shf.side.mode.b32 d, a, b, c:u32", op="shf.{side}.{mode}.b32", side="l r", mode="clamp wrap"),
    form("prmt.b32{.mode} d, a, b, c", mode="f4e b4e rc8 ecl ecr rc16"),
    form("selp.type d, a, b, c:pred", op="selp.{type_b}", type=_ANY),
    form("slct.dtype.ctype d:dtype, a:dtype, b:dtype, c:ctype", op="slct.{dtype_b}.{ctype}", dtype=_ANY, ctype="s32"),
    form("slct{.ftz}.dtype.ctype d:dtype, a:dtype, b:dtype, c:ctype", op="slct.{dtype_b}.{ctype}", dtype=_ANY,
         ctype="f32"),
    form("mov.type d, a", op="mov.{type_b}", type=f"{_ANY} pred"),
    form("mov.b128 d, a", op="mov.b128", since="8.3 sm_70"),
    # Pack and unpack: which of the three a mov is, its operands say.
    form("mov.b16 d, a:b8*2", op="mov.pack.b16"),
    form("mov.b32 d, a:b16*2", op="mov.pack.b32"),
    form("mov.b32 d, a:b8*4", op="mov.pack.b32"),
    form("mov.b64 d, a:b32*2", op="mov.pack.b64"),
    form("mov.b64 d, a:b16*4", op="mov.pack.b64"),
    form("mov.b128 d, a:b64*2", op="mov.pack.b128", since="8.3 sm_70"),
    form("mov.b128 d, a:b32*4", op="mov.pack.b128", since="8.3 sm_70"),
    form("mov.b16 d:b8*2, a:b16", op="mov.unpack.b16"),
    form("mov.b32 d:b16*2, a:b32", op="mov.unpack.b32"),
    form("mov.b32 d:b8*4, a:b32", op="mov.unpack.b32"),
    form("mov.b64 d:b32*2, a:b64", op="mov.unpack.b64"),
    form("mov.b64 d:b16*4, a:b64", op="mov.unpack.b64"),
    form("mov.b128 d:b64*2, a:b128", op="mov.unpack.b128", since="8.3 sm_70"),
    form("mov.b128 d:b32*4, a:b128", op="mov.unpack.b128", since="8.3 sm_70"),
)  # fmt: skip
