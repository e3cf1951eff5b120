"""Lanes that part and meet again; lanes, warps and blocks that wait for each other."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, module, result, run

from wmmadiag.emulator import Budget, EmulatorOptions, load, select_control
from wmmadiag.errors import KernelFault, PtxSyntaxError, UnsupportedError
from wmmadiag.launch import Launch

LANE = np.arange(32, dtype=np.uint32)
STORE = "st.global.b32 [%to], %r1;"


def instructions(body: str, *arguments, **how) -> int:
    """Warp instructions that a body takes beyond those around it."""
    out = np.zeros(1024, np.uint32)
    empty = run("", out, *arguments, **how).warp_instructions
    return run(body, out, *arguments, **how).warp_instructions - empty


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "setp.lt.u32 %p1, %lane, 7; @%p1 bra A; mov.u32 %r1, 1; bra B; A: mov.u32 %r1, 2; B:",
            np.where(LANE < 7, 2, 1),
            id="if-else",
        ),
        pytest.param(
            "mov.u32 %r1, 1; setp.lt.u32 %p1, %lane, 7; @%p1 mov.u32 %r1, 5;",
            np.where(LANE < 7, 5, 1),
            id="predicated",
        ),
        pytest.param(
            "mov.u32 %r1, 1; setp.lt.u32 %p1, %lane, 7; @!%p1 mov.u32 %r1, 5;",
            np.where(LANE < 7, 1, 5),
            id="predicated-not",
        ),
        pytest.param(
            "mov.u32 %r1, 0; mov.u32 %r2, 0; L: setp.ge.u32 %p1, %r2, %lane; @%p1 bra E; add.u32 %r1, %r1, %r2;"
            " add.u32 %r2, %r2, 1; bra L; E:",
            LANE * (LANE - 1) // 2,
            id="trip-counts",
        ),
        pytest.param(
            "mov.u32 %r1, 0; mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; and.b32 %r3, %r2, 1; setp.eq.u32 %p1, %r3, 0;"
            " @%p1 bra C;setp.gt.u32 %p2, %r2, %lane; @%p2 bra E; add.u32 %r1, %r1, %r2; C: setp.lt.u32 %p3, %r2,"
            " 40; @%p3 bra L; E:",
            [sum(i for i in range(1, 41, 2) if i <= lane) for lane in range(32)],
            id="break-continue",
        ),
        pytest.param(
            "mov.u32 %r1, 4; st.global.b32 [%to], %r1; setp.gt.u32 %p1, %lane, 9; @%p1 ret; mov.u32 %r1, 6;",
            np.where(LANE > 9, 4, 6),
            id="early-return",
        ),
        pytest.param(
            "mov.u32 %r1, 4; st.global.b32 [%to], %r1; setp.gt.u32 %p1, %lane, 9; @%p1 exit; mov.u32 %r1, 6;",
            np.where(LANE > 9, 4, 6),
            id="early-exit",
        ),
        pytest.param(
            "T: .branchtargets A, B, C; rem.u32 %r2, %lane, 3; mov.u32 %r1, 0; brx.idx %r2, T; A: add.u32 %r1, %r1,"
            " 1; B: add.u32 %r1, %r1, 10; C: add.u32 %r1, %r1, 100;",
            np.array([111, 110, 100])[LANE % 3],
            id="switch-falls-through",
        ),
        pytest.param(
            "T: .branchtargets A, B; setp.lt.u32 %p1, %lane, 4; mov.u32 %r1, 0; and.b32 %r2, %lane, 1; @%p1 brx.idx"
            " %r2, T; A: add.u32 %r1, %r1, 1; B: add.u32 %r1, %r1, 10;",
            np.where((LANE < 4) & (LANE % 2 == 1), 10, 11),
            id="guarded-switch-whose-target-follows",
        ),
        pytest.param(  # two loops with two entries: no single head
            "mov.u32 %r1, 0; setp.lt.u32 %p1, %lane, 16; @%p1 bra X; Y: add.u32 %r1, %r1, 3; X: add.u32 %r1, %r1,"
            " 1; setp.lt.u32 %p2, %r1, 20; @%p2 bra Y;",
            [
                next(r for r in ([1 + 4 * k for k in range(9)] if lane < 16 else range(4, 36, 4)) if r >= 20)
                for lane in range(32)
            ],
            id="irreducible",
        ),
        pytest.param("mov.u32 %r1, 9; @%p1 bra A; A: bra B; B:", np.full(32, 9), id="branch-to-the-next"),
    ],
)
def test_each_lane_goes_its_own_way(body, expected):
    assert result(body + STORE).tolist() == np.asarray(expected, np.uint32).tolist()


def test_three_nested_conditions():
    body = (
        "mov.u32 %r1, 0;"
        + "".join(
            f"and.b32 %r2, %lane, {1 << i}; setp.ne.u32 %p{i + 1}, %r2, 0; @!%p{i + 1} bra E{i}; add.u32 %r1, %r1,"
            f" {10**i};"
            for i in range(5)
        )
        + "".join(f"E{i}: add.u32 %r1, %r1, {10 ** (5 + min(i, 3))};" for i in reversed(range(5)))
    )

    def one(lane):
        r = 0
        inside = 5
        for i in range(5):
            if not lane >> i & 1:
                inside = i
                break
            r += 10**i
        return r + sum(10 ** (5 + min(i, 3)) for i in range(5) if i <= min(inside, 4))

    assert result(body + STORE).tolist() == [one(lane) for lane in range(32)]


JOIN = "add.u32 %r3, %r3, 1;" * 10
"""Ten instructions that a warp executes once if its lanes are together."""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "setp.lt.u32 %p1, %lane, 7; @%p1 bra A; mov.u32 %r1, 1; bra B; A: mov.u32 %r1, 2; B:" + JOIN,
            2 + 2 + 1 + 10,
            id="if-else",
        ),
        pytest.param("setp.lt.u32 %p1, %lane, 7; @%p1 bra A; mov.u32 %r1, 1; A:" + JOIN, 3 + 10, id="if"),
        pytest.param(
            "mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.le.u32 %p1, %r2, %lane; @%p1 bra L;" + JOIN,
            1 + 3 * 32 + 10,
            id="loop",
        ),
        pytest.param(  # the taken side lies behind the join in the text
            "setp.lt.u32 %p1, %lane, 7; @%p1 bra A; B:" + JOIN + "bra E; A: mov.u32 %r1, 2; bra B; E:",
            2 + 2 + 10 + 1,
            id="outlined",
        ),
        pytest.param(  # the inner loop's exits meet before the outer loop goes round
            "mov.u32 %r4, 0; O: mov.u32 %r2, 0; I: add.u32 %r2, %r2, 1; setp.le.u32 %p1, %r2, %lane; @%p1 bra I;"
            + JOIN
            + "add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 3; @%p2 bra O;",
            1 + 3 * (1 + 96 + 10 + 3),
            id="loop-in-loop",
        ),
        pytest.param(  # a continue that half of the lanes take
            "mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; add.u32 %r5, %r2, %lane; and.b32 %r5, %r5, 1; setp.ne.u32 %p1,"
            " %r5, 0; @%p1 bra C;" + JOIN + "C: setp.lt.u32 %p2, %r2, 8; @%p2 bra L;",
            1 + 8 * (5 + 10 + 2),
            id="continue",
        ),
        pytest.param(
            "T: .branchtargets A, B, C, D; and.b32 %r2, %lane, 3; brx.idx %r2, T; A: bra E; B: bra E; C: bra E;"
            " D: E:" + JOIN,
            2 + 3 + 10,
            id="switch",
        ),
        pytest.param("setp.lt.u32 %p1, %lane, 7; @%p1 ret;" + JOIN, 2 + 10, id="return"),
    ],
)
def test_lanes_meet_at_the_earliest_point(body, expected):
    # An added jump or two is no loss of convergence; a second pass over the join is.
    assert expected <= instructions(body) <= expected + 4


def test_lanes_of_one_warp_take_a_lock_in_turn():
    lock, count = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    run(
        """L: atom.global.cas.b32 %r1, [%a0], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra L;
        ld.global.b32 %r2, [%a1]; add.u32 %r2, %r2, 1; st.global.b32 [%a1], %r2; membar.gl;
        atom.global.exch.b32 %r3, [%a0], 0;""",
        lock,
        count,
        block=64,
        options=EmulatorOptions(threads=1, budget=Budget(seconds=20)),
    )
    assert (lock[0], count[0]) == (0, 64)


def test_a_lane_waits_for_a_flag_that_a_later_lane_sets():
    out = result(
        """.shared .align 4 .b32 flag; setp.eq.u32 %p1, %lane, 0; @%p1 st.shared.b32 [flag], 0;
        bar.warp.sync 0xffffffff;
        setp.eq.u32 %p2, %lane, 31; @%p2 bra S;
        W: ld.volatile.shared.b32 %r1, [flag]; setp.eq.u32 %p3, %r1, 0; @%p3 bra W; bra E;
        S: st.volatile.shared.b32 [flag], 5; mov.u32 %r1, 6; E: st.global.b32 [%to], %r1;""",
        options=EmulatorOptions(threads=1, budget=Budget(seconds=20)),
    )
    assert out.tolist() == [5] * 31 + [6]


@pytest.mark.parametrize("order", [(), (1, 0, 3, 2), (3, 2, 1, 0)])
def test_warps_wait_for_the_warp_after_them(order):
    """Each warp spins until the next one has set its flag: the last one starts the chain."""
    out = result(
        """.shared .align 4 .b32 flags[5]; shr.u32 %r2, %tid, 5; mov.u64 %rd1, flags;
        mad.wide.u32 %rd1, %r2, 4, %rd1;
        setp.eq.u32 %p1, %lane, 0; @%p1 st.shared.b32 [%rd1], 0; setp.eq.u32 %p2, %r2, 3; bar.sync 0; @%p2 bra S;
        W: ld.volatile.shared.b32 %r1, [%rd1+4]; setp.eq.u32 %p3, %r1, 0; @%p3 bra W;
        S: @%p2 mov.u32 %r1, 0; add.u32 %r1, %r1, 1; st.volatile.shared.b32 [%rd1], %r1;
        st.global.b32 [%to], %r1;""",
        block=128,
        options=EmulatorOptions(threads=1, warp_order=order, budget=Budget(seconds=20)),
    )
    assert out.reshape(4, 32).tolist() == [[4 - w] * 32 for w in range(4)]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_blocks_wait_for_the_last_one(threads):
    out, flag = np.zeros(4 * 32, np.uint32), np.zeros(1, np.uint32)
    run(
        """setp.eq.u32 %p1, %cta, 3; @%p1 bra S; W: ld.volatile.global.b32 %r1, [%a1]; setp.eq.u32 %p2, %r1, 0;
        @%p2 bra W;
        st.global.b32 [%to], %r1; ret; S: st.global.b32 [%a1], 7; st.global.b32 [%to], 9;""",
        out,
        flag,
        grid=4,
        options=EmulatorOptions(threads=threads, budget=Budget(seconds=30)),
    )
    assert out.reshape(4, 32).tolist() == [[7] * 32] * 3 + [[9] * 32]


FUNCTIONS = """
.func (.param .b32 r) twice (.param .b32 a) { .reg .b32 %r<3>; ld.param.b32 %r1, [a]; add.u32 %r2, %r1, %r1;
st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) collatz (.param .b32 a)
{ .reg .b32 %r<5>; .reg .pred %p<3>; ld.param.b32 %r1, [a]; mov.u32 %r2, 0;
L: setp.le.u32 %p1, %r1, 1; @%p1 bra E; and.b32 %r3, %r1, 1; setp.eq.u32 %p2, %r3, 0; add.u32 %r2, %r2, 1;
@%p2 bra H;
mad.lo.u32 %r1, %r1, 3, 1; bra L; H: shr.u32 %r1, %r1, 1; bra L;
E: { .param .b32 x; .param .b32 y; st.param.b32 [x], %r2; call.uni (y), twice, (x); ld.param.b32 %r4, [y];
} st.param.b32 [r], %r4; ret; }
.func (.reg .b32 %d) early (.reg .b32 %a) { .reg .pred %p<2>; setp.lt.u32 %p1, %a, 8; mov.u32 %d, 1; @%p1 ret;
mov.u32 %d, 2; ret; }
"""


def collatz(n: int) -> int:
    steps = 0
    while n > 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return 2 * steps


def test_nested_calls_with_loops_of_different_length():
    call = (
        "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %lane; call.uni (y), collatz, (x); ld.param.b32 %r1, [y]; }"
    )
    assert result(call + STORE, globals=FUNCTIONS).tolist() == [collatz(lane) for lane in range(32)]


def test_guarded_call_and_return_in_the_middle():
    body = "mov.u32 %r1, 5; setp.lt.u32 %p1, %lane, 20; @%p1 call (%r1), early, (%lane);"
    assert result(body + STORE, globals=FUNCTIONS).tolist() == [1] * 8 + [2] * 12 + [5] * 12


def test_lanes_meet_after_a_return_in_the_middle_of_a_function():
    call = "call (%r1), early, (%lane);"
    assert instructions(call + JOIN, globals=FUNCTIONS) <= 10 + 9


def chain(depth: int) -> str:
    last = f".func (.reg .b32 %d) f{depth} (.reg .b32 %a) {{ add.u32 %d, %a, 1; ret; }}\n"
    return last + "".join(
        f".func (.reg .b32 %d) f{i} (.reg .b32 %a) {{ call (%d), f{i + 1}, (%a); ret; }}\n"
        for i in reversed(range(depth))
    )


def test_call_depth():
    assert result("call (%r1), f0, (%lane);" + STORE, globals=chain(60)).tolist() == (LANE + 1).tolist()
    with pytest.raises(UnsupportedError, match="deep"):
        kernel("call (%r1), f0, (%lane);", globals=chain(600))


def test_calls_that_double_at_each_level_are_refused(monkeypatch):
    monkeypatch.setattr(select_control, "_INLINE_LIMIT", 5000)  # the real limit takes a second
    levels = "".join(
        f".func (.reg .b32 %d) g{i} (.reg .b32 %a) {{ .reg .b32 %t; call (%t), g{i + 1}, (%a); call (%d), g{i + 1},"
        " (%t); ret; }\n"
        for i in reversed(range(30))
    )
    with pytest.raises(UnsupportedError, match="expand"):
        kernel(
            "call (%r1), g0, (%lane);",
            globals=".func (.reg .b32 %d) g30 (.reg .b32 %a) { add.u32 %d, %a, 1; ret; }\n" + levels,
        )


def test_switch_beyond_its_targets_faults():
    with pytest.raises(KernelFault) as error:
        run("T: .branchtargets A, B; shr.u32 %r2, %lane, 3; brx.idx %r2, T; A: B:", np.zeros(32, np.uint32))
    assert (error.value.kind, error.value.lane) == ("bad-operand", 16)


def test_branch_to_an_unknown_label_is_a_syntax_error():
    with pytest.raises(PtxSyntaxError):
        kernel("bra NOWHERE;")


def test_partial_warps_and_three_dimensions():
    out = np.zeros((2, 3, 5), np.uint32)
    ptx = module(
        """mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mad.lo.u32 %r4, %r3, 3, %r2;
        mad.lo.u32 %r4, %r4, 5, %r1;
        mad.wide.u32 %rd1, %r4, 4, %a0; mad.lo.u32 %r5, %r3, 100, %r1; mad.lo.u32 %r5, %r2, 10, %r5;
        st.global.b32 [%rd1], %r5;""",
        preset=False,
    )
    load(ptx, options=EmulatorOptions(threads=1)).launch(Launch((1, 1, 1), (5, 3, 2), [out]))
    z, y, x = np.indices(out.shape)
    assert (out == 100 * z + 10 * y + x).all()


def test_special_registers():
    names = [
        "%tid.x",
        "%ntid.x",
        "%ctaid.x",
        "%nctaid.x",
        "%laneid",
        "%warpid",
        "%nwarpid",
        "%lanemask_eq",
        "%lanemask_lt",
        "%lanemask_le",
        "%lanemask_gt",
        "%lanemask_ge",
    ]
    expected = [
        lambda t, c: t,
        lambda t, c: 70,
        lambda t, c: c,
        lambda t, c: 2,
        lambda t, c: t % 32,
        lambda t, c: t // 32,
        lambda t, c: 3,
        lambda t, c: 1 << t % 32,
        lambda t, c: (1 << t % 32) - 1,
        lambda t, c: (2 << t % 32) - 1,
        lambda t, c: ~((2 << t % 32) - 1),
        lambda t, c: ~((1 << t % 32) - 1),
    ]
    for name, value in zip(names, expected, strict=True):
        want = [value(t, c) & 0xFFFFFFFF for c in range(2) for t in range(70)]
        assert result(f"mov.u32 %r1, {name};" + STORE, grid=2, block=70).tolist() == want, name
