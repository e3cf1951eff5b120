"""What travels between a launch and the process that runs it: plain data, picklable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from wmmadiag.launch import Dim3


@dataclass(frozen=True, slots=True)
class DevicePointer:
    """An argument that points into one of the launch's buffers, bytes from its start."""

    buffer: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class DeviceAddress:
    """An argument that points to memory that is already on the device."""

    value: int


WireField: TypeAlias = "DevicePointer | DeviceAddress | bytes"
WireArgument: TypeAlias = "WireField | tuple[WireField, ...]"
"""One parameter; a tuple holds the fields of a struct passed by value."""


@dataclass(frozen=True, slots=True)
class DeviceBuffer:
    """Host memory that is copied to the device for a launch, and back."""

    data: bytes | bytearray | memoryview  # its bytes
    writable: bool = True  # whether the kernel may change it


@dataclass(frozen=True, slots=True)
class Job:
    """One launch of one kernel."""

    key: str  # of the module, as it was loaded
    entry: str  # mangled name
    grid: Dim3
    block: Dim3
    shared_bytes: int
    arguments: Sequence[WireArgument]  # in order; offsets in the parameter block are the driver's business
    buffers: Sequence[DeviceBuffer]
    cooperative: bool = False  # all blocks must run at the same time, since they wait for each other


@dataclass(frozen=True, slots=True)
class Stray:
    """A write beside a buffer."""

    buffer: int  # number of the buffer
    before: bool  # whether it is before the buffer's start; else past its end
    distance: int  # bytes between the buffer and the nearest changed byte
    count: int  # changed bytes within reach of the guard


@dataclass(frozen=True, slots=True)
class Attributes:
    """What the driver says of a kernel."""

    registers: int = 0  # per thread
    local_bytes: int = 0  # stack and spills per thread
    static_shared: int = 0  # bytes per block
    max_threads: int = 0  # largest block that the kernel's registers allow
    blocks: int = 0  # blocks that one multiprocessor holds at a time for this launch; 0 if not asked


@dataclass(frozen=True, slots=True)
class LaunchDone:
    """A launch that ran to its end."""

    contents: Sequence[bytes | None]  # of each buffer afterwards; None where nothing may have changed
    changed: Sequence[int]  # read-only buffers that the kernel changed
    strays: Sequence[Stray]  # writes beside the buffers
    seconds: float  # on the device
    output: str  # of device printf
    attributes: Attributes = field(default_factory=Attributes)


OPT_IN = "opt in to the shared memory"
"""`Failed.doing` of what comes before a launch with much dynamic shared memory."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A driver call that failed."""

    code: int  # CUresult
    doing: str  # which call
    output: str = ""  # of device printf (an assertion's text is there)
    log: str = ""
    attributes: Attributes | None = None  # of the kernel, if it was loaded


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of repeated launches, on the device."""

    seconds: Sequence[float]  # of each timed launch, in order
    attributes: Attributes
