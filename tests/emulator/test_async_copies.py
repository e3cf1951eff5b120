"""cp.async: sizes, groups, when data becomes visible; mbarrier: phases, counts, states."""

from __future__ import annotations

import resource

import numpy as np
import pytest
from ptx_kernels import result, run

from wmmadiag.emulator import Budget, EmulatorOptions
from wmmadiag.errors import KernelFault, PtxSyntaxError

STORE = "st.global.b32 [%to], %r1;"
POISON = 0x7FFF7EAD
SOURCE = np.arange(1, 1025, dtype=np.uint32)


def copied(body: str, *, size: int = 4, **how) -> np.ndarray:
    """%rd1: this lane's place in shared `s`, %rd2: in the source, lane · size; then its first word of `s` is stored."""
    start = (
        f".shared .align 16 .b8 s[2048]; mov.u64 %rd1, s; mul.wide.u32 %rd9, %lane, {size}; add.u64 %rd1, %rd1,"
        " %rd9; add.u64 %rd2, %a1, %rd9;"
    )
    return result(start + body + "ld.shared.b32 %r1, [%rd1];" + STORE, SOURCE, **how)


WAIT = "cp.async.wait_all;"


@pytest.mark.parametrize(("operation", "size"), [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)])
def test_sizes(operation, size):
    assert (
        copied(f"cp.async.{operation}.shared.global [%rd1], [%rd2], {size};" + WAIT, size=size).tolist()
        == SOURCE[: 8 * size : size // 4].tolist()
    )


def words_of(body: str) -> np.ndarray:
    """Four words from shared memory that lane 0's 16-byte copy left."""
    out = np.zeros(4, np.uint32)
    run(
        ".shared .align 16 .b8 s[16]; mov.u64 %rd1, s; mov.u64 %rd2, %a1; setp.eq.u32 %p9, %lane, 0; @!%p9 exit;"
        + body
        + WAIT
        + "ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [s]; st.global.v4.b32 [%a0], {%r1, %r2, %r3, %r4};",
        out,
        SOURCE,
    )
    return out


@pytest.mark.parametrize("count", [0, 1, 4, 7, 15, 16])
def test_what_the_source_size_leaves_out_is_zero(count):
    expected = np.zeros(16, np.uint8)
    expected[:count] = SOURCE.view(np.uint8)[:count]
    assert (
        words_of(f"cp.async.cg.shared.global [%rd1], [%rd2], 16, {count};").tolist()
        == expected.view(np.uint32).tolist()
    )
    assert (
        words_of(f"mov.u32 %r9, {count}; cp.async.ca.shared.global [%rd1], [%rd2], 16, %r9;").tolist()
        == expected.view(np.uint32).tolist()
    )


def test_source_size_zero_reads_nothing_at_all():
    assert words_of("mov.u64 %rd2, 0; cp.async.cg.shared.global [%rd1], [%rd2], 16, 0;").tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("predicate", "expected"), [("%p1", [0, 0, 0, 0]), ("%p2", [1, 2, 3, 4])])
def test_ignored_source(predicate, expected):
    set_up = "setp.eq.u32 %p1, %lane, 0; setp.ne.u32 %p2, %lane, 0;"
    assert words_of(set_up + f"cp.async.ca.shared.global [%rd1], [%rd2], 16, {predicate};").tolist() == expected


