"""Runs of one program for many selectors: what is right, which blocks run, and that nothing leaks into the next run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from ptx_kernels import kernel

from wmmadiag.emulator.kernel import places
from wmmadiag.emulator.trials import (
    ElementRules,
    JudgedItems,
    StagedLaunch,
    TrialBase,
    TrialLaunch,
    TrialLimits,
    TrialResult,
    launches,
)
from wmmadiag.errors import ConfigurationError
from wmmadiag.launch import DeviceMemory, Launch

SELECT = "ld.const.u32 %r100, [sel];\n"
BLOCKS, THREADS = 4, 32
ITEMS = BLOCKS * THREADS


def launch_of(
    body: str,
    wanted: NDArray[Any],
    wrong: NDArray[Any] | None = None,
    *,
    start: NDArray[Any] | None = None,
    element: NDArray[Any] | None = None,
    others: tuple[NDArray[Any], ...] = (),
    strays_pass: bool = False,
    local_unaligned: bool = False,
) -> TrialLaunch:
    """A kernel that writes u32 items to its first array, judged exactly."""
    array = np.full(ITEMS, 0xA5A5A5A5, np.uint32) if start is None else start
    made = kernel(SELECT + body, "p" * (1 + len(others)), globals=".const .align 4 .u32 sel;")
    launch = Launch((BLOCKS, 1, 1), (THREADS, 1, 1), (array, *others))
    numbers = np.arange(array.size, dtype=np.int32) if element is None else element.astype(np.int32)
    count = int(numbers.max()) + 1
    nothing = np.zeros(count, np.uint8)
    mask = nothing if wrong is None else wrong.astype(np.uint8)
    items = [JudgedItems(0, "u32", numbers, None)]
    items += [JudgedItems(i + 1, "u32", np.full(one.size, -1, np.int32), None) for i, one in enumerate(others)]
    rules = ElementRules(wanted.astype(np.float64), np.zeros(count), nothing, mask)
    return TrialLaunch(
        [StagedLaunch(made, launch)], "sel", items, rules, strays_pass=strays_pass, local_unaligned=local_unaligned
    )


def tried(launch: TrialLaunch, *selectors: int, looks: int = 1, threads: int = 1) -> list[TrialResult]:
    return launch.run(selectors, TrialLimits(looks=looks), threads)


# out[i] = i + (block == 1 || block == 3 ? 1 : 0), so that blocks 1 and 3 are wrong; the selector mends or breaks them.
STORE = """
mov.u32 %r2, %ctaid.x;
and.b32 %r3, %r2, 1;
mad.lo.u32 %r4, %r2, 32, %tid;
setp.eq.u32 %p1, %r100, 1; @%p1 mov.u32 %r3, 0;                              // 1: right
setp.eq.u32 %p2, %r100, 2; setp.eq.and.u32 %p2, %r2, 3, %p2; @%p2 mov.u32 %r3, 0;  // 2: block 3 is right
setp.eq.u32 %p3, %r100, 3; @%p3 xor.b32 %r3, %r3, 1;                          // 3: the other blocks are wrong
add.u32 %r5, %r4, %r3;
setp.eq.u32 %p4, %r100, 4; @%p4 trap;
SPIN: setp.eq.u32 %p5, %r100, 5; @%p5 bra SPIN;
"""
OWN = STORE + "st.global.u32 [%to], %r5;"
INDEX = np.arange(ITEMS)
WRONG = (INDEX // THREADS) % 2 == 1


def test_the_base_tells_who_writes_what() -> None:
    base = launch_of(OWN, INDEX, WRONG).base(0)
    assert base.independent and base.wrong_blocks == (1, 3)
    assert np.array_equal(base.wrong, WRONG)
    assert (
        base.result.wrong == 64
        and len(set(base.instructions)) <= 2
        and sum(base.instructions) == base.result.instructions
    )


def test_each_end_of_a_trial() -> None:
    launch = launch_of(OWN, INDEX, WRONG)
    base = launch.base(0)
    right, partly, other, trap, spin, same = tried(launch, 1, 2, 3, 4, 5, 0)
    assert (right.end, right.wrong, right.mended, right.broken) == ("finished", 0, 64, 0)
    # Given up in the first wrong block, which is as it was.
    assert (same.end, same.wrong, same.first, same.instructions) == ("stopped", 32, 32, base.instructions[1])
    assert (partly.end, partly.instructions) == ("stopped", pytest.approx(base.instructions[1], abs=2))
    assert (other.end, other.wrong, other.mended, other.broken) == ("stopped", 64, 64, 64)
    assert other.instructions == base.result.instructions
    assert (trap.end, trap.fault) == ("fault", "trap")
    assert spin.end == "budget" and spin.instructions <= 4 * base.instructions[1] + (1 << 14)


# Two kernels, one after the other: tmp[i] = i + (selector == 1), and out[i] += tmp[i] * (selector == 2 ? 2 : 1).
FIRST = """
mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r4, %r2, 32, %tid;
setp.eq.u32 %p1, %r100, 1; @%p1 add.u32 %r4, %r4, 1;
st.global.u32 [%to], %r4;
"""
SECOND = """
ld.global.u32 %r4, [%to+PLUS];
setp.eq.u32 %p1, %r100, 2; @%p1 add.u32 %r4, %r4, %r4;
ld.global.u32 %r5, [%to]; add.u32 %r5, %r5, %r4;
st.global.u32 [%to], %r5;
"""


@pytest.mark.parametrize("cleared", [False, True])
def test_launches_one_after_the_other_are_one_trial(cleared: bool) -> None:
    where = places([4 * ITEMS] * 2)
    out, tmp = (DeviceMemory(at, np.full(4 * ITEMS, 1, np.uint8), name) for at, name in zip(where, "ot", strict=True))
    texts = FIRST, SECOND.replace("PLUS", str(tmp.address - out.address))
    begun = 0 if cleared else 0x01010101
    stages = [
        StagedLaunch(
            kernel(SELECT + text, "p", globals=".const .align 4 .u32 sel;"),
            Launch((BLOCKS, 1, 1), (THREADS, 1, 1), (np.uint64(one.address),), memory=(out, tmp)),
            [(out.address, 4 * ITEMS)] if cleared and one is out else (),
        )
        for text, one in zip(texts, (tmp, out), strict=True)
    ]
    items = [JudgedItems(0, "u32", np.arange(ITEMS, dtype=np.int32), None)]
    nothing = np.zeros(ITEMS, np.uint8)
    rules = ElementRules(INDEX.astype(np.float64) + begun, np.zeros(ITEMS), nothing, nothing)
    launch = TrialLaunch(stages, "sel", items, rules, addresses={0: out.address})
    base = launch.base(0)
    assert not base.independent and len(base.instructions) == 2 * BLOCKS and base.result.wrong == 0
    for _ in range(2):  # everything is put back between two trials
        first, second, same = tried(launch, 1, 2, 0)
        assert (first.end, first.wrong, first.broken) == ("finished", ITEMS, ITEMS)
        assert second.wrong == ITEMS - 1  # 2 · 0 is 0
        assert same.wrong == 0 and same.instructions == base.result.instructions
    assert out.data.max() == tmp.data.max() == 1
    for made, own in launches(stages):
        made.launch(own)
    assert out.data.max() == 1 and own.memory[0].data.view(np.uint32).tolist() == (INDEX + begun).tolist()


# Block 1 reads behind its array in all lanes, block 3 in lanes 0 to 7; the selector keeps either one, or both, from it.
STRAY = """
mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r4, %r2, 32, %tid;
setp.eq.u32 %p1, %r2, 1;
setp.eq.u32 %p2, %r2, 3; setp.lt.and.u32 %p2, %tid, 8, %p2;
and.b32 %r7, %r100, 1; setp.ne.u32 %p3, %r7, 0; @%p3 setp.ne.u32 %p1, %r2, %r2;
and.b32 %r7, %r100, 2; setp.ne.u32 %p3, %r7, 0; @%p3 setp.ne.u32 %p2, %r2, %r2;
or.pred %p4, %p1, %p2;
mov.u32 %r8, 0;
@%p4 ld.global.u32 %r8, [%to+1048576];
add.u32 %r5, %r4, %r8;
st.global.u32 [%to], %r5;
"""


def test_accesses_that_belong_nowhere_end_a_trial_or_are_counted() -> None:
    strict = launch_of(STRAY, INDEX)
    assert strict.base(0).result.fault == "out-of-bounds"
    launch = launch_of(STRAY, INDEX, strays_pass=True)
    base = launch.base(0)
    assert (base.result.end, base.result.wrong, base.result.strays) == ("finished", 0, 40)
    assert base.wrong_blocks == (3, 1)  # the fewest first
    first, second, both, same = tried(launch, 1, 2, 3, 0)
    assert (both.end, both.strays, both.fewer, both.more) == ("finished", 0, 40, 0)
    assert (same.end, same.strays, same.fewer) == ("stopped", 8, 0)
    assert (first.end, second.end, second.strays, second.fewer) == ("stopped", "finished", 32, 8)
    (counted,) = tried(launch, 1, looks=0)
    assert (counted.end, counted.strays, counted.fewer, counted.wrong) == ("finished", 8, 32, 0)


def test_what_is_written_nowhere_is_lost_and_read_nowhere_is_nought() -> None:
    body = """
    mad.lo.u32 %r4, %ctaid.x, 32, %tid;
    st.global.u32 [%to+1048576], %r4;
    ld.global.u32 %r8, [%to+1048576];
    ld.global.u32 %r9, [%to+1];
    add.u32 %r5, %r4, %r8;
    st.global.u32 [%to], %r5;
    """
    base = launch_of(
        body.replace("%ctaid.x", "%r2").replace("mad", "mov.u32 %r2, %ctaid.x; mad"), INDEX, strays_pass=True
    ).base(0)
    # The last item's word begins a byte before the array's end, so that it is stray and not aligned.
    assert (base.result.end, base.result.wrong, base.result.strays) == ("finished", 0, 3 * ITEMS + 1)


LOCAL = """
.local .align 16 .b8 kept[48];
mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r4, %r2, 32, %tid;
mov.u64 %rd1, kept;
setp.eq.u32 %p1, %r100, 1; @%p1 add.u64 %rd1, %rd1, 40;  // 1: beyond its end
st.local.v4.u32 [%rd1+4], {%r2, %tid, %r4, %r2};
ld.local.v2.u32 {%r6, %r5}, [%rd1+8];
sub.u32 %r6, %r6, %tid;
add.u32 %r5, %r5, %r6;
st.global.u32 [%to], %r5;
"""


@pytest.mark.parametrize("strays_pass", [False, True])
def test_local_memory_is_read_and_written_at_any_address_where_that_is_asked_for(strays_pass: bool) -> None:
    # What a compiler in haste leaves in memory was in registers: 16 bytes of an array of floats lie anywhere.
    strict = launch_of(LOCAL, INDEX)
    assert strict.base(0).result.fault == "misaligned"
    launch = launch_of(LOCAL, INDEX, strays_pass=strays_pass, local_unaligned=True)
    base = launch.base(0)
    assert (base.result.end, base.result.wrong, base.result.strays) == ("finished", 0, 0)
    (beyond,) = tried(launch, 1, looks=0)
    assert beyond.strays > 0 if strays_pass else beyond.fault == "out-of-bounds"


def test_more_looks_find_a_block_that_is_mended() -> None:
    launch = launch_of(OWN, INDEX, WRONG)
    launch.base(0)
    (partly,) = tried(launch, 2, looks=2)
    assert (partly.end, partly.wrong, partly.mended, partly.broken) == ("finished", 32, 32, 0)
    (counted,) = tried(launch, 0, looks=0)
    assert (counted.end, counted.wrong, counted.mended) == ("finished", 64, 0)


@pytest.mark.parametrize("threads", [2, 7])
def test_results_do_not_depend_on_threads_or_neighbours(threads: int) -> None:
    launch = launch_of(OWN, INDEX, WRONG)
    launch.base(0)
    selectors = [n % 7 for n in range(200)]
    found = tried(launch, *selectors, threads=threads)
    alone = {n: tried(launch, n)[0] for n in range(7)}
    assert found == [alone[n] for n in selectors]


def test_blocks_that_write_each_others_elements_run_in_their_order() -> None:
    """With 6, every block writes what the next one writes otherwise; with 7, something wrong there, too."""
    body = (
        STORE
        + """
    setp.ge.u32 %p6, %r100, 6;
    add.u32 %r6, %r4, 32; and.b32 %r6, %r6, 127;
    mul.wide.u32 %rd1, %r6, 4; add.u64 %rd1, %rd1, %a0;
    mov.u32 %r7, %r6;
    setp.eq.u32 %p7, %r100, 7; @%p7 add.u32 %r7, %r7, 1;
    @%p6 st.global.u32 [%rd1], %r7;
    setp.eq.u32 %p7, %r100, 7; @%p7 mov.u32 %r5, %r4;
    setp.ne.u32 %p8, %r100, 6; @%p8 st.global.u32 [%to], %r5;
    """
    )
    launch = launch_of(body, INDEX, WRONG)
    assert launch.base(0).independent
    moved, spoiled, plain = tried(launch, 6, 7, 1)
    assert (moved.end, moved.wrong, moved.in_order) == ("finished", 0, True)
    assert (plain.end, plain.wrong, plain.in_order) == ("finished", 0, False)
    # In their order the blocks would put it right again; but they may end in any.
    assert (spoiled.end, spoiled.broken) == ("stopped", 32)


def test_a_block_that_reads_what_another_one_wrote_makes_them_depend() -> None:
    body = (
        STORE
        + """
    setp.eq.u32 %p6, %r100, 6; setp.gt.and.u32 %p6, %r2, 0, %p6;
    sub.u64 %rd1, %to, 128;
    @%p6 ld.global.u32 %r5, [%rd1];
    @%p6 add.u32 %r5, %r5, 32;
    st.global.u32 [%to], %r5;
    """
    )
    launch = launch_of(body, INDEX, WRONG)
    assert launch.base(0).independent
    (found,) = tried(launch, 6)
    assert (found.end, found.wrong, found.in_order) == ("finished", 0, True)


def test_sums_of_several_blocks_are_judged_after_the_last() -> None:
    body = (
        SELECT
        + """
    mul.wide.u32 %rd1, %tid, 4; add.u64 %rd1, %rd1, %a0;
    add.u32 %r1, %r100, 1;
    atom.global.add.u32 %r2, [%rd1], %r1;
    """
    )
    start = np.zeros(ITEMS, np.uint32)
    element = np.where(INDEX < THREADS, INDEX, -1)
    launch = launch_of(body, np.full(THREADS, 8), np.ones(THREADS), start=start, element=element)
    assert not launch.base(0).independent
    once, twice, thrice = tried(launch, 0, 1, 2)
    assert [one.wrong for one in (once, twice, thrice)] == [32, 0, 32]
    assert all(one.end == "finished" and one.in_order for one in (once, twice, thrice))


# Blocks 0 and 2 add to the first items, 1 and 3 to the next ones: 1 each, but for odd ones with 0.
ADDED = (
    SELECT
    + """
    mov.u32 %r2, %ctaid.x; and.b32 %r3, %r2, 1;
    setp.eq.u32 %p1, %r100, 3; setp.eq.and.u32 %p1, %r2, 3, %p1; @%p1 mov.u32 %r3, 0;  // 3: block 3 adds where 0 does
    mad.lo.u32 %r4, %r3, 32, %tid; mul.wide.u32 %rd1, %r4, 4; add.u64 %rd1, %rd1, %a0;
    mov.u32 %r1, 1;
    setp.eq.u32 %p2, %r100, 0; setp.eq.and.u32 %p2, %r3, 1, %p2; @%p2 mov.u32 %r1, 2;
    setp.eq.u32 %p3, %r100, 2; setp.eq.and.u32 %p3, %r3, 0, %p3; @%p3 mov.u32 %r1, 2;  // 2: even ones are wrong
    setp.eq.u32 %p4, %r100, 4; setp.eq.and.u32 %p4, %r2, 3, %p4; @%p4 mov.u32 %r1, 3;  // 4: block 3 alone is wrong
    atom.global.add.u32 %r5, [%rd1], %r1;
    """
)


def test_blocks_that_add_to_the_same_elements_are_tried_together() -> None:
    items = np.arange(ITEMS)
    element, wrong = np.where(items < 64, items, -1), np.arange(64) >= 32
    launch = launch_of(ADDED, np.full(64, 2), wrong, start=np.zeros(ITEMS, np.uint32), element=element)
    base = launch.base(0)
    assert base.independent and base.wrong_blocks == (1,) and base.result.wrong == 32
    same, right, other, across, last = tried(launch, 0, 1, 2, 3, 4)
    assert (right.end, right.wrong, right.mended, right.in_order) == ("finished", 0, 32, False)
    two = base.instructions[1] + base.instructions[3]
    assert (same.end, same.wrong, same.instructions) == ("stopped", 32, two)  # blocks 0 and 2 did not run
    assert (last.end, last.wrong, last.first, last.instructions) == ("stopped", 32, 32, pytest.approx(two, abs=8))
    assert (other.end, other.mended, other.broken, other.in_order) == ("stopped", 32, 32, False)
    # One of a group touches what another group writes: all run in their order.
    assert (across.end, across.in_order, across.wrong) == ("finished", True, 64)


def test_blocks_that_write_what_several_have_read_are_no_group() -> None:
    body = (
        SELECT
        + """
    mul.wide.u32 %rd1, %tid, 4; add.u64 %rd1, %rd1, %a0;
    mov.u32 %r2, %ctaid.x; setp.lt.u32 %p1, %r2, 3;
    @%p1 ld.global.u32 %r3, [%rd1];
    @!%p1 st.global.u32 [%rd1], %tid;
    """
    )
    element = np.where(INDEX < THREADS, INDEX, -1)
    launch = launch_of(body, np.arange(32), start=np.zeros(ITEMS, np.uint32), element=element)
    assert not launch.base(0).independent
    assert tried(launch, 1)[0].in_order


def test_what_must_stay_as_it_is_is_watched() -> None:
    """With 6, a guard item is overwritten; with 7, an input is, with what stood there."""
    body = (
        STORE
        + """
    setp.eq.u32 %p6, %r100, 6;
    @%p6 st.global.u32 [%a0], %r5;
    setp.eq.u32 %p7, %r100, 7; @%p7 ld.global.u32 %r6, [%a1]; @%p7 st.global.u32 [%a1], %r6;
    setp.ge.u32 %p6, %r100, 6; @%p6 mov.u32 %r5, %r4;
    setp.ne.u32 %p8, %r4, 0;
    @%p8 st.global.u32 [%to], %r5;
    """
    )
    launch = launch_of(body, INDEX[1:], WRONG[1:], element=INDEX - 1, others=(np.arange(4, dtype=np.uint32),))
    launch.base(0)
    guard, written, plain = tried(launch, 6, 7, 1, looks=0)
    assert (guard.wrong, guard.damaged) == (0, 1)
    assert (written.wrong, written.damaged) == (0, 0) and (plain.wrong, plain.damaged) == (0, 0)


def test_another_program_takes_over_the_base_of_the_same_launch() -> None:
    launch, other = launch_of(OWN, INDEX, WRONG), launch_of(OWN, INDEX, WRONG)
    assert not other.adopt(launch)
    base: TrialBase = launch.base(0)
    assert other.adopt(launch)
    (same,) = tried(other, 0)
    assert same.end == "stopped" and same.instructions == base.instructions[1]
    assert not launch_of(OWN, INDEX, WRONG, others=(np.zeros(4, np.uint32),)).adopt(launch)


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no array"):
        TrialLaunch(
            [
                StagedLaunch(
                    kernel(SELECT, "pi", globals=".const .align 4 .u32 sel;"),
                    Launch((1, 1, 1), (32, 1, 1), (np.zeros(4, np.uint32), np.int32(3))),
                )
            ],
            "sel",
            [JudgedItems(1, "u32", np.zeros(1, np.int32), None)],
            ElementRules(np.zeros(1), np.zeros(1), np.zeros(1, np.uint8), np.zeros(1, np.uint8)),
        )
    with pytest.raises(ValueError, match="no element"):
        launch_of(OWN, INDEX, element=np.where(INDEX == 7, -3, INDEX))
