"""Integer arithmetic and bit counting. Source: PTX ISA 9.x, "Integer Arithmetic", "Extended-Precision Integer"."""

from __future__ import annotations

from wmmadiag.ptx.instructions.form import form

_ALL = "u16 u32 u64 s16 s32 s64"
_WORDS = "u32 u64 s32 s64"

ROWS = (
    form("add{.sat}.s32 d, a, b"),
    form("add.type d, a, b", type="u16 u32 u64 s16 s64"),
    form("add.type d, a, b", type="u16x2 s16x2", since="8.0 sm_90"),
    form("sub{.sat}.s32 d, a, b"),
    form("sub.type d, a, b", type="u16 u32 u64 s16 s64"),
    form("mul.part.type d, a, b", op="mul.{part}.{type}", part="lo hi", type=_ALL),
    form("mul.wide.type d:type_wide, a, b", type="u16 u32 s16 s32"),
    form("mad.part.type d, a, b, c", op="mad.{part}.{type}", part="lo hi", type="u16 u32 u64 s16 s64"),
    form("mad.lo.s32 d, a, b, c"),
    form("mad.hi{.sat}.s32 d, a, b, c"),
    form("mad.wide.type d:type_wide, a, b, c:type_wide", type="u16 u32 s16 s32"),
    form("mul24.part.type d, a, b", op="mul24.{part}.{type}", part="lo hi", type="u32 s32"),
    form("mad24.part.type d, a, b, c", op="mad24.{part}.{type}", part="lo hi", type="u32"),
    form("mad24.lo.s32 d, a, b, c"),
    form("mad24.hi{.sat}.s32 d, a, b, c"),
    form("sad.type d, a, b, c", type=_ALL),
    form("div.type d, a, b", type=_ALL),
    form("rem.type d, a, b", type=_ALL),
    form("abs.type d, a", type="s16 s32 s64"),
    form("neg.type d, a", type="s16 s32 s64"),
    form("min.type d, a, b", type="u16 u32 u64 s16 s32 s64"),
    form("min.relu.s32 d, a, b", op="min.s32", defaults={"relu": "1"}, since="8.0 sm_90"),
    form("min.u16x2 d, a, b", since="8.0 sm_90"),
    form("min{.relu}.s16x2 d, a, b", since="8.0 sm_90"),
    form("max.type d, a, b", type="u16 u32 u64 s16 s32 s64"),
    form("max.relu.s32 d, a, b", op="max.s32", defaults={"relu": "1"}, since="8.0 sm_90"),
    form("max.u16x2 d, a, b", since="8.0 sm_90"),
    form("max{.relu}.s16x2 d, a, b", since="8.0 sm_90"),
    form("popc.type d:u32, a", type="b32 b64"),
    form("clz.type d:u32, a", type="b32 b64"),
    form("bfind.type d:u32, a", type=_WORDS),
    form("bfind.shiftamt.type d:u32, a", type=_WORDS),
    form("fns.b32 d, mask, base, offset:s32"),
    form("brev.type d, a", type="b32 b64"),
    form("bfe.type d, a, b:u32, c:u32", type=_WORDS),
    form("bfi.type d, a, b, c:u32, length:u32", type="b32 b64"),
    form("szext.mode.type d, a, b:u32", op="szext.{mode}.{type}", mode="clamp wrap", type="u32 s32"),
    form("bmsk.mode.b32 d, a, b", op="bmsk.{mode}.b32", mode="clamp wrap"),
    # Untyped, as recorded: what the records draw operands from is the rows, their order and their types.
    form("dp4a.atype.btype d:b32, a:b32, b:b32, c:b32", atype="u32 s32", btype="u32 s32"),
    form("dp2a.part.atype.btype d:b32, a:b32, b:b32, c:b32", op="dp2a.{part}.{atype}.{btype}", part="lo hi",
         atype="u32 s32", btype="u32 s32"),
    # Halves or bytes of a word side by side; no masks, no selections of lanes, no saturation.
    *(
        form(f"v{name}{lanes}.dtype.atype.btype{{.add}} d:u32, a:u32, b:u32, c:u32", op=f"v{name}{lanes}",
             dtype="u32 s32", atype="u32 s32", btype="u32 s32")
        for name in ("add", "sub", "absdiff", "min", "max")
        for lanes in (2, 4)
    ),
    # Extended precision: the carry flag is an operand of its own, after those in the text.
    form("add.cc.type d, a, b, cc_out", type=_WORDS),
    form("addc.type d, a, b, cc_in", type=_WORDS),
    form("addc.cc.type d, a, b, cc_out, cc_in", type=_WORDS),
    form("sub.cc.type d, a, b, cc_out", type=_WORDS),
    form("subc.type d, a, b, cc_in", type=_WORDS),
    form("subc.cc.type d, a, b, cc_out, cc_in", type=_WORDS),
    form("mad.part.cc.type d, a, b, c, cc_out", op="mad.{part}.cc.{type}", part="lo hi", type=_WORDS),
    form("madc.part.type d, a, b, c, cc_in", op="madc.{part}.{type}", part="lo hi", type=_WORDS),
    form("madc.part.cc.type d, a, b, c, cc_out, cc_in", op="madc.{part}.cc.{type}", part="lo hi", type=_WORDS),
)  # fmt: skip
