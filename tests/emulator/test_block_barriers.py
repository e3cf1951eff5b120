"""Barriers of a block: whole, named, with counts, with reductions, in divergent code, and never reached."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import result, run

from wmmadiag.emulator import EmulatorOptions
from wmmadiag.errors import KernelFault, PtxSyntaxError

STORE = "st.global.b32 [%to], %r1;"
# %rd2: this thread's word of a shared array; %rd3: that of thread `255 - tid`.
EXCHANGE = """.shared .align 4 .b32 s[256]; mov.u64 %rd1, s; mad.wide.u32 %rd2, %tid, 4, %rd1;
        sub.u32 %r9, 255, %tid; mad.wide.u32 %rd3, %r9, 4, %rd1;
st.shared.b32 [%rd2], %tid; """
READ = "ld.shared.b32 %r1, [%rd3];" + STORE


@pytest.mark.parametrize("order", [(), tuple(reversed(range(8))), (3, 0, 7, 1, 6, 2, 5, 4)])
@pytest.mark.parametrize(
    "barrier",
    [
        "bar.sync 0;",
        "barrier.sync 0;",
        "bar.cta.sync 3;",
        "barrier.cta.sync.aligned 15;",
        "mov.u32 %r5, 7; bar.sync %r5;",
        "bar.sync 1, 256;",
    ],
)
def test_what_was_stored_before_is_seen_after(barrier, order):
    out = result(EXCHANGE + barrier + READ, block=256, options=EmulatorOptions(threads=1, warp_order=order))
    assert out.tolist() == list(range(255, -1, -1))


def test_without_the_barrier_the_poison_is_seen():
    assert result(EXCHANGE + READ, block=256).tolist() != list(range(255, -1, -1))


def test_again_and_again():
    body = (
        EXCHANGE
        + "mov.u32 %r2, 0; L: bar.sync 0; ld.shared.b32 %r1, [%rd3]; bar.sync 0; add.u32 %r1, %r1, 1; st.shared.b32"
        " [%rd2], %r1; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 9; @%p1 bra L;"
    )
    out = result(body + STORE, block=256)
    # Values swap and grow by one each round.
    assert out.tolist() == [255 - t + 9 for t in range(256)]


def test_warps_that_have_exited_are_not_waited_for():
    out = result("setp.ge.u32 %p1, %tid, 64; @%p1 exit; bar.sync 0; mov.u32 %r1, 1;" + STORE, block=128)
    assert out.tolist() == [1] * 64 + [0] * 64


def test_warps_that_exit_later_release_the_waiting_ones():
    body = (
        "setp.lt.u32 %p1, %tid, 64; @%p1 bra W; mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 100;"
        " @%p2 bra L; exit; W: bar.sync 0; mov.u32 %r1, 1;"
    )
    assert result(body + STORE, block=128).tolist() == [1] * 64 + [0] * 64


def test_lanes_that_have_exited_count_with_their_warp():
    """A barrier with a count: a warp of which some lanes are gone arrives as a whole warp."""
    body = "and.b32 %r2, %tid, 31; setp.gt.u32 %p1, %r2, 9; @%p1 exit; bar.sync 2, 64; mov.u32 %r1, 1;"
    assert result(body + STORE, block=64).reshape(2, 32).tolist() == [[1] * 10 + [0] * 22] * 2


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0)])
def test_producers_arrive_and_consumers_wait(order):
    """Two warps fill a buffer and only arrive, two wait for full; `empty` goes the other way round. Five rounds."""
    out = result(
        """.shared .align 4 .b32 s[64]; mov.u64 %rd1, s; and.b32 %r2, %tid, 63;
        mad.wide.u32 %rd2, %r2, 4, %rd1; mov.u32 %r3, 0; mov.u32 %r1, 0; setp.lt.u32 %p1, %tid, 64; @%p1 bra C;
        P: bar.sync 2, 128; mad.lo.u32 %r4, %r3, 1000, %r2; st.shared.b32 [%rd2], %r4; bar.arrive 1, 128;
        add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 5; @%p2 bra P; bra E;
        C: bar.arrive 2, 128; bar.sync 1, 128; ld.shared.b32 %r4, [%rd2]; add.u32 %r1, %r1, %r4;
        add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 5; @%p2 bra C;
        E:"""
        + STORE,
        block=128,
        options=EmulatorOptions(threads=1, warp_order=order),
    )
    assert out.tolist() == [10000 + 5 * t for t in range(64)] + [0] * 64


@pytest.mark.parametrize("below", [0, 1, 40, 95, 96])
def test_reductions(below):
    body = (
        f"setp.lt.u32 %p1, %tid, {below}; barrier.red.popc.u32 %r1, 0, %p1; bar.red.and.pred %p2, 0, %p1;"
        " bar.red.or.pred %p3, 1, %p1; bar.red.popc.u32 %r5, 2, 96, !%p1; bar.red.and.pred %p4, 0, !%p1;selp.b32"
        " %r2, 1000, 0, %p2; selp.b32 %r3, 10000, 0, %p3; selp.b32 %r4, 100000, 0, %p4; add.u32 %r1, %r1, %r2;"
        " add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r4; mad.lo.u32 %r1, %r5, 1000000, %r1;"
    )
    expected = below + 1000 * (below == 96) + 10000 * (below > 0) + 100000 * (below == 0) + 1000000 * (96 - below)
    assert result(body + STORE, block=96).tolist() == [expected] * 96


def test_reduction_in_a_block_of_no_whole_warps():
    assert result("setp.ne.u32 %p1, %tid, 3; bar.red.popc.u32 %r1, 0, %p1;" + STORE, block=40).tolist() == [39] * 40


def test_in_divergent_code_the_halves_of_a_warp_meet_at_the_barrier():
    body = (
        EXCHANGE
        + "and.b32 %r2, %tid, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra A; bar.sync 0; bra J; A: barrier.sync 0; J:"
        + READ
    )
    assert result(body, block=256).tolist() == list(range(255, -1, -1))


def test_two_barriers_of_two_groups():
    body = (
        "setp.lt.u32 %p1, %tid, 64; @%p1 bra A; bar.sync 1, 64; mov.u32 %r1, 1; bra J; A: bar.sync 2, 64; mov.u32"
        " %r1, 2; J:"
    )
    assert result(body + STORE, block=128).tolist() == [2] * 64 + [1] * 64


# Deadlocks and misuse


def fault(body: str, block: int = 64, **how) -> KernelFault:
    with pytest.raises(KernelFault) as error:
        run(body, np.zeros(block, np.uint32), block=block, **how)
    return error.value


@pytest.mark.parametrize(
    ("body", "waiting"),
    [
        pytest.param(
            "setp.lt.u32 %p1, %tid, 32; @%p1 bar.sync 1; bar.sync 0;",
            ["warp 0, lanes 0xffffffff: waits at barrier 1", "warp 1, lanes 0xffffffff: waits at barrier 0"],
            id="different",
        ),
        pytest.param(
            "bar.sync 1, 96;",
            ["warp 0, lanes 0xffffffff: waits at barrier 1", "warp 1, lanes 0xffffffff: waits at barrier 1"],
            id="count-too-large",
        ),
        pytest.param(
            "setp.lt.u32 %p1, %tid, 16; @%p1 bra A; bar.sync 0; bar.sync 0; bra E; A: bar.sync 0; bar.sync 1; E:",
            [
                "warp 0, lanes 0x0000ffff: waits at barrier 1",
                "warp 0, lanes 0xffff0000: waits at barrier 0",
                "warp 1, lanes 0xffffffff: waits at barrier 0",
            ],
            id="lanes-part",
        ),
        pytest.param(
            "setp.lt.u32 %p1, %tid, 32; @%p1 bra A; bar.sync 1, 64; A: ret;",
            ["warp 1, lanes 0xffffffff: waits at barrier 1"],
            id="one-has-left",
        ),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_barrier_that_not_all_reach_is_a_deadlock(body, waiting, threads):
    error = fault(body, grid=2, options=EmulatorOptions(threads=threads))
    assert error.kind == "deadlock" and error.block == (0, 0, 0)
    for words in waiting:
        assert words in error.detail
    assert error.detail.count("waits at") == len(waiting)


def test_barrier_number_out_of_range():
    error = fault("add.u32 %r1, %n1, 16; bar.sync %r1;".replace("%n1", "%cta"))
    assert error.kind == "bad-operand"


def test_different_counts_at_one_barrier():
    error = fault(
        "setp.lt.u32 %p1, %tid, 32; mov.u32 %r1, 64; @%p1 mov.u32 %r1, 32; shr.u32 %r2, %tid, 5; setp.eq.u32 %p2,"
        " %r2, 0; @%p2 bar.sync 1, 96; @!%p2 bar.sync 1, 64;"
    )
    assert error.kind == "bad-operand"


@pytest.mark.parametrize("operation", ["bar.sync 1, 33;", "bar.sync 1, 0;", "bar.sync 16;"])
def test_a_literal_that_can_be_no_barrier_is_a_syntax_error(operation):
    with pytest.raises((PtxSyntaxError, KernelFault)):
        run(operation, np.zeros(64, np.uint32), block=64)


@pytest.mark.parametrize("count", [0, 33])
def test_a_count_of_no_whole_warps_in_a_register(count):
    assert fault(f"mov.u32 %r1, {count}; bar.sync 1, %r1;").kind == "bad-operand"


def test_lanes_that_disagree_on_the_barrier():
    assert fault("and.b32 %r1, %tid, 1; bar.sync %r1;").kind == "bad-operand"
