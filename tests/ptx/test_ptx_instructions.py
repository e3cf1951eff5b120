"""The instruction table: canonical names, attributes, operands; what is refused and why."""

from __future__ import annotations

import itertools
import re

import pytest
from ptx_text import instruction

from wmmadiag.errors import PtxSyntaxError
from wmmadiag.ptx.instructions import lookup, refusal, rows
from wmmadiag.ptx.instructions.form import form
from wmmadiag.ptx.ir import Access, OperandPair, Predicate, Register, SymbolAddress, Vector

# As written → canonical name, attributes that matter.
ACCEPTED = [
    ("add.s32 r0, r1, -5;", "add.s32", {}),
    ("add.sat.s32 r0, r1, r2;", "add.s32", {"sat": "1"}),
    ("add.u16x2 r0, r1, r2;", "add.u16x2", {}),
    ("mul.wide.s32 d0, r1, r2;", "mul.wide.s32", {}),
    ("mad.wide.u16 r0, h1, h2, r3;", "mad.wide.u16", {}),
    ("mad.hi.sat.s32 r0, r1, r2, r3;", "mad.hi.s32", {"sat": "1"}),
    ("mul24.lo.u32 r0, r1, r2;", "mul24.lo.u32", {}),
    ("bfind.shiftamt.u64 r0, d1;", "bfind.shiftamt.u64", {}),
    ("dp2a.lo.s32.u32 r0, r1, r2, r3;", "dp2a.lo.s32.u32", {}),
    ("szext.wrap.s32 r0, r1, r2;", "szext.wrap.s32", {}),
    ("bmsk.clamp.b32 r0, r1, r2;", "bmsk.clamp.b32", {}),
    ("min.relu.s16x2 r0, r1, r2;", "min.s16x2", {"relu": "1"}),
    ("lop3.b32 r0, r1, r2, r3, 0xf8;", "lop3.b32", {}),
    ("prmt.b32.f4e r0, r1, r2, r3;", "prmt.b32", {"mode": "f4e"}),
    ("prmt.b32 r0, r1, r2, 0x5410;", "prmt.b32", {}),
    ("shf.l.wrap.b32 r0, r1, r2, r3;", "shf.l.wrap.b32", {}),
    ("shr.b32 r0, r1, r2;", "shr.u32", {}),
    ("selp.f32 f0, f1, f2, p1;", "selp.b32", {}),
    ("selp.u64 d0, d1, d2, p1;", "selp.b64", {}),
    ("slct.s32.f32 r0, r1, r2, f3;", "slct.b32.f32", {}),
    ("slct.ftz.f64.f32 g0, g1, g2, f3;", "slct.b64.f32", {"ftz": "1"}),
    ("slct.u16.s32 h0, h1, h2, r3;", "slct.b16.s32", {}),
    ("mov.u32 r0, %tid.x;", "mov.b32", {}),
    ("mov.u16 h0, %tid.x;", "mov.b16", {}),
    ("mov.f64 g0, 0d3FF0000000000000;", "mov.b64", {}),
    ("mov.pred p0, p1;", "mov.pred", {}),
    ("mov.b64 d0, {r1, r2};", "mov.pack.b64", {}),
    ("mov.b64 {r1, _}, d0;", "mov.unpack.b64", {}),
    ("mov.b32 {h1, h2}, r0;", "mov.unpack.b32", {}),
    ("mov.b128 q0, {d1, d2};", "mov.pack.b128", {}),
    ("mov.u64 d0, smem+16;", "mov.b64", {}),
    ("setp.ltu.and.ftz.f32 p0|p1, f1, f2, !p3;", "setp.f32", {"compare": "ltu", "bool": "and", "ftz": "1"}),
    ("setp.lo.u32 p0, r1, r2;", "setp.u32", {"compare": "lo"}),
    ("setp.eq.bf16x2 p0|p1, r1, r2;", "setp.bf16x2", {"compare": "eq"}),
    ("set.le.f16x2.f16x2 r0, r1, r2;", "set.f16x2.f16x2", {"compare": "le"}),
    ("set.ne.xor.u32.f64 r0, g1, g2, p0;", "set.u32.f64", {"compare": "ne", "bool": "xor"}),
    ("add.f32 f0, f1, 0f3F800000;", "add.f32", {"rounding": "rn"}),
    ("add.rz.ftz.sat.f32 f0, f1, f2;", "add.f32", {"rounding": "rz", "ftz": "1", "sat": "1"}),
    ("mul.f16x2 r0, r1, r2;", "mul.f16x2", {"rounding": "rn"}),
    ("mad.rn.f32 f0, f1, f2, f3;", "fma.f32", {"rounding": "rn"}),
    ("fma.rn.relu.bf16x2 r0, r1, r2, r3;", "fma.bf16x2", {"relu": "1"}),
    ("div.rn.f32 f0, f1, f2;", "div.f32", {"rounding": "rn"}),
    ("div.full.ftz.f32 f0, f1, f2;", "div.full.f32", {"ftz": "1"}),
    ("div.approx.f32 f0, f1, f2;", "div.approx.f32", {}),
    ("rcp.approx.ftz.f64 g0, g1;", "rcp.approx.f64", {"ftz": "1"}),
    ("rsqrt.approx.f32 f0, f1;", "rsqrt.approx.f32", {}),
    ("ex2.approx.ftz.bf16x2 r0, r1;", "ex2.approx.bf16x2", {}),
    ("tanh.approx.f16 h0, h1;", "tanh.approx.f16", {}),
    ("max.NaN.xorsign.abs.f32 f0, f1, f2;", "max.f32", {"nan": "1", "xorsign": "1", "abs": "1"}),
    ("testp.notanumber.f64 p0, g1;", "testp.f64", {"mode": "notanumber"}),
    ("cvt.rn.f16.f32 h0, f1;", "cvt.f16.f32", {"rounding": "rn"}),
    ("cvt.u64.u32 d0, r1;", "cvt.u64.u32", {}),
    ("cvt.s32.s8 r0, r1;", "cvt.s32.s8", {}),
    ("cvt.rna.tf32.f32 r0, f1;", "cvt.tf32.f32", {"rounding": "rna"}),
    ("cvt.rn.bf16x2.f32 r0, f1, f2;", "cvt.bf16x2.f32", {"rounding": "rn"}),
    ("cvt.rn.satfinite.e4m3x2.f32 h0, f1, f2;", "cvt.e4m3x2.f32", {"satfinite": "1"}),
    ("cvt.rn.relu.f16x2.e5m2x2 r0, h1;", "cvt.f16x2.e5m2x2", {"relu": "1"}),
    ("cvt.pack.sat.s8.s32.b32 r0, r1, r2, r3;", "cvt.pack.s8.s32.b32", {}),
    ("cvt.sat.f32.f32 f0, f1;", "cvt.f32.f32", {"sat": "1"}),
    ("ld.global.nc.v4.u32 {r0, r1, r2, r3}, [d0+16];", "ld", {"space": "global", "nc": "1", "vec": "v4"}),
    ("ld.shared::cta.b16 h0, [r1];", "ld", {"space": "shared", "type": "b16"}),
    ("ld.volatile.u8 r0, [d1];", "ld", {"space": "generic", "volatile": "1"}),
    ("ld.acquire.gpu.global.b32 r0, [d1];", "ld", {"sem": "acquire", "scope": "gpu"}),
    ("ld.global.L1::no_allocate.L2::128B.f32 f0, [d1];", "ld", {"evict": "L1::no_allocate"}),
    ("ld.global.L2::cache_hint.b32 r0, [d1], d2;", "ld", {}),
    ("ldu.global.f32 f0, [d1];", "ld", {"space": "global"}),
    ("ld.param.u64 d0, [arg];", "ld", {"space": "param"}),
    ("st.shared.v2.u32 [smem], {f1, r2};", "st", {"vec": "v2"}),
    ("st.global.wt.u8 [d0+-1], r1;", "st", {"cache": "wt"}),
    ("atom.shared.add.f32 f0, [r1], f2;", "atom", {"operation": "add", "type": "f32"}),
    ("atom.acq_rel.gpu.global.cas.b32 r0, [d1], r2, r3;", "atom", {"operation": "cas", "sem": "acq_rel"}),
    ("atom.global.add.noftz.bf16x2 r0, [d1], r2;", "atom", {"type": "bf16x2", "noftz": "1"}),
    ("atom.global.v4.f32.add {f0, f1, f2, f3}, [d1], {f4, f5, f6, f7};", "atom", {"vec": "v4"}),
    ("atom.shared.exch.b32 _, [smem], r2;", "atom", {}),
    ("red.relaxed.sys.global.max.u64 [d1], d2;", "red", {"operation": "max"}),
    ("cvta.to.shared.u64 d0, d1;", "cvta", {"to": "1", "space": "shared"}),
    ("cvta.global.u64 d0, gmem;", "cvta", {"to": "0", "space": "global"}),
    ("isspacep.local p0, d1;", "isspacep", {"space": "local"}),
    ("prefetch.global.L2 [d1];", "prefetch", {"level": "L2"}),
    ("createpolicy.fractional.L2::evict_last.b64 d0, 0f3F800000;", "createpolicy", {"kind": "fractional"}),
    ("cp.async.ca.shared.global [r0], [d1], 8;", "cp.async", {"cache": "ca"}),
    ("cp.async.cg.shared.global.L2::128B [r0], [d1], 16, r2;", "cp.async", {"l2_prefetch": "L2::128B"}),
    ("cp.async.ca.shared.global [r0], [d1], 4, p1;", "cp.async", {}),
    ("cp.async.cg.shared::cta.global.L2::cache_hint [r0], [d1], 16, d2;", "cp.async", {"space": "shared"}),
    ("cp.async.wait_group 2;", "cp.async.wait_group", {}),
    ("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [r0];", "cp.async.mbarrier.arrive", {"noinc": "1"}),
    ("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {r0, r1, r2, r3}, [d0];", "ldmatrix", {"num": "x4", "space": "shared"}),
    ("ldmatrix.sync.aligned.m8n8.x1.trans.b16 {r0}, [d0];", "ldmatrix", {"trans": "1", "space": "generic"}),
    ("stmatrix.sync.aligned.m8n8.x2.shared.b16 [r0], {r1, r2};", "stmatrix", {"num": "x2"}),
    ("movmatrix.sync.aligned.m8n8.trans.b16 r0, r1;", "movmatrix", {}),
    ("shfl.sync.bfly.b32 r0|p1, r1, 16, 31, -1;", "shfl", {"mode": "bfly", "sync": "1"}),
    ("vote.sync.ballot.b32 r0, !p1, 0xffffffff;", "vote", {"mode": "ballot"}),
    ("match.all.sync.b64 r0|p1, d1, -1;", "match", {"mode": "all"}),
    ("redux.sync.xor.b32 r0, r1, -1;", "redux", {"operation": "xor", "type": "b32"}),
    ("elect.sync _|p0, -1;", "elect", {}),
    ("activemask.b32 r0;", "activemask", {}),
    ("bar.sync 0;", "bar.sync", {"aligned": "1"}),
    ("barrier.sync 1, 64;", "bar.sync", {"aligned": "0"}),
    ("barrier.cta.sync.aligned r1;", "bar.sync", {"aligned": "1"}),
    ("bar.arrive 2, 64;", "bar.arrive", {}),
    ("bar.red.popc.u32 r0, 0, 64, !p1;", "bar.red", {"operation": "popc"}),
    ("barrier.red.or.pred p0, 0, p1;", "bar.red", {"operation": "or", "aligned": "0"}),
    ("bar.warp.sync -1;", "bar.warp.sync", {}),
    ("membar.gl;", "membar", {"level": "gl"}),
    ("fence.acq_rel.gpu;", "fence", {"sem": "acq_rel", "scope": "gpu"}),
    ("fence.proxy.async;", "fence", {"proxy": "async"}),
    ("mbarrier.init.shared::cta.b64 [r0], 32;", "mbarrier.init", {"space": "shared"}),
    ("mbarrier.arrive.shared.b64 _, [r0];", "mbarrier.arrive", {}),
    ("mbarrier.arrive.expect_tx.shared::cta.b64 d0, [r0], 128;", "mbarrier.arrive", {"expect_tx": "1"}),
    ("mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p0, [r0], r1, 100;", "mbarrier.try_wait", {"parity": "1"}),
    ("mbarrier.pending_count.b64 r0, d1;", "mbarrier.pending_count", {}),
    ("bra.uni END;", "bra", {}),
    ("nanosleep.u32 100;", "nanosleep", {}),
    ("trap;", "trap", {}),
    ("setmaxnreg.inc.sync.aligned.u32 64;", "setmaxnreg", {"action": "inc"}),
]


