"""Blocks that get nowhere: found, said, and not mistaken for blocks that work for a long time."""

from __future__ import annotations

from pathlib import Path

import pytest
from debugged import ATTENTION, line_of, small

import wmmadiag
from wmmadiag.debugger import machine, progress

GRID = """__device__ unsigned arrived;

extern "C" __global__ void small(const float* x, float* out, int n)
{
    out[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(&arrived, 1);
        while (atomicAdd(&arrived, 0) < gridDim.x) {}
    }
    __syncthreads();
    out[threadIdx.x] += 1.0f;
}
"""
NEVER = """extern "C" __global__ void small(const float* x, float* out, int n)
{
    __shared__ volatile int ready;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x == 40)
        while (!ready) {}
    out[threadIdx.x] = x[threadIdx.x];
}
"""
COUNTS = """extern "C" __global__ void small(const float* x, float* out, int n)
{
    unsigned rounds = 0;
    while (((volatile float*)out)[0] != x[0] && rounds != 0xffffffff) ++rounds;
    out[threadIdx.x] = rounds;
}
"""
LONG = """extern "C" __global__ void small(const float* x, float* out, int n)
{
    float sum = x[threadIdx.x];
    for (int i = 0; i < 4000; ++i) sum = __fsqrt_rn(sum + x[i % n] + 2.0f);
    out[threadIdx.x] = sum;
}
"""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PATIENCE", 1000)


def test_a_block_that_waits_for_a_later_one(tmp_path: Path) -> None:
    session = small(tmp_path, GRID, grid=2)
    moment = session.run_to(end=True)
    assert moment.reason == "stuck" and moment.line == line_of(session, "while (atomicAdd")
    assert "it reads arrived again and again" in moment.words and "later block" in moment.words
    assert session.time < 10_000_000


def test_a_loop_that_nobody_ends(tmp_path: Path, impatient: None) -> None:
    session = small(tmp_path, NEVER)
    found = session.run_to(end=True)
    assert found.reason == "stuck" and "ready" in found.words and "later block" not in found.words
    session.reverse_step()
    assert session.run_to(end=True).reason == "stuck"


def test_departure_goes_where_a_launch_is_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wmmadiag.debugger import evidence

    monkeypatch.setattr(evidence, "_PATIENCE", 0.2)
    session = small(tmp_path, NEVER)
    found = session.to_departure()
    assert found.kind == "stuck" and found.line == line_of(session, "while (!ready)")
    assert line_of(session, "if (threadIdx.x == 40)") in {one.line for one in session.behind()}


def test_a_loop_that_counts_is_suspected_where_a_user_waits(tmp_path: Path, impatient: None) -> None:
    session = small(tmp_path, COUNTS)
    moment = session.run_to(end=True)
    assert moment.reason == "stuck" and "out[0]" in moment.words
    later = session.run_to(end=True)
    assert later.reason == "stuck" and later.time > moment.time


def test_work_that_changes_no_memory_goes_on(tmp_path: Path, impatient: None) -> None:
    session = small(tmp_path, LONG)
    assert session.machine.run(machine.Conditions()).reason == "finished"


def test_stops_are_the_same_however_often_it_is_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    session = wmmadiag.debug(ATTENTION, case="two_heads")

    def times() -> list[int]:
        session.seek(0)
        seen = [session.run_to(tensor_op=1).time for _ in range(6)]
        seen.append(session.run_to(tensor_op=5).time)
        seen += [session.run_to(watch="sS[0]").time, session.run_to(line=143, warp=2, count=3).time]
        return seen

    wanted = times()
    monkeypatch.setattr(progress, "_QUIET", 1 << 30)
    for patience in (97, 1000):
        monkeypatch.setattr(machine, "PATIENCE", patience)
        assert times() == wanted
