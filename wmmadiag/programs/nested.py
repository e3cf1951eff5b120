"""Kernels that launch kernels: what `native/device/launches.cu` wrote down while a grid ran."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from wmmadiag.launch import Dim3
from wmmadiag.programs.shipped import NATIVE

SOURCE = NATIVE / "device" / "launches.cu"
DEVICE_RUNTIME = "__cudaCDP2"
"""Functions of the device runtime begin so."""
QUEUE = "wmmadiag_launches"
"""The variable that holds what was launched, and its name as memory."""
_OURS = re.compile(r"\bwmmadiag_([A-Z]\w+)\b")
_HEAD, _RECORD, _PARAMETERS, _MOST = 128, 4224, 4096, 2048
_TAIL = 3
"""cudaStreamTailLaunch: once the grid and all others that it launched are done."""


class _Launch(ctypes.Structure):
    _fields_ = (
        ("kernel", ctypes.c_uint64), ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint32), ("turn", ctypes.c_uint32), ("stream", ctypes.c_uint64),
        ("unused", ctypes.c_uint64 * 10), ("parameters", ctypes.c_uint8 * _PARAMETERS),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class NestedLaunch:
    """One launch by a kernel: the number that the kernel's address is, and how."""

    kernel: int
    grid: Dim3
    block: Dim3
    shared: int
    parameters: bytes
    number: int  # its place in the queue
    tail: bool  # whether it runs once the grid that launched it is done


OWN = {1: "wmmadiag_copied", 2: "wmmadiag_filled"}
"""Kernels of `launches.cu` by the numbers that stand for their addresses: copies and fills."""


def named(ptx: str) -> str:
    """The PTX of `launches.cu` under the names that compilers call."""
    return _OURS.sub(rf"{DEVICE_RUNTIME}\1", ptx)


def empty_queue() -> bytes:
    """What the queue holds before the first launch."""
    return bytes(_HEAD + _MOST * _RECORD)


def taken(view: int) -> Sequence[NestedLaunch]:
    """What was launched, in a legal order, and taken out of the queue.

    Args:
        view: where this process has the queue's bytes.
    """
    head = (ctypes.c_uint32 * 4).from_address(view)
    begun = min(head[0], _MOST)
    records = [(number, _Launch.from_address(view + _HEAD + number * _RECORD)) for number in range(begun)]
    launched = sorted((one for one in records if one[1].turn), key=lambda one: (one[1].stream == _TAIL, one[1].turn))
    found = [
        NestedLaunch(
            one.kernel,
            tuple(one.grid),
            tuple(one.block),
            one.shared,
            bytes(one.parameters),
            number,
            one.stream == _TAIL,
        )
        for number, one in launched
    ]
    head[0] = head[1] = 0
    return found


def turn_at(number: int) -> int:
    """The offset in the queue's bytes of what is written last where a launch is made."""
    return _HEAD + number * _RECORD + _Launch.turn.offset


def entry_at(address: int, names: Iterable[str], address_of: Callable[[str], int]) -> str | None:
    """The kernel that an address stands for, by its name in the PTX."""
    return next((name for name in names if address_of(name) == address), None)