@pytest.mark.parametrize(("statement", "op", "attributes"), ACCEPTED, ids=[row[0] for row in ACCEPTED])
def test_accepted(statement: str, op: str, attributes: dict[str, str]) -> None:
    found = instruction(statement)
    assert found.op == op
    assert {key: found.attributes.get(key) for key in attributes} == attributes
    assert len(found.operands) == len(found.specs)


# As written → a part of the message.
REJECTED = [
    ("add.s32 r0, r1;", "expects 3 operands (d, a, b)"),
    ("add.s32 r0, f1, r2;", "operand 'a': a .f32 register where .s32 is expected"),
    ("add.s32 d0, r1, r2;", "operand 'd': a .b64 register"),
    ("add.s32 5, r1, r2;", "a destination must be a register"),
    ("add.s32 _, r1, r2;", "a destination must be a register"),
    ("add.s32 r0, %tid.x, r2;", "only mov and cvt read special registers"),
    ("add.f32 f0, f1, 2;", "an integer literal where .f32 is expected"),
    ("add.s32 r0, r1, 0f3F800000;", "an f32 literal where .s32 is expected"),
    ("add.f16 h0, h1, 1;", "an integer literal where .f16 is expected"),
    ("mov.u32 r0, f1;", "a .f32 register where .u32 is expected"),
    ("mov.b64 d0, {r1, r2, r3};", "mov.b64"),
    ("and.b32 r0, !r1, r2;", "'!' needs a predicate"),
    ("selp.b32 r0, r1, r2, r3;", "a .b32 register where .pred is expected"),
    ("setp.lt.s32 r0, r1, r2;", "a .b32 register where .pred is expected"),
    ("setp.lt.s32 p0|r1, r1, r2;", "the second of a pair must be a predicate"),
    ("add.s32 r0|p1, r1, r2;", "cannot be a pair"),
    ("elect.sync r0, -1;", "the first operand must be a pair"),
    ("ld.global.u32 r0, [smem];", "a variable in .shared where the instruction accesses .global"),
    ("ld.shared.u32 r0, smem;", "expected an address in brackets"),
    ("ld.shared.u32 r0, [f1];", "a .f32 register cannot be an address"),
    ("ld.shared.u32 h0, [r1];", "a .b16 register where .u32 is expected"),
    ("ld.shared.v4.u32 {r0, r1}, [r1];", "expected a vector of 4 .u32, found a vector of 2"),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 r0, [r1];", "expected a vector of 1 .b32"),
    ("ld.global.L2::cache_hint.b32 r0, [d1];", "expects 3 operands"),
    ("ld.global.b32 r0, [d1], d2;", "expects 2 operands"),
    ("cp.async.cg.shared.global [r0], [d1], 8;", "operand 'size' must be 16, found 8"),
    ("cp.async.ca.shared.global [r0], [d1], 12;", "operand 'size' must be 4 or 8 or 16, found 12"),
    ("cp.async.ca.shared.global [r0], [smem], 16;", "a variable in .shared where the instruction accesses .global"),
    ("bra r1;", "expected a label"),
    ("bra NOWHERE;", "undefined register, variable or label 'NOWHERE'"),
    ("add.s32 r0, r1, r99;", "undefined register, variable or label 'r99'"),
    ("ld.shared.u32 r0, [nothing];", "undefined register or variable 'nothing'"),
    ("@r1 bra END;", "is no predicate"),
    ("@nope bra END;", "undefined predicate"),
    ("add.s32 r0, r1, r2", "expected ';'"),
    ("add.s32 r0, r1, ;", "expected a constant"),
    ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {f0,f1,f2}, {r0,r1}, {r2}, {f0,f1,f2,f3};", "vector of 4 .f32"),
]


