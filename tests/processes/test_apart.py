"""Work in a copy of this process: what it returns and raises comes back, what it dies of is told."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

from wmmadiag.errors import CompileError
from wmmadiag.place import Place
from wmmadiag.processes.apart import Copy, apart
from wmmadiag.processes.child import ChildEnded

pytestmark = pytest.mark.subprocess


def test_what_it_returns_comes_back():
    here = os.getpid()
    there, text = apart(lambda: (os.getpid(), "x" * 200_000))  # more than a pipe holds
    assert there != here and len(text) == 200_000


def test_what_it_raises_comes_back_whole():
    def work():
        raise CompileError("refused", place=Place("a.cu", 3), detail="log", hint="mend it")

    with pytest.raises(CompileError) as told:
        apart(work)
    assert (told.value.message, told.value.place, told.value.hint) == ("refused", Place("a.cu", 3), "mend it")
    assert str(told.value) == "a.cu:3: refused\nlog\nnext: mend it"


@pytest.mark.parametrize(
    ("work", "status", "words"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), -signal.SIGKILL, "signal SIGKILL"),
        (lambda: (faulthandler.disable(), os.abort()), -signal.SIGABRT, "signal SIGABRT"),
        (lambda: os._exit(7), 7, "exit status 7"),
        (lambda: os._exit(0), 0, "exit status 0"),
        (lambda: lambda: 0, 1, "exit status 1"),  # an answer that cannot be told
    ],
)
def test_what_it_dies_of_is_told(capfd, work, status, words):
    with pytest.raises(ChildEnded) as told:
        apart(work)
    assert (told.value.status, told.value.words()) == (status, words)
    assert capfd.readouterr().err == ""


def test_what_it_changes_is_its_own():
    seen = []
    assert apart(lambda: seen.append(1) or len(seen)) == 1
    assert seen == []


def called(request):
    work, *given = request
    return work(*given)


@pytest.fixture
def copy():
    one = Copy(called)
    yield one
    one.stop()


def dies(number: int) -> None:
    faulthandler.disable()
    os.kill(os.getpid(), number)


def doubled(word: str) -> str:
    return word * 2


def test_one_copy_answers_again_and_again(copy):
    first = copy.ask([os.getpid])
    assert first != os.getpid() and copy.ask([os.getpid]) == first
    assert copy.ask([doubled, "ab"]) == "abab"
    with pytest.raises(ZeroDivisionError):
        copy.ask([divmod, 1, 0])
    assert copy.ask([os.getpid]) == first


def test_a_copy_knows_what_this_process_knew_when_it_was_made():
    known = [1]
    one = Copy(lambda more: [*known, more])
    one.begin()
    known.append(2)
    try:
        assert one.ask(3) == [1, 3]
    finally:
        one.stop()


def test_a_copy_that_dies_says_of_what_and_the_next_request_has_another(copy):
    first = copy.ask([os.getpid])
    with pytest.raises(ChildEnded) as told:
        copy.ask([dies, signal.SIGSEGV])
    assert told.value.words() == "signal SIGSEGV"
    assert copy.ask([os.getpid]) not in (first, os.getpid())


def gone(process: int) -> bool:
    """Whether a process ends within some seconds."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def test_a_copy_that_is_stopped_is_gone_and_so_is_what_it_started(copy):
    process = copy.ask([os.getpid])
    further = copy.ask([sleeper])
    copy.stop()
    assert gone(process) and gone(further)


def sleeper() -> int:
    return subprocess.Popen(["sleep", "60"]).pid


def test_a_copy_that_is_stopped_holds_nothing_that_it_answered_from():
    known = np.zeros(3)
    one = Copy(known.item)
    held = weakref.ref(known)
    assert one.ask(0) == 0.0
    one.stop()
    del one, known
    gc.collect()
    assert held() is None


def test_copies_end_with_this_process_whatever_ends_it():
    """Each holds nothing of the others that would keep them alive."""
    script = (
        "import os, signal, time\n"
        "from wmmadiag.processes.apart import Copy\n"
        "copies = [Copy(lambda _: os.getpid()) for _ in range(3)]\n"
        "copies.append(Copy(lambda nested: nested.ask(0) if nested else time.sleep(60)))\n"
        "print(*[one.ask(0) for one in copies[:3]], flush=True)\n"
        "copies[3].begin(); print(copies[3]._process, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    started = [int(one) for one in told.stdout.split()]
    assert len(set(started)) == 4 and all(map(gone, started)), told.stderr


def test_who_waits_for_a_copy_that_somebody_stops_is_told_and_the_next_answer_is_its_own(copy):
    told: list[ChildEnded] = []

    def waits() -> None:
        try:
            copy.ask([time.sleep, 60])
        except ChildEnded as end:
            told.append(end)

    first = copy.ask([os.getpid])
    waiting = threading.Thread(target=waits)
    waiting.start()
    time.sleep(0.2)
    copy.stop()
    assert copy.ask([doubled, "ab"]) == "abab" and copy.ask([os.getpid]) != first
    waiting.join(10)
    assert not waiting.is_alive() and len(told) == 1


@pytest.mark.timeout(30)
def test_a_copy_that_has_just_begun_is_ended(monkeypatch):
    monkeypatch.setattr(os, "setsid", lambda: time.sleep(600))
    copy = Copy(lambda request: request)
    copy.begin()
    assert copy.stop() == -signal.SIGKILL