def test_data_is_read_when_issued_and_seen_after_the_wait():
    body = (
        "cp.async.ca.shared.global [%rd1], [%rd2], 4; st.global.b32 [%rd2], 77; ld.shared.b32 %r2, [%rd1];"
        " cp.async.wait_all; ld.shared.b32 %r3, [%rd1]; sub.u32 %r3, %r3, %lane; xor.b32 %r2, %r2, %r3;"
        " st.shared.b32 [%rd1], %r2;"
    )
    with_copy = SOURCE.copy()
    out = result(
        ".shared .align 16 .b8 s[128]; mov.u64 %rd1, s; mul.wide.u32 %rd9, %lane, 4; add.u64 %rd1, %rd1, %rd9;"
        " add.u64 %rd2, %a1, %rd9;" + body + "ld.shared.b32 %r1, [%rd1];" + STORE,
        with_copy,
    )
    assert set(out.tolist()) == {POISON ^ 1}


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize(
    ("wait", "visible"),
    [
        ("", 0),
        ("cp.async.commit_group;", 0),
        ("cp.async.wait_group 0;", 0),
        ("cp.async.wait_all;", 1),
        ("cp.async.commit_group; cp.async.wait_group 0;", 1),
        ("cp.async.commit_group; cp.async.wait_group 1;", 0),
        ("cp.async.commit_group; cp.async.wait_group 9223372036854775808;", 0),
        ("cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1;", 1),
        ("bar.sync 0;", 0),
        ("cp.async.commit_group; bar.sync 0; membar.cta;", 0),
    ],
)
def test_before_the_wait_that_covers_it_nothing_is_seen(wait, visible, eager):
    out = copied(
        "cp.async.ca.shared.global [%rd1], [%rd2], 4;" + wait,
        options=EmulatorOptions(threads=1, eager_copies=eager),
    )
    assert out.tolist() == (SOURCE[:32].tolist() if visible or eager else [POISON] * 32)


@pytest.mark.parametrize("groups", ["-1", "%r1"])
def test_a_number_of_groups_that_is_none(groups):
    with pytest.raises(PtxSyntaxError, match="a literal, 0 or more"):
        copied(f"cp.async.wait_group {groups};")


@pytest.mark.parametrize("pending", range(5))
def test_wait_group_leaves_the_youngest_in_flight(pending):
    """Four groups, each with one copy; then a wait for all but `pending`."""
    issue = "".join(
        f"cp.async.ca.shared.global [%rd1+{128 * i}], [%rd2+{128 * i}], 4; cp.async.commit_group;" for i in range(4)
    )
    seen = "".join(
        f"ld.shared.b32 %r2, [%rd1+{128 * i}]; setp.ne.u32 %p1, %r2, {POISON}; selp.b32 %r2, {1 << i}, 0, %p1;"
        " or.b32 %r1, %r1, %r2;"
        for i in range(4)
    )
    out = copied(f"{issue} cp.async.wait_group {pending}; mov.u32 %r1, 0; {seen} st.shared.b32 [%rd1], %r1;")
    assert set(out.tolist()) == {(1 << max(4 - pending, 0)) - 1}


def test_groups_belong_to_the_lane():
    """Odd lanes commit twice: their copy is in the older group."""
    body = (
        "cp.async.ca.shared.global [%rd1], [%rd2], 4; cp.async.commit_group; and.b32 %r5, %lane, 1; setp.eq.u32"
        " %p1, %r5, 1; @%p1 cp.async.commit_group; cp.async.wait_group 1;"
    )
    assert copied(body).tolist() == [lane + 1 if lane % 2 else POISON for lane in range(32)]


def test_a_wait_covers_only_the_lanes_that_wait():
    body = "cp.async.ca.shared.global [%rd1], [%rd2], 4; setp.lt.u32 %p1, %lane, 5; @%p1 cp.async.wait_all;"
    assert copied(body).tolist() == [lane + 1 if lane < 5 else POISON for lane in range(32)]


def test_the_later_of_two_copies_to_one_place_stays():
    body = (
        "cp.async.ca.shared.global [%rd1], [%rd2], 4; cp.async.commit_group; cp.async.ca.shared.global [%rd1],"
        " [%rd2+128], 4; cp.async.commit_group;"
    )
    assert copied(body + "cp.async.wait_group 0;").tolist() == SOURCE[32:64].tolist()


