"""What travels between a launch and the process that runs it: plain data, picklable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from wmmadiag.launch import Dim3


@dataclass(frozen=True, slots=True)
class Pointer:
    """An argument that points into one of the launch's buffers, bytes from its start."""

    buffer: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """An argument that points to memory that is already on the device."""

    value: int


WireField: TypeAlias = "Pointer | Address | bytes"
WireArgument: TypeAlias = "WireField | tuple[WireField, ...]"
"""One parameter; a tuple holds the fields of a struct passed by value."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Host memory that is copied to the device for a launch, and back.

    Attributes:
        data: its bytes.
        writable: whether the kernel may change it.
    """

    data: bytes | bytearray | memoryview
    writable: bool = True


@dataclass(frozen=True, slots=True)
class Job:
    """One launch of one kernel.

    Attributes:
        key: of the module, as it was loaded.
        entry: mangled name.
        arguments: in order; offsets in the parameter block are the driver's business.
        cooperative: all blocks must run at the same time, since they wait for each other.
    """

    key: str
    entry: str
    grid: Dim3
    block: Dim3
    shared_bytes: int
    arguments: Sequence[WireArgument]
    buffers: Sequence[Buffer]
    cooperative: bool = False


@dataclass(frozen=True, slots=True)
class Stray:
    """A write beside a buffer.

    Attributes:
        buffer: number of the buffer.
        before: whether it is before the buffer's start; else past its end.
        distance: bytes between the buffer and the nearest changed byte.
        count: changed bytes within reach of the guard.
    """

    buffer: int
    before: bool
    distance: int
    count: int


@dataclass(frozen=True, slots=True)
class Attributes:
    """What the driver says of a kernel.

    Attributes:
        registers: per thread.
        local_bytes: stack and spills per thread.
        static_shared: bytes per block.
        max_threads: largest block that the kernel's registers allow.
        blocks: blocks that one multiprocessor holds at a time for this launch; 0 if not asked.
    """

    registers: int = 0
    local_bytes: int = 0
    static_shared: int = 0
    max_threads: int = 0
    blocks: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """A launch that ran to its end.

    Attributes:
        contents: of each buffer afterwards; None where nothing may have changed.
        changed: read-only buffers that the kernel changed.
        strays: writes beside the buffers.
        seconds: on the device.
        output: of device printf.
    """

    contents: Sequence[bytes | None]
    changed: Sequence[int]
    strays: Sequence[Stray]
    seconds: float
    output: str
    attributes: Attributes = field(default_factory=Attributes)


OPT_IN = "opt in to the shared memory"
"""`Failed.doing` of what comes before a launch with much dynamic shared memory."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A driver call that failed.

    Attributes:
        code: CUresult.
        doing: which call.
        output: of device printf (an assertion's text is there).
        attributes: of the kernel, if it was loaded.
    """

    code: int
    doing: str
    output: str = ""
    log: str = ""
    attributes: Attributes | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of repeated launches, on the device.

    Attributes:
        seconds: of each timed launch, in order.
        copies: sets of buffers that the launches went through in turn, so that none finds its data in the cache.
    """

    seconds: Sequence[float]
    copies: int
    attributes: Attributes
