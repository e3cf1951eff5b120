"""What a launch that takes long is at, on a terminal."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from wmmadiag.processes.waiting import telling

_EVERY = 5.0


@dataclass
class BlockProgress:
    """Tells of launches that run for more than five seconds: how many blocks have begun, and the time left."""

    wanted: bool = field(default_factory=sys.stderr.isatty)  # whether anybody looks: standard error is a terminal
    # the blocks of the running launch that have begun, as the engine counts them
    begun: ctypes.c_uint64 = field(default_factory=ctypes.c_uint64)

    @property
    def address(self) -> int:
        """Of the count, for the engine; 0: nobody looks."""
        return ctypes.addressof(self.begun) if self.wanted else 0

    @contextmanager
    def of(self, number: int, name: str, blocks: int) -> Iterator[None]:
        """Around a launch: its number, the kernel's name, and its blocks."""
        if not self.wanted:
            yield
            return
        self.begun.value = 0
        told = []

        def tell(seconds: float) -> None:
            told.append(seconds)
            sys.stderr.write(f"\r\x1b[Kwmmadiag: launch {number}, {name}: {said(seconds, self.begun.value, blocks)}")
            sys.stderr.flush()

        try:
            with telling(tell, _EVERY, _EVERY):
                yield
        finally:
            if told:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()


def said(seconds: float, begun: int, blocks: int) -> str:
    """How far a launch is; the last block that began counts for half."""
    done = max(begun - 0.5, 0.0)
    left = f", about {seconds * (blocks - done) / done:.0f} s left" if 0 < done < blocks else ""
    return f"{seconds:.0f} s, {min(begun, blocks):,} of {blocks:,} blocks{left}"
