"""What a launch that takes long is at, on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_FIRST, _EVERY = 5.0, 5.0


@dataclass
class Progress:
    """Tells of launches that run for more than five seconds; the time left is that of the same kernel's earlier blocks.

    Attributes:
        wanted: whether anybody looks: standard error is a terminal.
    """

    wanted: bool = field(default_factory=sys.stderr.isatty)
    _seconds: dict[tuple[int, bool], float] = field(default_factory=dict)

    @contextmanager
    def of(self, number: int, kernel: int, name: str, blocks: int, watched: bool) -> Iterator[None]:
        """Around a launch: its number, the kernel's, its blocks, and whether checks watch it."""
        begun = time.monotonic()
        ended = threading.Event()
        teller = threading.Thread(
            target=self._tell, args=(ended, f"launch {number}, {name}", self._seconds.get((kernel, watched)), blocks)
        )
        if self.wanted:
            teller.start()
        try:
            yield
        finally:
            ended.set()
            if self.wanted:
                teller.join()
            self._seconds[kernel, watched] = (time.monotonic() - begun) / blocks

    def _tell(self, ended: threading.Event, what: str, of_block: float | None, blocks: int) -> None:
        elapsed, wait = 0.0, _FIRST
        told = False
        while not ended.wait(wait):
            elapsed, wait, told = elapsed + wait, _EVERY, True
            left = f", about {max(of_block * blocks - elapsed, 0):.0f} s left" if of_block is not None else ""
            sys.stderr.write(f"\r\x1b[Kwmmadiag: {what}: {elapsed:.0f} s, {blocks:,} blocks{left}")
            sys.stderr.flush()
        if told:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