@pytest.mark.parametrize(("statement", "message"), REJECTED, ids=[row[0] for row in REJECTED])
def test_rejected(statement: str, message: str) -> None:
    with pytest.raises(PtxSyntaxError, match=re.escape(message)) as caught:
        instruction(statement)
    assert caught.value.place is not None
    assert caught.value.hint


REFUSED = [
    ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0}, d0, d1, p, 1, 1, 0, 0;", "wgmma"),
    ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [r0], 32;", "tcgen05"),
    ("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier [r0], [d1, {r1, r2}], [r3];", "TMA"),
    ("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0}, {r0}, {r1}, {f0}, r2, 0;", "sparse"),
    ("clusterlaunchcontrol.try_cancel.async.b128 [r0], [r1];", "queue of clusters"),
    ("tex.2d.v4.f32.f32 {f0, f1, f2, f3}, [t, {f0, f1}];", "textures"),
    ("suld.b.2d.b32 r0, [s, {r0, r1}];", "textures"),
    ("alloca.u64 d0, 16;", "stack"),
    ("multimem.ld_reduce.global.add.f32 f0, [d0];", "multimem"),
    ("vset4.u32.u32.eq r0, r1, r2, r3;", "video"),
    ("shfl.idx.b32 r0, r1, 0, 31;", "lacks .sync"),
    ("frobnicate.b32 r0, r1;", "unknown instruction 'frobnicate'"),
    ("add.frob.s32 r0, r1, r2;", "this combination of modifiers of 'add'"),
]


