"""Processes that try changes beside this one: copies of it, each with the bench that asks.

Reading and lowering programs is Python's work, and NVRTC compiles one program at a time in a process, so that threads
alone leave processors idle. Parts of the work go to whoever is free; what becomes of a change depends on the part that
it is in, never on who tried it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.trials.holes import Filled, Sketch
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.processes.apart import Copy
from wmmadiag.processes.child import ChildEnded
from wmmadiag.processes.scratch import scratch_folder

_MOST = 4
"""Processes, this one included: each takes the memory of a compiler, and more of them wait for the first."""


@dataclass(frozen=True, slots=True)
class Part:
    """Changes that are tried together."""

    changes: tuple[Change, ...]
    apart: bool  # each is compiled as a text of its own
    looks: int
    # what is tried is two of them at once, by their places among them; none: each alone
    pairs: tuple[tuple[int, int], ...] = ()
    defers: bool = False  # what turns out to need a text of its own is not tried


class Trying(Protocol):
    """Tries parts of the work and sketches; `trial_bench.TrialBench` is one."""

    def try_part(self, part: Part) -> list[Outcome]:
        """One outcome per change, in their order."""

    def try_sketch(self, sketch: Sketch) -> Filled:
        """What may stand in its holes."""


class _Member:
    """One copy of this process, the bench that it has, and the folder of what it writes, which it may leave behind."""

    def __init__(self) -> None:
        self._folder = str(scratch_folder("trials"))
        self._bench: Trying | None = None
        self.copy = Copy(self._answer)

    def begin(self, bench: Trying) -> None:
        """Be a copy that has this bench.

        Raises:
            OSError: the system makes none.
        """
        if self._bench is not bench:
            self.copy.stop()
            self._bench = bench
        self.copy.begin()

    def _answer(self, asked: Part | Sketch) -> list[Outcome] | Filled:
        tempfile.tempdir = self._folder
        assert self._bench is not None
        return _tried(self._bench, asked)

    def stop(self) -> None:
        """End the copy, and leave nothing of it."""
        self.copy.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


_MEMBERS: list[_Member] = []
_LOCK = threading.Lock()
_OWNER = os.getpid()


def processes(threads: int) -> int:
    """How many processes share so many threads; 0: all that this process may use."""
    return min(threads or len(os.sched_getaffinity(0)), _MOST)


def threads_each(threads: int) -> int:
    """Threads of each of these processes."""
    return max(1, (threads or len(os.sched_getaffinity(0))) // processes(threads))


@overload
def share(bench: Trying, parts: Sequence[Part], threads: int) -> list[list[Outcome]]: ...
@overload
def share(bench: Trying, parts: Sequence[Sketch], threads: int) -> list[Filled]: ...
def share(bench: Trying, parts: Sequence[Part] | Sequence[Sketch], threads: int) -> list[list[Outcome]] | list[Filled]:
    """Try parts or sketches here and in copies of this process, each where somebody is free.

    Where the system makes no copies, this process does the work.

    Returns:
        One answer per part, in their order.
    """
    found: dict[int, Any] = {}
    waiting = list(reversed(range(len(parts))))
    again: list[int] = []
    failed: list[BaseException] = []

    def serve(member: _Member) -> None:
        number = -1
        try:
            while waiting:
                number = waiting.pop()
                found[number] = member.copy.ask(parts[number])
        except (ChildEnded, OSError, IndexError):  # it is gone; or somebody else took the last part
            if number >= 0 and number not in found:
                again.append(number)
        except BaseException as error:
            failed.append(error)

    def serve_here(numbers: list[int]) -> None:
        with contextlib.suppress(IndexError):  # somebody else took the last part
            while numbers:
                number = numbers.pop()
                found[number] = _tried(bench, parts[number])

    with _LOCK:
        helping = _begun(bench, min(processes(threads), len(parts)) - 1)
        helpers = [threading.Thread(target=serve, args=(member,), daemon=True) for member in helping]
        for one in helpers:
            one.start()
        try:
            serve_here(waiting)
            for one in helpers:
                one.join()
        except BaseException:
            for member in helping:
                member.copy.stop()
            raise
        if failed:
            raise failed[0]
        serve_here(again)
    return [found[number] for number in range(len(parts))]


def _begun(bench: Trying, count: int) -> list[_Member]:
    """So many copies with a bench, or as many as the system makes. They are made before any thread is."""
    ready: list[_Member] = []
    with contextlib.suppress(OSError):
        while len(_MEMBERS) < count:
            _MEMBERS.append(_Member())
        for member in _MEMBERS[:count]:
            member.begin(bench)
            ready.append(member)
    return ready


def _tried(bench: Trying, asked: Part | Sketch) -> list[Outcome] | Filled:
    return bench.try_part(asked) if isinstance(asked, Part) else bench.try_sketch(asked)


@atexit.register
def stop() -> None:
    """End the copies."""
    if os.getpid() == _OWNER:
        while _MEMBERS:
            _MEMBERS.pop().stop()
