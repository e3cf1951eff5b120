"""What observers see, and that they can end a run."""

from __future__ import annotations

import threading
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pytest
from ptx_kernels import kernel, run

from wmmadiag.emulator import EmulatorOptions
from wmmadiag.emulator.observer import (
    AccessKind,
    MemorySpace,
    lanes_of,
    register_values,
)
from wmmadiag.errors import KernelFault
from wmmadiag.launch import Launch


class BarrierKind(IntEnum):
    """As in observer.hpp."""

    ARRIVE = 0
    WAIT = 1
    RELEASE = 2
    WARP = 3


class Access(NamedTuple):
    """What `on_memory` gets, decoded."""

    block: int
    warp: int
    pc: int
    space: MemorySpace
    kind: AccessKind
    lanes: np.ndarray
    addresses: np.ndarray
    size: int


class Recorder:
    def __init__(self):
        self.memory, self.barriers, self.instructions = [], [], []

    def on_memory(self, where, space, kind, active, size, addresses):
        lanes = lanes_of(active)
        found = np.frombuffer(addresses, "<u8")[lanes]
        self.memory.append(Access(*where, MemorySpace(space), AccessKind(kind), lanes, found, size))

    def on_barrier(self, where, kind, barrier, active):
        self.barriers.append((where[1], BarrierKind(kind), barrier, len(lanes_of(active))))

    def on_instruction(self, *event):
        self.instructions.append(event)


def observed(body: str, *arguments, **how) -> Recorder:
    recorder = Recorder()
    run(body, *arguments, options=EmulatorOptions(observer=recorder), **how)
    return recorder


def test_lanes_of():
    assert lanes_of(0x80000005).tolist() == [0, 2, 31]


def test_memory():
    out = np.zeros(64, np.uint32)
    seen = observed(
        ".shared .align 8 .b64 s[4]; .local .align 4 .b32 l; setp.lt.u32 %p1, %lane, 2; @%p1 st.global.b32 [%to],"
        " 5; @!%p1 ld.shared.b64 %rd1, [s+8]; mov.u64 %rd2, s; cvta.shared.u64 %rd2, %rd2; @%p1 ld.v2.b16 {%h1,"
        " %h2}, [%rd2+4];st.local.b32 [l], 1; atom.global.add.u32 %r1, [%to], 1;",
        out,
        grid=2,
    ).memory[1:]
    events = [
        e
        for e in seen
        if (e.block == 1 and e.kind is not AccessKind.LOAD) or (e.space is MemorySpace.SHARED and e.block == 1)
    ]
    first, second, third, fourth, fifth = events
    assert (first.space, first.kind, first.lanes.tolist(), first.size) == (
        MemorySpace.GLOBAL,
        AccessKind.STORE,
        [0, 1],
        4,
    )
    assert np.diff(first.addresses.astype(np.int64)).tolist() == [4]
    assert (second.space, second.kind, second.lanes.size, second.size) == (
        MemorySpace.SHARED,
        AccessKind.LOAD,
        30,
        8,
    )
    assert (third.space, third.size, third.lanes.tolist()) == (MemorySpace.SHARED, 4, [0, 1])
    assert set((second.addresses[0] - third.addresses).tolist()) == {4}  # the generic access is shown as a shared one
    assert (fourth.space, fourth.kind, fourth.lanes.size) == (MemorySpace.LOCAL, AccessKind.STORE, 32)
    assert (fifth.space, fifth.kind) == (MemorySpace.GLOBAL, AccessKind.ATOMIC)


def test_asynchronous_copies_are_seen_when_issued_and_when_they_land():
    out, source = np.zeros(32, np.uint32), np.arange(32, dtype=np.uint32)
    seen = observed(
        ".shared .align 16 .b8 s[16]; mov.u64 %rd1, s; setp.eq.u32 %p1, %lane, 0; @%p1 cp.async.ca.shared.global"
        " [%rd1], [%a1], 16; bar.sync 0; cp.async.wait_all;",
        out,
        source,
    )
    kinds = [e.kind for e in seen.memory if e.kind in (AccessKind.ASYNC_LOAD, AccessKind.ASYNC_STORE)]
    assert kinds == [AccessKind.ASYNC_LOAD, AccessKind.ASYNC_STORE]
    landed = seen.memory[-1]
    assert (landed.space, landed.lanes.tolist(), landed.size) == (MemorySpace.SHARED, [0], 16)
    assert landed.pc == next(
        e.pc for e in seen.memory if e.kind is AccessKind.ASYNC_LOAD
    )  # named by the copy, not by the wait