@pytest.mark.parametrize(("statement", "reason"), REFUSED, ids=[row[0].split()[0] for row in REFUSED])
def test_refused_only_when_reached(statement: str, reason: str) -> None:
    found = instruction(statement)
    assert found.op == "unsupported"
    assert reason in found.attributes["reason"]
    assert found.text in found.attributes["reason"]


TOO_NEW = [
    ("cp.async.wait_all;", "sm_75", "9.0", "needs sm_80 or newer, this PTX is for sm_75"),
    ("redux.sync.add.s32 r0, r1, -1;", "sm_75", "9.0", "needs sm_80"),
    ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [r0], {r1};", "sm_89", "9.0", "needs sm_90"),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r0}, [r1];", "sm_75", "6.0", "needs PTX 6.5 or newer, this is 6.0"),
    ("cvt.rn.satfinite.e4m3x2.f32 h0, f1, f2;", "sm_80", "9.0", "needs sm_89"),
]


@pytest.mark.parametrize(("statement", "target", "version", "message"), TOO_NEW, ids=[row[0] for row in TOO_NEW])
def test_first_target_and_version(statement: str, target: str, version: str, message: str) -> None:
    with pytest.raises(PtxSyntaxError, match=message):
        instruction(statement, target=target, version=version)
    assert instruction(statement, target="sm_121a").op != "unsupported"