def test_a_double_buffered_loop():
    """The pattern of pipelined kernels: stage k is waited for while stage k + 1 is in flight."""
    out = result(
        """.shared .align 16 .b8 s[256]; mov.u64 %rd1, s; mul.wide.u32 %rd9, %lane, 4;
        add.u64 %rd1, %rd1, %rd9; add.u64 %rd2, %a1, %rd9; mov.u32 %r1, 0; mov.u32 %r2, 0;
        cp.async.ca.shared.global [%rd1], [%rd2], 4; cp.async.commit_group;
        L: add.u32 %r2, %r2, 1; and.b32 %r3, %r2, 1; mad.wide.u32 %rd3, %r3, 128, %rd1;
        mad.wide.u32 %rd4, %r2, 128, %rd2; setp.lt.u32 %p1, %r2, 6;
        @%p1 cp.async.ca.shared.global [%rd3], [%rd4], 4; cp.async.commit_group; cp.async.wait_group 1;
        bar.sync 0; xor.b32 %r3, %r3, 1; mad.wide.u32 %rd3, %r3, 128, %rd1; ld.shared.b32 %r4, [%rd3];
        add.u32 %r1, %r1, %r4; bar.sync 0; @%p1 bra L;"""
        + STORE,
        SOURCE,
    )
    assert out.tolist() == SOURCE[:192].reshape(6, 32).sum(axis=0).tolist()


def fault(body: str) -> KernelFault:
    with pytest.raises(KernelFault) as error:
        copied(body, size=16)
    return error.value


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (
            "cp.async.cg.shared.global [%rd1], [%rd2+4096], 16;",
            "out-of-bounds",
            "past the end of argument 1 (4096 bytes)",
        ),
        ("cp.async.cg.shared.global [%rd1+2048], [%rd2], 16;", "out-of-bounds", "past the end of s (2048 bytes)"),
        ("cp.async.cg.shared.global [%rd1], [%rd2+8], 16;", "misaligned", "global address"),
        ("cp.async.cg.shared.global [%rd1+4], [%rd2], 16;", "misaligned", "shared address"),
        ("cp.async.cg.shared.global [%rd1], [%rd2+4], 16, 8;", "misaligned", "global address"),
        ("mov.u32 %r1, 17; cp.async.cg.shared.global [%rd1], [%rd2], 16, %r1;", "bad-operand", "17"),
        ("mov.u64 %rd2, 0; cp.async.cg.shared.global [%rd1], [%rd2], 16;", "out-of-bounds", "0x0"),
    ],
)
def test_faults(body, kind, words):
    error = fault(body)
    assert error.kind == kind and words in str(error)


# mbarrier

INIT = ".shared .align 8 .b64 m; setp.eq.u32 %p1, %tid, 0; @%p1 mbarrier.init.shared.b64 [m], {count}; bar.sync 0;"


def barrier(body: str, count: int = 32, **how) -> np.ndarray:
    return result(INIT.format(count=count) + body + STORE, **how)


WAIT_PARITY = "{name}: mbarrier.try_wait.parity.shared.b64 %p2, [m], {parity}; @!%p2 bra {name};"


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
@pytest.mark.parametrize("kind", ["test_wait", "try_wait"])
def test_phases_by_parity(kind, order):
    """Three warps exchange through shared memory over four phases of one mbarrier."""
    out = result(
        ".shared .align 4 .b32 s[96]; mov.u64 %rd1, s; mad.wide.u32 %rd2, %tid, 4, %rd1; sub.u32 %r9, 95, %tid;"
        " mad.wide.u32 %rd3, %r9, 4, %rd1; mov.u32 %r1, %tid;"
        + INIT.format(count=96)
        + "".join(
            f"st.shared.b32 [%rd2], %r1; mbarrier.arrive.shared.b64 _, [m]; W{2 * i}:"
            f" mbarrier.{kind}.parity.shared.b64 %p2, [m], 0; @!%p2 bra W{2 * i};ld.shared.b32 %r1, [%rd3]; add.u32"
            f" %r1, %r1, 1; mbarrier.arrive.shared.b64 %rd4, [m]; W{2 * i + 1}: mbarrier.{kind}.parity.shared.b64"
            f" %p2, [m], 1; @!%p2 bra W{2 * i + 1};"
            for i in range(2)
        )
        + STORE,
        block=96,
        options=EmulatorOptions(threads=1, warp_order=order, budget=Budget(seconds=20)),
    )
    assert out.tolist() == [t + 2 for t in range(96)]


