"""What a launch is at: on a terminal where it takes long, and for whoever ends a program."""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from wmmadiag.processes.waiting import telling

_EVERY = 5.0
_HEAD = struct.Struct("<QQQQ")  # of the running launch: blocks that have begun, blocks, number, bytes of its name
_BEHIND = struct.Struct("<QQQ")  # all but the first, which the engine writes
SHARED_BYTES = 1024
"""Of the memory in which a program's process says what it is at."""
_COMPILED = struct.Struct("<dd")  # seconds that kernels took to compile, and since when one is being compiled; 0: none
_COMPILED_AT = SHARED_BYTES - _COMPILED.size


@contextmanager
def compiling(shared: mmap.mmap | None) -> Iterator[None]:
    """Around the compilation of kernels, whose time is not the program's: says so in the memory that is shared."""
    if shared is None:
        yield
        return
    spent, since = _COMPILED.unpack_from(shared, _COMPILED_AT)
    begun = since or time.monotonic()  # the clock of all processes
    _COMPILED.pack_into(shared, _COMPILED_AT, spent, begun)
    try:
        yield
    finally:
        if not since:
            _COMPILED.pack_into(shared, _COMPILED_AT, spent + time.monotonic() - begun, 0.0)


def spent_compiling(shared: bytes) -> float:
    """Seconds that a process has spent so, by the memory that it shares."""
    spent, since = _COMPILED.unpack_from(shared, _COMPILED_AT)
    return float(spent) + (time.monotonic() - since if since else 0.0)


@dataclass
class BlockProgress:
    """Tells of launches that run for more than five seconds: how many blocks have begun, and the time left."""

    # whether anybody looks: standard error, as it is now, is a terminal
    wanted: bool = field(default_factory=lambda: sys.stderr.isatty())
    shared: mmap.mmap | None = None  # memory of `SHARED_BYTES` that the parent reads when it ends the program
    # the blocks of the running launch that have begun, as the engine counts them
    begun: ctypes.c_uint64 = field(default_factory=ctypes.c_uint64)

    def __post_init__(self) -> None:
        if self.shared is not None:
            self.begun = ctypes.c_uint64.from_buffer(self.shared)

    @property
    def address(self) -> int:
        """Of the count, for the engine; 0: nobody looks."""
        return ctypes.addressof(self.begun) if self.wanted or self.shared is not None else 0

    def _share(self, number: int, name: str, blocks: int) -> None:
        if self.shared is not None:
            text = name.encode()[: _COMPILED_AT - _HEAD.size]
            self.shared[_HEAD.size : _HEAD.size + len(text)] = text
            _BEHIND.pack_into(self.shared, 8, blocks, number, len(text))

    @contextmanager
    def of(self, number: int, name: str, blocks: int) -> Iterator[None]:
        """Around a launch: its number, the kernel's name, and its blocks."""
        self.begun.value = 0
        self._share(number, name, blocks)
        try:
            with self._told(number, name, blocks):
                yield
        finally:
            self._share(number, name, 0)

    @contextmanager
    def _told(self, number: int, name: str, blocks: int) -> Iterator[None]:
        if not self.wanted:
            yield
            return
        told = [(0.0, 0)]  # after how many seconds how many had begun
        runs = [0.0]  # when each began: blocks whose order matters run again, one after another

        def tell(seconds: float) -> None:
            before, begun = told[-1], self.begun.value
            if begun < before[1]:
                runs.append(before[0])
            told.append((seconds, begun))
            words = said(seconds, begun, blocks, runs)
            sys.stderr.write(f"\r\x1b[Kwmmadiag: launch {number}, {name}: {words}")
            sys.stderr.flush()

        try:
            with telling(tell, _EVERY, _EVERY):
                yield
        finally:
            if len(told) > 1:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()


def said(seconds: float, begun: int, blocks: int, runs: Sequence[float] = (0.0,)) -> str:
    """How far a launch is; the last block that began counts for half. `runs`: when each run of its blocks began."""
    done = max(begun - 0.5, 0.0)
    left = f", about {(seconds - runs[-1]) * (blocks - done) / done:.0f} s left" if 0 < done < blocks else ""
    again = f"run {len(runs)}, " if len(runs) > 1 else ""
    return f"{seconds:.0f} s, {again}{min(begun, blocks):,} of {blocks:,} blocks{left}"


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a program stood that was ended."""

    launches: int  # that had begun
    kernel: str  # of the last one
    # blocks of it, and how many had begun; `blocks` 0: no launch was running
    blocks: int
    begun: int

    @classmethod
    def of(cls, shared: bytes) -> Reached:
        """What stands in the memory that its process wrote."""
        begun, blocks, number, length = _HEAD.unpack_from(shared)
        name = shared[_HEAD.size :][:length].decode("utf-8", "replace")
        return cls(number, name, blocks, min(begun, blocks))

    def __str__(self) -> str:
        if not self.launches:
            return "before its first launch"
        if not self.blocks:
            return f"in host code behind launch {self.launches}, of {self.kernel}"
        return f"in launch {self.launches}, of {self.kernel}: {self.begun:,} of {self.blocks:,} blocks had begun"