def test_carry_flag_is_an_operand() -> None:
    add = instruction("add.cc.u32 r0, r1, r2;")
    assert [spec.role for spec in add.specs] == ["d", "a", "b", "cc_out"]
    assert add.operand("cc_out") == Register("%cc", "pred")
    both = instruction("madc.hi.cc.u32 r0, r1, r2, r3;")
    assert both.op == "madc.hi.cc.u32"
    assert [(spec.role, spec.access) for spec in both.specs[-2:]] == [("cc_out", Access.WRITE), ("cc_in", Access.READ)]
    assert both.operands[-2:] == (Register("%cc", "pred"),) * 2


def test_operand_kinds() -> None:
    pair = instruction("setp.lt.and.s32 p0|p1, r1, r2, !p3;")
    assert pair.operands[0] == OperandPair(Register("p0", "pred"), Register("p1", "pred"))
    assert pair.operand("c") == Predicate(Register("p3", "pred"), True)
    assert instruction("mov.u64 d0, smem+16;").operand("a") == SymbolAddress("smem", 16)
    vector = instruction("ld.shared.v2.f32 {f0, _}, [smem+8];").operand("d")
    assert isinstance(vector, Vector)
    assert len(vector.elements) == 2


MODIFIER_ORDERS = ["sync", "aligned", "m8n8", "x2", "trans", "shared", "b16"]