def test_states_and_pending_counts():
    """arrive returns the state before it; lanes arrive in lane order; the 32nd ends the phase."""
    body = (
        "mbarrier.arrive.shared.b64 %rd1, [m]; mbarrier.pending_count.b64 %r1, %rd1; mbarrier.test_wait.shared.b64"
        " %p2, [m], %rd1; selp.b32 %r2, 100, 0, %p2; add.u32 %r1, %r1, %r2;"
    )
    assert barrier(body).tolist() == [132 - lane for lane in range(32)]
    assert barrier(body, count=33).tolist() == [33 - lane for lane in range(32)]


def test_counts_of_arrivals():
    body = (
        "setp.lt.u32 %p2, %lane, 4; @%p2 mbarrier.arrive.shared.b64 _, [m], 8; mbarrier.test_wait.parity.shared.b64"
        " %p3, [m], 0; selp.b32 %r1, 1, 0, %p3;"
    )
    assert set(barrier(body).tolist()) == {1}
    assert set(barrier(body, count=33).tolist()) == {0}


def test_dropping_lowers_the_next_phase():
    """Half of the lanes drop out: the next phase is complete with the other half."""
    body = (
        "setp.lt.u32 %p2, %lane, 16; @%p2 mbarrier.arrive_drop.shared.b64 _, [m]; @!%p2 mbarrier.arrive.shared.b64"
        " _, [m]; @!%p2 mbarrier.arrive.shared.b64 _, [m]; mbarrier.test_wait.parity.shared.b64 %p3, [m], 1;"
        " selp.b32 %r1, 1, 0, %p3;"
    )
    assert set(barrier(body).tolist()) == {1}


@pytest.mark.parametrize("noinc", ["", ".noinc"])
def test_copies_arrive_at_an_mbarrier(noinc):
    """With .noinc the copy's arrival counts towards the phase, otherwise the lane arrives by itself as well."""
    arrive = "" if noinc else "mbarrier.arrive.shared.b64 _, [m];"
    body = (
        ".shared .align 16 .b8 s[128]; mov.u64 %rd1, s; mul.wide.u32 %rd9, %lane, 4; add.u64 %rd1, %rd1, %rd9;"
        " add.u64 %rd2, %a1, %rd9;"
        + INIT.format(count=32)
        + f"cp.async.ca.shared.global [%rd1], [%rd2], 4; cp.async.mbarrier.arrive{noinc}.shared.b64 [m]; {arrive}"
        + WAIT_PARITY.format(name="W", parity=0)
        + "ld.shared.b32 %r1, [%rd1];"
    )
    assert (
        result(body + STORE, SOURCE, options=EmulatorOptions(threads=1, budget=Budget(seconds=10))).tolist()
        == SOURCE[:32].tolist()
    )


@pytest.mark.parametrize(
    "body",
    [
        ".shared .align 8 .b64 n; mbarrier.arrive.shared.b64 _, [n];",
        ".shared .align 8 .b64 n; mbarrier.test_wait.parity.shared.b64 %p1, [n], 0;",
        ".shared .align 8 .b64 n; mbarrier.init.shared.b64 [n], 0;",
        (
            ".shared .align 8 .b64 n; mbarrier.init.shared.b64 [n], 4; mbarrier.inval.shared.b64 [n];"
            " mbarrier.arrive.shared.b64 _, [n];"
        ),
    ],
)
def test_what_is_no_mbarrier(body):
    with pytest.raises(KernelFault) as error:
        run(body, np.zeros(32, np.uint32), block=1)
    assert error.value.kind == "bad-operand"


def test_a_phase_that_never_completes_is_a_deadlock():
    body = INIT.format(count=33) + "mbarrier.arrive.shared.b64 _, [m];" + WAIT_PARITY.format(name="W", parity=0)
    with pytest.raises(KernelFault, match="deadlock") as error:
        run(body, np.zeros(32, np.uint32), options=EmulatorOptions(threads=1))
    assert "warp 0" in error.value.detail


def test_a_loop_that_never_waits_takes_bounded_memory():
    """A chip has finished most of a million copies when the last one is issued; so has the emulator."""
    copy = "cp.async.ca.shared.global [%rd1], [%rd2], 4;"
    loop = f"mov.u32 %r9, 0; L: {copy} add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 1000000; @%p1 bra L; "
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert copied(loop + WAIT, size=4).tolist() == SOURCE[:32].tolist()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 350 << 10  # 430 and more where all are kept
