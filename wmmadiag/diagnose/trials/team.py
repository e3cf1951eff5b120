"""Processes that try changes beside this one: each has a bench of its own for the same case.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.trials.holes import Sketch
from wmmadiag.emulator.trials import ENDLESS
from wmmadiag.processes.child import Child, ChildEnded
from wmmadiag.processes.collection import rare_collection
from wmmadiag.processes.scratch import scratch_folder
from wmmadiag.subject.card import Card, Case, Variant

_MOST = 4
"""Processes, this one included: each takes the memory of a compiler, and more of them wait for the first."""
_HELD = 2
"""Benches that a child keeps: the kernel as it is, and one with a change kept."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a `trial_bench.TrialBench` is made of."""

    card: Card
    variant: Variant
    case: Case
    arch: str = "sm_90"
    texts: Mapping[str, bytes] = field(default_factory=dict)  # of some files, by path, in place of what the disk has
    # seed, inputs: of the case's inputs, in place of the card's
    seed: int | None = None
    inputs: str = ""
    budget: int = ENDLESS  # warp instructions of a launch where the kernel itself does not end


@dataclass(frozen=True, slots=True)
class Part:
    """Changes that are tried together."""

    changes: tuple[Change, ...]
    apart: bool  # each is compiled as a text of its own
    looks: int
    # what is tried is two of them at once, by their places among them; none: each alone
    pairs: tuple[tuple[int, int], ...] = ()
    defers: bool = False  # what turns out to need a text of its own is not tried


Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class _Member:
    """One child, the folder of what it writes, which it may leave behind, and the setting that it makes a bench of."""

    def __init__(self) -> None:
        self.folder = str(scratch_folder("trials"))
        self.child = Child("wmmadiag.diagnose.trials.team:answer", self.folder)
        self.setting: Setting | None = None
        self.threads = 1
        self.owed = False

    def expect(self, setting: Setting, threads: int) -> None:
        """Have a bench made; its answer is taken later.

        Raises:
            ChildEnded: the child is gone.
        """
        if self.setting is setting and self.child.running:
            return
        if self.owed and not self.child.connection().poll():
            self.stop()  # it still makes a bench that nobody wants any more
        self._settle()
        self.child.send((setting, threads))
        self.setting, self.threads, self.owed = setting, threads, True

    def ask(self, part: Any) -> Any:
        """What became of a part or a sketch; None where the child could not make its bench.

        Raises:
            ChildEnded: the child is gone.
        """
        self._settle()
        return self.child.ask(part)

    def _settle(self) -> None:
        if self.owed:
            self.owed = False
            self.child.receive()

    def stop(self) -> None:
        """End the child."""
        self.child.stop()
        self.setting, self.owed = None, False


_MEMBERS: list[_Member] = []
_LOCK = threading.Lock()
_OWNER = os.getpid()


def processes(threads: int) -> int:
    """How many processes share so many threads; 0: all that this process may use."""
    return min(threads or len(os.sched_getaffinity(0)), _MOST)


def threads_each(threads: int) -> int:
    """Threads of each of these processes."""
    return max(1, (threads or len(os.sched_getaffinity(0))) // processes(threads))


def start(threads: int) -> None:
    """Start the children that so many threads ask for: they import while this process does something else.

    Where the system allows no more of them, this process does the work.
    """
    with contextlib.suppress(OSError):
        while len(_MEMBERS) < processes(threads) - 1:
            _MEMBERS.append(_Member())
        for member in _MEMBERS[: processes(threads) - 1]:
            member.child.connection()


def expect(setting: Setting, threads: int) -> None:
    """Have the children that run already make their benches."""
    for member in _MEMBERS[: processes(threads) - 1]:
        if member.child.running:
            try:
                member.expect(setting, threads_each(threads))
            except (ChildEnded, OSError):
                member.stop()


def share(setting: Setting, parts: Sequence[Asked], own: Callable[[Asked], Answer], threads: int) -> list[Answer]:
    """Try parts or sketches here and in the children, each where somebody is free.

    Args:
        own: tries a part in this process.

    Returns:
        One answer per part, in their order.
    """
    found: dict[int, Answer] = {}
    waiting = list(reversed(range(len(parts))))
    again: list[int] = []
    failed: list[BaseException] = []

    def serve(member: _Member) -> None:
        number = -1
        try:
            member.expect(setting, threads_each(threads))
            while waiting:
                number = waiting.pop()
                answer = member.ask(parts[number])
                if answer is None:
                    again.append(number)
                    return
                found[number] = answer
        except (ChildEnded, OSError, IndexError):  # it is gone, or never came; or somebody else took the last part
            if number >= 0 and number not in found:
                again.append(number)
        except BaseException as error:
            failed.append(error)

    with _LOCK:
        start(threads)
        helping = _MEMBERS[: min(processes(threads), len(parts)) - 1]
        helpers = [threading.Thread(target=serve, args=(member,), daemon=True) for member in helping]
        for one in helpers:
            one.start()
        try:
            _serve_here(waiting, parts, own, found)
            for one in helpers:
                one.join()
        except BaseException:
            for member in helping:
                member.stop()
            raise
        if failed:
            raise failed[0]
        _serve_here(again, parts, own, found)
    return [found[number] for number in range(len(parts))]


def _serve_here(
    waiting: list[int], parts: Sequence[Asked], own: Callable[[Asked], Answer], found: dict[int, Answer]
) -> None:
    while waiting:
        try:
            number = waiting.pop()
        except IndexError:
            return
        found[number] = own(parts[number])


@rare_collection()
def answer(connection: Connection, folder: str) -> None:
    """In a child: try parts until the connection closes.

    Args:
        folder: for temporary files; whoever started it removes them.

    Raises:
        EOFError: it is closed.
    """
    from wmmadiag.diagnose.trials.trial_bench import TrialBench
    from wmmadiag.errors import WmmadiagError

    tempfile.tempdir = folder
    held: list[tuple[Setting, TrialBench | None]] = []
    bench: TrialBench | None = None
    while True:
        request = connection.recv()
        if isinstance(request, Part):
            connection.send(bench.try_part(request) if bench is not None else None)
            continue
        if isinstance(request, Sketch):
            connection.send(bench.try_sketch(request) if bench is not None else None)
            continue
        setting, threads = request
        bench = next((one for known, one in held if known == setting), None)
        if bench is None:
            like = next((one for known, one in held if known.card == setting.card), None)
            with contextlib.suppress(WmmadiagError, OSError):
                bench = TrialBench(setting, threads, like)
                bench.settle()
            held = [*held, (setting, bench)][-_HELD:]
        connection.send(bench is not None)


@atexit.register
def stop() -> None:
    """End the children."""
    if os.getpid() == _OWNER:
        while _MEMBERS:
            member = _MEMBERS.pop()
            member.stop()
            shutil.rmtree(member.folder, ignore_errors=True)
