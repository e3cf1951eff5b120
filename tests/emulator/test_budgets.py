"""Runs that do not end: budgets, interruption, and where each warp stands."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from ptx_kernels import run

from wmmadiag.emulator import Budget, EmulatorOptions
from wmmadiag.errors import BudgetError

ENDLESS = "L: add.u32 %r1, %r1, 1; bra L;"


@pytest.mark.parametrize("threads", [1, 2])
def test_an_endless_loop_ends_in_the_instruction_budget(threads):
    with pytest.raises(BudgetError) as error:
        run(
            ENDLESS,
            np.zeros(256, np.uint32),
            block=64,
            grid=2,
            options=EmulatorOptions(threads=threads, budget=Budget(instructions=3_000_000)),
        )
    assert error.value.exit_code == 3
    assert "warp instructions" in error.value.message
    for warp in (0, 1):
        assert f"block (0, 0, 0), warp {warp}, lanes 0xffffffff: running at <ptx>" in error.value.detail


@pytest.mark.parametrize("threads", [1, 2])
def test_an_endless_loop_ends_in_the_time_budget(threads):
    start = time.perf_counter()
    with pytest.raises(BudgetError, match=r"0\.2 s"):
        run(
            ENDLESS,
            np.zeros(256, np.uint32),
            block=64,
            grid=2,
            options=EmulatorOptions(threads=threads, budget=Budget(seconds=0.2)),
        )
    assert 0.2 <= time.perf_counter() - start < 1


def test_where_waiting_warps_stand():
    body = (
        "setp.lt.u32 %p1, %tid, 32; @%p1 bra L; setp.lt.u32 %p2, %lane, 16; @%p2 bra S; bar.sync 5; S:"
        " bar.warp.sync -1; L: add.u32 %r1, %r1, 1; bra L;"
    )
    with pytest.raises(BudgetError) as error:
        run(
            body,
            np.zeros(64, np.uint32),
            block=64,
            options=EmulatorOptions(threads=1, budget=Budget(instructions=1_000_000)),
        )
    detail = error.value.detail
    assert "warp 0, lanes 0xffffffff: running" in detail
    assert "warp 1, lanes 0xffff0000: waits at barrier 5" in detail
    assert "warp 1, lanes 0x0000ffff: waits for other lanes of its warp" in detail


@pytest.mark.slow
def test_blocks_that_wait_for_each_other_all_stand_in_the_message():
    body = "W: ld.volatile.global.b32 %r1, [%a1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra W;"
    with pytest.raises(BudgetError) as error:
        run(
            body,
            np.zeros(96, np.uint32),
            np.zeros(1, np.uint32),
            grid=3,
            options=EmulatorOptions(threads=1, budget=Budget(instructions=3_000_000)),
        )
    assert [f"block ({b}, 0, 0)" in error.value.detail for b in range(3)] == [True] * 3


def test_a_run_within_its_budget():
    run(
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1000; @%p1 bra L;",
        np.zeros(32, np.uint32),
        options=EmulatorOptions(threads=1, budget=Budget(instructions=5000, seconds=60)),
    )


def test_no_budget_at_all():
    run(
        "st.global.b32 [%to], 1;",
        np.zeros(32, np.uint32),
        options=EmulatorOptions(threads=1, budget=Budget(instructions=0, seconds=0)),
    )


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "body",
    [
        ENDLESS,
        "L: atom.global.add.u32 %r1, [%a0], 1; bra L;",
        "L: bar.sync 0; bra L;",
        "L: nanosleep.u32 100; bra L;",
    ],
)
def test_control_c_works_at_once(body, threads):
    sent: list[float] = []

    def interrupt():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.15, interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            run(
                body,
                np.zeros(256, np.uint32),
                block=64,
                grid=4,
                options=EmulatorOptions(threads=threads, budget=Budget(seconds=20)),
            )
        assert time.perf_counter() - sent[0] < 5  # of 20; 0.02 s on an idle machine
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_the_emulator_works_after_an_interruption():
    test_control_c_works_at_once(ENDLESS, 2)
    out = np.zeros(32, np.uint32)
    run("st.global.b32 [%to], 1;", out)
    assert out.all()
