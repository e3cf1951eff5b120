"""How long a program still takes, as far as its running launch shows; and its end where that is too long.

The blocks of a launch are counted as they begin, so what is left of it is known after a few of them. What comes behind
it is not: the time is the least that the program takes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from wmmadiag.processes.life import end_group
from wmmadiag.programs.progress import SHARED_BYTES, Reached, spent_compiling
from wmmadiag.programs.start import Started

_LOOKS = 0.5
"""Seconds from one look at what is reached to the next."""
_KNOWN = 4.0
"""Seconds of a launch after which its pace is known: a watched launch makes its tables first."""
_SURE = 2.0
"""A launch is given up whose rest takes so many times what is left: blocks are not all alike."""
_ADVICE = (10.0, 60.0)
"""The advice is given after so many seconds, where so many are left at least."""


@dataclass
class Pace:
    """What is left of the launch that runs."""

    _number: int = 0
    _begun: int = 0
    _since: float = 0.0

    def left(self, reached: Reached, now: float) -> float:
        """Seconds that its blocks take at least which have not begun, at the pace of those that have; 0: not known."""
        if not reached.blocks:
            self._number = 0
            return 0.0
        if reached.launches != self._number or reached.begun < self._begun:  # blocks whose order matters run again
            self._number, self._since = reached.launches, now
        self._begun = reached.begun
        spent = now - self._since
        if spent < _KNOWN or not reached.begun:
            return 0.0
        return spent * (reached.blocks - reached.begun) / reached.begun


@dataclass
class PaceWatch:
    """Looks at a program while it runs, and ends it when its time is over.

    Attributes:
        process: it. shared: of the memory in which it says what it is at, the descriptor.
        seconds: after which it is ended; 0: never.
        compiling: how many more it may take, as long as its kernels are compiled.
        early: whether it is ended as soon as it is plain that it takes far longer.
        advise: told once what is left of a launch that takes long: where that is, and seconds.
        cut_off: why it was ended, as the end of "the program …"; "" where it was not.
    """

    process: Started
    shared: int
    seconds: float = 0.0
    compiling: float = 0.0
    early: bool = False
    advise: Callable[[Reached, float], None] | None = None
    cut_off: str = field(default="", init=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def begin(self) -> None:
        """Look from now on, where there is anything to do."""
        if self.seconds or self.advise is not None:
            self._thread = threading.Thread(target=self._looks, name="pace", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """The program has ended."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _looks(self) -> None:
        begun, pace = time.monotonic(), Pace()
        while True:
            now, state = time.monotonic(), os.pread(self.shared, SHARED_BYTES, 0)
            more = min(spent_compiling(state), self.compiling) if self.compiling else 0.0
            over = begun + self.seconds + more
            if self.seconds and now >= over:
                return self._cut(f"did not end within {self.seconds:g} s, and was ended")
            reached = Reached.of(state)
            left = pace.left(reached, now)
            if self.early and self.seconds and left > _SURE * (over - now):
                return self._cut(f"would not end within {self.seconds:g} s, since this launch alone takes"
                                 f" {lasting(left)} more, and was ended")  # fmt: skip
            if self.advise is not None and now - begun >= _ADVICE[0] and left >= _ADVICE[1]:
                self.advise(reached, left)
                self.advise = None
            if self._ended.wait(min(_LOOKS, over - now) if self.seconds else _LOOKS):
                return None

    def _cut(self, why: str) -> None:
        self.cut_off = why
        end_group(self.process.pid)


def lasting(seconds: float) -> str:
    """A length of time, roughly: "about 90 s", "about 7,200 s (2 hours)"."""
    rounded = float(f"{seconds:.2g}")
    hours = rounded / 3600
    more = "" if hours < 1 else f" ({hours:.0f} hour{'s' if hours >= 1.5 else ''})"
    return f"about {rounded:,.0f} s{more}"