def test_the_access_that_faults_is_seen():
    recorder = Recorder()
    with pytest.raises(KernelFault) as error:
        run("st.global.b32 [%a0+4096], 1;", np.zeros(32, np.uint32), options=EmulatorOptions(observer=recorder))
    assert recorder.memory[-1].addresses[0] == error.value.address


def test_barriers():
    seen = observed(
        "setp.lt.u32 %p1, %tid, 32; @%p1 bar.arrive 3, 64; @!%p1 bar.sync 3, 64; setp.lt.u32 %p2, %lane, 4; @%p2"
        " bar.warp.sync 15;",
        np.zeros(64, np.uint32),
        block=64,
    ).barriers
    of_block = [event[1:] for event in seen if event[1] is not BarrierKind.WARP]
    assert of_block == [(BarrierKind.ARRIVE, 3, 32), (BarrierKind.WAIT, 3, 32), (BarrierKind.RELEASE, 3, 32)]
    assert {(warp, lanes) for warp, kind, _, lanes in seen if kind is BarrierKind.WARP} == {(0, 4), (1, 4)}


def test_instructions_and_registers():
    recorder = Recorder()
    k = kernel(
        "setp.lt.u32 %p1, %lane, 3; mov.u32 %r1, 9; @%p1 add.u32 %r1, %r1, %lane; cvt.u64.u32 %rd1, %r1;"
        " st.global.b64 [%a0], %rd1;",
        options=EmulatorOptions(observer=recorder),
    )
    stats = k.launch(Launch((1, 1, 1), (32, 1, 1), [np.zeros(32, np.uint32)]))
    assert len(recorder.instructions) == stats.warp_instructions
    values = {value.name: value for value in k.kernel.slots if value.name}
    r1, p1 = values["%r1"], values["%p1"]
    where, active, registers = next(
        e for e in recorder.instructions if k.kernel.nodes[e[0][2]].text.startswith("add.u32")
    )
    assert active == 7 and k.kernel.nodes[where[2]].text == "add.u32"
    assert register_values(k.kernel, r1, registers).tolist() == [9, 10, 11] + [9] * 29
    assert register_values(k.kernel, p1, registers).tolist() == [True] * 3 + [False] * 29


@pytest.mark.parametrize("method", ["on_memory", "on_barrier", "on_instruction"])
def test_an_exception_ends_the_run_and_comes_out(method):
    calls = []

    def fail(*event):
        calls.append(event)
        raise LookupError("enough")

    observer = type("Failing", (), {method: staticmethod(fail)})()
    with pytest.raises(LookupError, match="enough"):
        run(
            "L: bar.sync 0; st.global.b32 [%to], 1; bra L;",
            np.zeros(64, np.uint32),
            block=64,
            grid=1,
            options=EmulatorOptions(observer=observer),
        )
    assert len(calls) == 1


def test_an_observer_with_no_methods_sees_nothing_and_changes_nothing():
    out = np.zeros(32, np.uint32)
    run("st.global.b32 [%to], 4;", out, options=EmulatorOptions(observer=object()))
    assert set(out.tolist()) == {4}


class Counter:
    """Counts in the state that Python keeps for a thread."""

    def __init__(self):
        self.local, self.counts = threading.local(), []

    def on_memory(self, *event):
        self.local.count = getattr(self.local, "count", 0) + 1
        self.counts.append(self.local.count)


def test_all_events_come_in_one_state_of_a_thread():
    """Making one for each event took several times what the event does."""
    for _ in range(2):
        counter = Counter()
        run("st.global.b32 [%to], 4;\n" * 3, np.zeros(32, np.uint32), options=EmulatorOptions(observer=counter))
        assert counter.counts == list(range(1, len(counter.counts) + 1)) and len(counter.counts) >= 3
