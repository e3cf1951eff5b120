"""Exchange between lanes, against the pseudo-code of the PTX ISA."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_kernels import kernel, result, run

from wmmadiag.emulator import EmulatorOptions
from wmmadiag.errors import KernelFault
from wmmadiag.launch import Launch

LANE = np.arange(32, dtype=np.uint32)
STORE = "st.global.b32 [%to], %r1;"
FULL = 0xFFFFFFFF
words = st.lists(st.integers(0, FULL), min_size=32, max_size=32)
few = settings(max_examples=60, deadline=None)


def lanes(mask: int) -> list[int]:
    return [lane for lane in range(32) if mask >> lane & 1]


def load_words(count: int) -> str:
    """The lane's word of arrays 1, 2, … in %r1, %r2, …."""
    return "".join(f"mad.wide.u32 %rd1, %lane, 4, %a{i}; ld.global.b32 %r{i}, [%rd1];" for i in range(1, count + 1))


def arrays(*values: list[int]) -> list[np.ndarray]:
    return [np.array(value, np.uint32) for value in values]


def shuffle(mode: str, a: list[int], b: list[int], c: list[int]) -> tuple[list[int], list[int]]:
    """PTX ISA, "shfl.sync", its pseudo-code line by line, all lanes active."""
    d, p = [], []
    for lane in range(32):
        bval, cval, mask = b[lane] & 0x1F, c[lane] & 0x1F, c[lane] >> 8 & 0x1F
        max_lane = (lane & mask) | (cval & ~mask & 0x1F)
        min_lane = lane & mask
        if mode == "up":
            j, pval = lane - bval, lane - bval >= max_lane
        elif mode == "down":
            j, pval = lane + bval, lane + bval <= max_lane
        elif mode == "bfly":
            j, pval = lane ^ bval, lane ^ bval <= max_lane
        else:
            j = min_lane | (bval & ~mask & 0x1F)
            pval = j <= max_lane
        d.append(a[j if pval else lane])
        p.append(int(pval))
    return d, p


KERNELS = {
    mode: kernel(
        load_words(3) + f"shfl.sync.{mode}.b32 %r4|%p1, %r1, %r2, %r3, {FULL};"
        "st.global.b32 [%to], %r4; selp.b32 %r5, 1, 0, %p1; st.global.b32 [%to+128], %r5;",
        "pppp",
    )
    for mode in ("up", "down", "bfly", "idx")
}


@pytest.mark.parametrize("mode", KERNELS)
@few
@given(words, words, words)
def test_shuffle(mode, a, b, c):
    out = np.zeros(64, np.uint32)
    KERNELS[mode].launch(Launch((1, 1, 1), (32, 1, 1), [out, *arrays(a, b, c)]))
    d, p = shuffle(mode, a, b, c)
    assert (out[:32].tolist(), out[32:].tolist()) == (d, p)


@pytest.mark.parametrize("mode", KERNELS)
@pytest.mark.parametrize("width", [2, 4, 8, 16, 32])
def test_shuffle_by_one_in_segments(mode, width):
    """As CUDA's __shfl_*_sync passes it: c = (32 - width) << 8 | (0 for up, 31 otherwise)."""
    c = (32 - width) << 8 | (0 if mode == "up" else 0x1F)
    out = np.zeros(64, np.uint32)
    KERNELS[mode].launch(Launch((1, 1, 1), (32, 1, 1), [out, *arrays((LANE * 7).tolist(), [1] * 32, [c] * 32)]))
    base = LANE // width * width
    source = {
        "up": np.where(base < LANE, LANE - 1, LANE),
        "down": np.where(base + width > LANE + 1, LANE + 1, LANE),
        "bfly": LANE ^ 1,
        "idx": base + 1,
    }[mode]
    assert out[:32].tolist() == (7 * source).tolist()


VOTE = kernel(
    load_words(2)
    + "setp.ne.u32 %p1, %r1, 0; shr.u32 %r9, %r2, %lane; and.b32 %r9, %r9, 1; setp.eq.u32 %p9, %r9, 0; @%p9 bra"
    " E;vote.sync.all.pred %p2, %p1, %r2; vote.sync.any.pred %p3, %p1, %r2; vote.sync.uni.pred %p4, %p1, %r2;"
    " vote.sync.ballot.b32 %r3, %p1, %r2; vote.sync.ballot.b32 %r4, !%p1, %r2;selp.b32 %r5, 1, 0, %p2; selp.b32"
    " %r6, 2, 0, %p3; selp.b32 %r7, 4, 0, %p4; or.b32 %r5, %r5, %r6; or.b32 %r5, %r5, %r7;st.global.b32 [%to],"
    " %r5; st.global.b32 [%to+128], %r3; st.global.b32 [%to+256], %r4; E:",
    "ppp",
)


