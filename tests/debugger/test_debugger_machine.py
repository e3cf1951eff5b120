"""Stopping, going on and going back do what an uninterrupted run does."""

from __future__ import annotations

import numpy as np
import pytest
from debugged import ATTENTION, KERNELS
from hypothesis import given, settings
from hypothesis import strategies as st

import wmmadiag
from wmmadiag.debugger.conditions import ANY, Conditions, Watchpoint
from wmmadiag.debugger.machine import StoppableLaunch
from wmmadiag.debugger.target import Target
from wmmadiag.subject.binding import BoundCase


def target_of(card: object = ATTENTION, case: str = "tail") -> Target:
    return wmmadiag.debug(card, case=case).target  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def target() -> Target:
    return target_of()


@pytest.fixture(scope="module")
def fused() -> Target:
    return target_of(KERNELS / "attention_fused" / "kernel.toml", "")


def arrays(case: BoundCase) -> list[bytes]:
    return [argument.storage.tobytes() for argument in case.arguments if argument.storage is not None]


def state(machine: StoppableLaunch, case: BoundCase) -> tuple[object, ...]:
    registers = [machine.registers(warp) for warp in range(machine.warps)]
    where = machine.time, machine.block, machine.next, machine.standings
    return (*where, registers, machine.shared().tobytes(), arrays(case))


@pytest.mark.parametrize("name", ["target", "fused"])
def test_one_instruction_at_a_time_ends_as_the_engine_does(name: str, request: pytest.FixtureRequest) -> None:
    target: Target = request.getfixturevalue(name)
    engine = target.bind()
    stats = target.kernel.launch(engine.launch)
    case = target.bind()
    machine = StoppableLaunch(target.kernel, case.launch)
    everywhere = bytes([1]) * len(target.kernel.kernel.nodes)
    stop = machine.run(Conditions(before=everywhere, skip=1 << 62))
    assert (stop.reason, stop.time) == ("finished", stats.warp_instructions)
    assert arrays(case) == arrays(engine)
    assert machine.finished and machine.next is None


@pytest.mark.parametrize("name", ["target", "fused"])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_time_is_the_same_from_either_side(name: str, request: pytest.FixtureRequest, data: st.DataObject) -> None:
    target: Target = request.getfixturevalue(name)
    case = target.bind()
    machine = StoppableLaunch(target.kernel, case.launch, interval=data.draw(st.sampled_from([50, 1000, 1 << 20])))
    end = machine.run(Conditions()).time
    machine.seek(0)
    time = data.draw(st.integers(0, end))
    machine.seek(time)
    forwards = state(machine, case)
    machine.seek(data.draw(st.integers(time, end)))
    machine.seek(time)
    assert state(machine, case) == forwards


def test_going_back_restores_global_memory(target: Target) -> None:
    case = target.bind()
    before = arrays(case)
    machine = StoppableLaunch(target.kernel, case.launch)
    machine.run(Conditions())
    assert arrays(case) != before
    machine.seek(0)
    assert arrays(case) == before


def test_snapshots_keep_within_their_memory(target: Target) -> None:
    case = target.bind()
    machine = StoppableLaunch(target.kernel, case.launch, memory_limit=4 << 20, interval=100)
    machine.run(Conditions())
    use = machine.memory_use
    assert use.bytes <= use.limit or use.snapshots <= 2
    assert use.interval > 100
    machine.seek(0)
    assert machine.time == 0


def test_a_watch_stops_after_the_store_and_a_break_before_the_instruction(target: Target) -> None:
    case = target.bind()
    machine = StoppableLaunch(target.kernel, case.launch)
    output = next(e for e in target.kernel.extents(case.launch) if e.name == "o")
    stop = machine.run(Conditions(watches=(Watchpoint("global", output.start, output.start + 2),)))
    o = case.outputs()["o"]
    assert stop.reason == "watch" and stop.address == output.start
    assert not np.isnan(o[0, 0, 0, 0])
    machine.seek(stop.time - 1)
    assert np.isnan(o[0, 0, 0, 0])
    found = machine.next
    assert found is not None and found.pc == stop.pc


def test_the_last_time_is_found_backwards(target: Target) -> None:
    case = target.bind()
    machine = StoppableLaunch(target.kernel, case.launch)
    multiplications = bytes(int(node.op == "mma") for node in target.kernel.kernel.nodes)
    forwards = []
    for _ in range(5):
        forwards.append(machine.run(Conditions(before=multiplications)).time)
    assert forwards == sorted(set(forwards))
    found = machine.last_before(Conditions(before=multiplications), forwards[-1])
    assert found is not None and found.time == forwards[-2]
    assert machine.last_before(Conditions(before=multiplications), forwards[0]) is None


def test_conditions_count_only_where_they_say(target: Target) -> None:
    machine = StoppableLaunch(target.kernel, target.bind().launch)
    everywhere = bytes([1]) * len(target.kernel.kernel.nodes)
    stop = machine.run(Conditions(before=everywhere, warp=2))
    assert stop.warp == 2 and machine.executed(2) == 0
    stop = machine.run(Conditions(before=everywhere, block=1))
    assert stop.block == 1 and stop.time == machine.block_starts[1]
    assert machine.run(Conditions(block_end=True, block=ANY)).block == 2


def test_tables_of_the_wrong_length_are_refused(target: Target) -> None:
    machine = StoppableLaunch(target.kernel, target.bind().launch)
    with pytest.raises(ValueError, match="one byte per instruction"):
        machine.run(Conditions(before=b"\1"))
