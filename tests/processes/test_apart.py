"""Work in a copy of this process: what it returns and raises comes back, what it dies of is told."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time

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


@pytest.fixture
def copy():
    one = Copy()
    yield one
    one.stop()


def dies(number: int) -> None:
    faulthandler.disable()
    os.kill(os.getpid(), number)


def doubled(word: str, *, times: int = 1) -> str:
    return word * 2 * times


def test_one_copy_answers_again_and_again(copy):
    first = copy.call(os.getpid)
    assert first != os.getpid() and copy.call(os.getpid) == first
    assert copy.call(doubled, "ab", times=2) == "abababab"
    with pytest.raises(ZeroDivisionError):
        copy.call(divmod, 1, 0)
    assert copy.call(os.getpid) == first


def test_a_copy_that_dies_says_of_what_and_the_next_call_has_another(copy):
    first = copy.call(os.getpid)
    with pytest.raises(ChildEnded) as told:
        copy.call(dies, signal.SIGSEGV)
    assert told.value.words() == "signal SIGSEGV"
    assert copy.call(os.getpid) not in (first, os.getpid())


def test_a_copy_that_is_stopped_is_gone(copy):
    process = copy.call(os.getpid)
    copy.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_who_waits_for_a_copy_that_somebody_stops_is_told_and_the_next_answer_is_its_own(copy):
    told: list[ChildEnded] = []

    def waits() -> None:
        try:
            copy.call(time.sleep, 60)
        except ChildEnded as end:
            told.append(end)

    first = copy.call(os.getpid)
    waiting = threading.Thread(target=waits)
    waiting.start()
    time.sleep(0.2)
    copy.stop()
    assert copy.call(doubled, "ab") == "abab" and copy.call(os.getpid) != first
    waiting.join(10)
    assert not waiting.is_alive() and len(told) == 1