@few
@given(st.integers(0, FULL) | st.sampled_from([0, FULL]), st.integers(1, FULL))
def test_votes_of_some_members(predicate, members):
    out = np.zeros((3, 32), np.uint32)
    votes = [predicate >> lane & 1 for lane in range(32)]
    VOTE.launch(Launch((1, 1, 1), (32, 1, 1), [out, *arrays(votes, [members] * 32)]))
    yes = predicate & members
    code = (yes == members) | 2 * (yes != 0) | 4 * (yes in (0, members))
    for lane in lanes(members):
        assert out[:, lane].tolist() == [code, yes, members & ~predicate]
    assert not any(out[:, lane].any() for lane in lanes(~members & FULL))


MATCH = kernel(
    load_words(2)
    + "shr.u32 %r9, %r2, %lane; and.b32 %r9, %r9, 1; setp.eq.u32 %p9, %r9, 0; @%p9 bra E;match.any.sync.b32 %r3,"
    " %r1, %r2; match.all.sync.b32 %r4|%p1, %r1, %r2; selp.b32 %r5, 1, 0, %p1; cvt.u64.u32 %rd2, %r1; shl.b64"
    " %rd2, %rd2, 32; match.any.sync.b64 %r6, %rd2, %r2;st.global.b32 [%to], %r3; st.global.b32 [%to+128], %r4;"
    " st.global.b32 [%to+256], %r5; st.global.b32 [%to+384], %r6; E:",
    "ppp",
)


@few
@given(
    st.lists(st.integers(0, 2), min_size=32, max_size=32) | st.integers(0, 9).map(lambda v: [v] * 32),
    st.integers(1, FULL),
)
def test_match(values, members):
    out = np.zeros((4, 32), np.uint32)
    MATCH.launch(Launch((1, 1, 1), (32, 1, 1), [out, *arrays(values, [members] * 32)]))
    here = lanes(members)
    alike = len({values[lane] for lane in here}) == 1
    for lane in here:
        same = sum(1 << other for other in here if values[other] == values[lane])
        assert out[:, lane].tolist() == [same, members if alike else 0, int(alike), same]


def signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def reduce(operation: str, values: list[int]) -> int:
    total = values[0]
    for value in values[1:]:
        total = {
            "add.s32": total + value,
            "add.u32": total + value,
            "min.u32": min(total, value),
            "max.u32": max(total, value),
            "min.s32": min(total, value, key=signed),
            "max.s32": max(total, value, key=signed),
            "and.b32": total & value,
            "or.b32": total | value,
            "xor.b32": total ^ value,
        }[operation]
    return total & FULL


OPERATIONS = ["add.s32", "add.u32", "min.u32", "max.u32", "min.s32", "max.s32", "and.b32", "or.b32", "xor.b32"]
REDUX = kernel(
    load_words(2)
    + "shr.u32 %r9, %r2, %lane; and.b32 %r9, %r9, 1; setp.eq.u32 %p9, %r9, 0; @%p9 bra E;"
    + "".join(
        f"redux.sync.{name} %r3, %r1, %r2; st.global.b32 [%to+{128 * i}], %r3;" for i, name in enumerate(OPERATIONS)
    )
    + "E:",
    "ppp",
)


@few
@given(words, st.integers(1, FULL))
def test_redux(values, members):
    out = np.zeros((len(OPERATIONS), 32), np.uint32)
    REDUX.launch(Launch((1, 1, 1), (32, 1, 1), [out, *arrays(values, [members] * 32)]))
    expected = [reduce(name, [values[lane] for lane in lanes(members)]) for name in OPERATIONS]
    for lane in lanes(members):
        assert out[:, lane].tolist() == expected


def test_elect_and_activemask():
    body = (
        "setp.lt.u32 %p1, %lane, 5; @%p1 bra E; elect.sync %r1|%p2, 0xffffffe0; selp.b32 %r2, 100, 0, %p2; add.u32"
        " %r1, %r1, %r2; activemask.b32 %r3; xor.b32 %r1, %r1, %r3;"
    )
    assert result(body + STORE + "E:").tolist() == [0] * 5 + [105 ^ 0xFFFFFFE0] + [5 ^ 0xFFFFFFE0] * 26


# Members that do not come together


