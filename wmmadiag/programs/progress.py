"""What a launch that takes long is at, on a terminal."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_FIRST, _EVERY = 5.0, 5.0


@dataclass
class Progress:
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
        ended = threading.Event()
        teller = threading.Thread(target=self._tell, args=(ended, f"launch {number}, {name}", blocks))
        teller.start()
        try:
            yield
        finally:
            ended.set()
            teller.join()

    def _tell(self, ended: threading.Event, what: str, blocks: int) -> None:
        begun, wait = time.monotonic(), _FIRST
        told = False
        while not ended.wait(wait):
            wait, told = _EVERY, True
            sys.stderr.write(f"\r\x1b[Kwmmadiag: {what}: {said(time.monotonic() - begun, self.begun.value, blocks)}")
            sys.stderr.flush()
        if told:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def said(seconds: float, begun: int, blocks: int) -> str:
    """How far a launch is; the last block that began counts for half."""
    done = max(begun - 0.5, 0.0)
    left = f", about {seconds * (blocks - done) / done:.0f} s left" if 0 < done < blocks else ""
    return f"{seconds:.0f} s, {min(begun, blocks):,} of {blocks:,} blocks{left}"
