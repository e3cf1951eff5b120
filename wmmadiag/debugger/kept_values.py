"""What the markers of `kept.py` copied: the value of a variable in each lane of the selected warp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compile.ask.answers import TypeFacts
from wmmadiag.compile.ask.elements import element
from wmmadiag.debugger.conditions import Conditions
from wmmadiag.debugger.registers import decoded, raw_register

if TYPE_CHECKING:
    from wmmadiag.debugger.inspect import Inspection

LANES = 32
_EVERY = (1 << LANES) - 1
_ROUNDS = 64
"""Lanes that went different ways have their value from different markers."""


@dataclass(frozen=True, slots=True)
class CopiedVariable:
    """`values` of the lanes in the mask `lanes`; `pc`: of the marker that the selected lane ran last."""

    values: NDArray[Any]
    lanes: int
    pc: int


def copied(session: Inspection, name: str, facts: TypeFacts | None) -> CopiedVariable | None:
    """What the last marker before now copied, lane by lane; None where the selected lane has run none in this block.

    Args:
        name: of its registers, without the letter behind it.
    """
    kernel = session.target.kernel.kernel
    low = {pc: one for pc, node in enumerate(kernel.nodes) for one in node.written() if _is(one.name, f"{name}l")}
    high = {one.name: one for node in kernel.nodes for one in node.written() if _is(one.name, f"{name}h")}
    ran = _last_of_each_lane(session, frozenset(low))
    if session.lane not in ran:
        return None
    data = session.machine.registers(session.warp)
    words = np.zeros(LANES, np.uint64)
    for pc in set(ran.values()):
        one = low[pc]
        other = high[one.name.replace(f"{name}l", f"{name}h")]
        both = [raw_register(kernel, part, data).astype(np.uint64) for part in (one, other)]
        chosen = np.array([ran.get(lane) == pc for lane in range(LANES)])
        words = np.where(chosen, both[0] | both[1] << np.uint64(32), words)
    return CopiedVariable(_numbers(words, facts), sum(1 << lane for lane in ran), ran[session.lane])


def _is(written: str, name: str) -> bool:
    return written.partition("@")[0] == name


def _last_of_each_lane(session: Inspection, pcs: frozenset[int]) -> dict[int, int]:
    """Lane → the last of these instructions that it ran in this block."""
    machine = session.machine
    floor = machine.block_starts[-1]
    only = Conditions(before=session.lines.table(pcs), block=machine.block, warp=session.warp)
    found: dict[int, int] = {}
    with machine.returning() as before:
        for _ in range(_ROUNDS):
            stop = machine.last_before(only, before, floor)
            if stop is None:
                break
            machine.seek(stop.time)
            running = machine.next
            lanes = running.lanes if running is not None else 0
            for lane in range(LANES):
                if lanes >> lane & 1:
                    found.setdefault(lane, stop.pc)
            before = stop.time
            if len(found) == LANES:
                break
    return found


def _numbers(words: NDArray[np.uint64], facts: TypeFacts | None) -> NDArray[Any]:
    """Bits as what the compiler says of the type: numbers, those of a short vector side by side, else an integer."""
    held = None if facts is None or facts.kind == "pointer" else element(facts)
    if held is None or facts is None:
        return words
    kind, count = held
    if kind == "bool":
        return np.asarray((words & np.uint64(0xFF)) != 0)
    bits = 8 * facts.size // count
    parts = [words >> np.uint64(bits * at) & np.uint64((1 << bits) - 1) for at in range(count)]
    columns: list[NDArray[Any]] = [_one(part, kind, bits) for part in parts]
    return columns[0] if count == 1 else np.stack(columns, axis=1)


def _one(words: NDArray[np.uint64], kind: str, bits: int) -> NDArray[Any]:
    numbers = decoded(words, kind, bits)
    signed: NDArray[Any] = numbers.view(numbers.dtype.str.replace("u", "i")) if kind[0] == "s" else numbers
    return signed