def test_tiles_that_run_together_name_their_own_members():
    """What cooperative groups compile to: one instruction, another member mask in each tile."""
    mask = "and.b32 %r8, %lane, 24; mov.u32 %r9, 0xff; shl.b32 %r9, %r9, %r8;"
    assert result(mask + "shfl.sync.down.b32 %r1, %lane, 1, 0x181f, %r9;" + STORE).tolist() == [
        lane if lane % 8 == 7 else lane + 1 for lane in range(32)
    ]
    assert result(
        mask + "setp.eq.u32 %p1, %r8, 8; vote.sync.any.pred %p2, %p1, %r9; selp.b32 %r1, 1, 0, %p2;" + STORE
    ).tolist() == [int(lane // 8 == 1) for lane in range(32)]
    assert result(mask + "redux.sync.add.u32 %r1, %lane, %r9;" + STORE).tolist() == [
        sum(range(lane // 8 * 8, lane // 8 * 8 + 8)) for lane in range(32)
    ]
    bytes_of_ones = [0xFF << lane // 8 * 8 for lane in range(32)]
    assert result(mask + "match.any.sync.b32 %r1, 3, %r9;" + STORE).tolist() == bytes_of_ones
    assert result(mask + "elect.sync %r1|%p1, %r9;" + STORE).tolist() == [lane // 8 * 8 for lane in range(32)]
    assert result(mask + "bar.warp.sync %r9; mov.u32 %r1, %r9;" + STORE).tolist() == [
        0xFF << lane // 8 * 8 for lane in range(32)
    ]


@pytest.mark.parametrize("elsewhere", ["", "bra E;", "exit;"])
def test_a_lane_that_does_not_run_along_gives_nought(elsewhere):
    """Undefined in PTX, measured on an H100 (26 November 2026): lanes in another branch, returned, or not in the block.

    Of lanes that run along with other members the value is taken.
    """
    part = "" if not elsewhere else "setp.ge.u32 %p1, %lane, 20; @%p1 " + elsewhere
    for mode, source in (("down", LANE + 16), ("up", LANE - 1), ("bfly", LANE ^ 16), ("idx", LANE * 0 + 25)):
        lane_operand, clamp = {"down": (16, 31), "up": (1, 0), "bfly": (16, 31), "idx": (25, 31)}[mode]
        body = f"add.u32 %r2, %lane, 100; {part} shfl.sync.{mode}.b32 %r1, %r2, {lane_operand}, {clamp}, 0xfffff;"
        out = result(body + STORE + "E:", block=32 if elsewhere else 20)[:20]
        kept = np.where((source >= 0) & (source < 32), source, LANE)[:20]
        assert out.tolist() == [int(one) + 100 if one < 20 else 0 for one in kept], mode


def test_a_lane_that_runs_along_gives_its_value_to_other_members():
    body = "setp.lt.u32 %p1, %lane, 8; selp.b32 %r9, 0xff, 0xffffff00, %p1; shfl.sync.bfly.b32 %r1, %lane, 16, 31, %r9;"
    assert result(body + STORE).tolist() == [lane ^ 16 for lane in range(32)]


def test_tiles_that_come_one_after_the_other():
    """Tile 1 reaches the shuffle while half of tile 0 is still elsewhere."""
    body = """and.b32 %r8, %lane, 16; mov.u32 %r9, 0xffff; shl.b32 %r9, %r9, %r8; mov.u32 %r2, %lane;
    setp.lt.u32 %p1, %lane, 8; @!%p1 bra S;
    mov.u32 %r3, 0; L: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %lane; @%p2 bra L; add.u32 %r2, %r2, 1000;
    S: shfl.sync.bfly.b32 %r1, %r2, 15, 0x101f, %r9;"""
    assert result(body + STORE).tolist() == [(lane ^ 15) + (1000 if (lane ^ 15) < 8 else 0) for lane in range(32)]


def test_a_shuffle_waits_for_its_members():
    body = (
        "mov.u32 %r2, 1; setp.lt.u32 %p1, %lane, 9; @%p1 bra A; mov.u32 %r2, 2; A: shfl.sync.idx.b32 %r1, %r2, 20,"
        " 31, 0xffffffff;"
    )
    assert result(body + STORE).tolist() == [2] * 32


def test_lanes_that_have_exited_are_not_waited_for():
    body = (
        "setp.lt.u32 %p1, %lane, 9; @%p1 exit; vote.sync.ballot.b32 %r1, 1, 0xffffffff; st.global.b32 [%to], %r1;"
        " bar.warp.sync 0xffffffff;"
    )
    assert result(body).tolist() == [0] * 9 + [FULL << 9 & FULL] * 23


def test_lanes_that_exit_later_let_the_waiting_ones_go():
    body = (
        "setp.lt.u32 %p1, %lane, 9; @%p1 bra A; vote.sync.ballot.b32 %r1, 1, 0xffffffff; st.global.b32 [%to], %r1;"
        " bra E; A: mov.u32 %r2, 5; exit; E:"
    )
    assert result(body).tolist() == [0] * 9 + [FULL << 9 & FULL] * 23


def test_warp_barrier_across_branches():
    """bar.warp.sync on both sides of an if is one barrier: what the others stored before it can be read after it."""
    out = result(
        """.shared .align 4 .b32 s[32]; mov.u64 %rd1, s; mad.wide.u32 %rd1, %lane, 4, %rd1;
        setp.lt.u32 %p1, %lane, 16; @%p1 bra A;
        add.u32 %r2, %lane, 100; st.shared.b32 [%rd1], %r2; bar.warp.sync 0xffffffff; bra J;
        A: add.u32 %r2, %lane, 200; st.shared.b32 [%rd1], %r2; bar.warp.sync 0xffffffff;
        J: mov.u64 %rd2, s; xor.b32 %r3, %lane, 31; mad.wide.u32 %rd2, %r3, 4, %rd2; ld.shared.b32 %r1, [%rd2];
        st.global.b32 [%to], %r1;"""
    )
    assert out.tolist() == [(31 - lane) + (100 if 31 - lane >= 16 else 200) for lane in range(32)]


def test_a_warp_barrier_of_some_does_not_release_the_others():
    """Lanes 0-7 wait for 16-23, 8-15 for 24-31; 24-31 come first and must release only their own."""
    out = result(
        """.shared .align 4 .b32 s; setp.eq.u32 %p6, %lane, 0; @%p6 st.shared.b32 [s], 0; bar.warp.sync 0xffffffff;
        shr.u32 %r2, %lane, 3; setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r2, 1; setp.eq.u32 %p3, %r2, 3;
        @%p1 bra A; @%p2 bra B; @%p3 bra D;
        mov.u32 %r5, 0; L: add.u32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, 500; @%p4 bra L;
        st.volatile.shared.b32 [s], 7; bar.warp.sync 0x00ff00ff; mov.u32 %r1, 3; bra E;
        A: bar.warp.sync 0x00ff00ff; ld.volatile.shared.b32 %r1, [s]; bra E;
        B: bar.warp.sync 0xff00ff00; mov.u32 %r1, 2; bra E;
        D: bar.warp.sync 0xff00ff00; mov.u32 %r1, 4; E:"""
        + STORE
    )
    assert out.tolist() == [7] * 8 + [2] * 8 + [3] * 8 + [4] * 8


def test_a_loop_whose_lanes_leave_one_by_one():
    """As warp-aggregated loops do it: the member mask is the ballot of who goes on."""
    body = """mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r9, 0xffffffff;
    L: setp.lt.u32 %p1, %r2, %lane; vote.sync.ballot.b32 %r3, %p1, %r9; @!%p1 bra E; mov.u32 %r9, %r3;
    redux.sync.add.u32 %r4, 1, %r9; add.u32 %r1, %r1, %r4; add.u32 %r2, %r2, 1; bra L; E:"""
    assert result(body + STORE).tolist() == [sum(31 - i for i in range(lane)) for lane in range(32)]


@pytest.mark.parametrize(
    "operation",
    [
        "shfl.sync.idx.b32 %r1, %lane, 0, 31, 0xffffffff;",
        "vote.sync.any.pred %p5, %p1, 0xffffffff;",
        "bar.warp.sync 0xffffffff;",
        "redux.sync.add.u32 %r1, %lane, 0xffffffff;",
    ],
)
def test_members_that_never_come_are_a_deadlock(operation):
    """Half of the warp waits for the other half, which waits at a barrier of the block."""
    body = f"setp.lt.u32 %p1, %lane, 16; @%p1 bra A; bar.sync 0; bra E; A: {operation} bar.sync 0; E:"
    with pytest.raises(KernelFault) as error:
        run(body, np.zeros(64, np.uint32), block=64)
    assert error.value.kind == "deadlock"
    lines = error.value.detail.splitlines()
    assert any("warp 0" in line and "0x0000ffff" in line and "waits for other lanes" in line for line in lines)
    assert any("warp 0" in line and "0xffff0000" in line and "barrier 0" in line for line in lines)
    assert sum("warp 1" in line for line in lines) >= 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_warp_order_changes_nothing_that_is_ordered(order):
    body = "shfl.sync.bfly.b32 %r1, %tid, 5, 31, 0xffffffff;"
    out = result(body + STORE, block=64, options=EmulatorOptions(threads=1, warp_order=order))
    assert out.tolist() == [t ^ 5 for t in range(64)]