def test_modifiers_match_in_any_order() -> None:
    expected = {"shape": "m8n8", "num": "x2", "trans": "1", "space": "shared", "type": "b16"}
    for order in itertools.permutations(MODIFIER_ORDERS):
        (found,) = lookup(".".join(("ldmatrix", *order)))
        assert dict(found.attributes) == expected


def test_types_keep_their_order() -> None:
    assert lookup("cvt.rn.f16.f32")[0].op == "cvt.f16.f32"
    assert lookup("cvt.f32.f16")[0].op == "cvt.f32.f16"
    assert lookup("cvt.f32.rn.f64")[0].op == "cvt.f32.f64"


def _expansions(limit: int) -> list[tuple[str, str]]:
    found = []
    for forms in rows().values():
        for row in forms:
            choices = [[*slot.choices] for slot in row.slots]
            for words in itertools.islice(itertools.product(*choices), limit):
                resolved = row.match((*row.literals, *words))
                if resolved is not None:
                    found.append((".".join((row.opcode, *row.literals, *words)), row.syntax))
    return found


def test_rows_that_match_the_same_text_differ_in_operands() -> None:
    for text, _ in _expansions(40):
        signatures = [
            (*((spec.type, spec.count, spec.role in found.vectors) for spec in found.specs), found.optional)
            for found in lookup(text)
        ]
        assert len(signatures) == len(set(signatures)), text


def test_every_row_can_be_reached() -> None:
    reached = {syntax for text, syntax in _expansions(10) if lookup(text)}
    hidden = {row.syntax for forms in rows().values() for row in forms} - reached
    assert not hidden


MALFORMED = [
    ("add.s32 d, a b", {}, "malformed operand"),
    ("add..s32 d, a, b", {}, "malformed modifiers"),
    ("add.s32 d, a, b", {"mode": "x y"}, "choices without a slot"),
]


@pytest.mark.parametrize(("syntax", "choices", "message"), MALFORMED, ids=[row[2] for row in MALFORMED])
def test_malformed_rows_fail_when_made(syntax: str, choices: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        form(syntax, slots=choices)


def test_malformed_since_fails_when_made() -> None:
    with pytest.raises(ValueError, match="malformed since"):
        form("add.s32 d, a, b", since="Hopper")


def test_refusal_names_the_instruction() -> None:
    assert refusal("wgmma.fence.sync.aligned").startswith("wgmma.fence.sync.aligned: wgmma")
