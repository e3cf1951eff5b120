"""Waiting for a compiler: results, failures, what is told, and interrupts."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from wmmadiag.processes import waiting


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.setattr(waiting, "FIRST", 0.05)
    monkeypatch.setattr(waiting, "AGAIN", 0.02)
    lines: list[str] = []
    waiting.tell_by(lines.append)
    yield lines
    waiting.tell_by(None)


def test_what_is_quick_is_not_spoken_of(told: list[str]) -> None:
    assert waiting.waited_for(lambda: 3, "compiling") == 3
    assert told == []


def test_what_takes_long_is_told(told: list[str]) -> None:
    assert waiting.waited_for(lambda: time.sleep(0.4), "compiling k.cu") is None
    assert told and told[0] == "compiling k.cu, 0 s"


def test_long_waits_are_summed(told: list[str]) -> None:
    before = waiting.long_waits()
    waiting.waited_for(lambda: None, "compiling")
    assert waiting.long_waits() == before
    waiting.waited_for(lambda: time.sleep(0.4), "compiling")
    assert before + 0.4 <= waiting.long_waits() < before + 60


def test_failures_come_back(told: list[str]) -> None:
    with pytest.raises(KeyError, match="gone"):
        waiting.waited_for(lambda: {}["gone"], "compiling")


def test_in_another_thread_nothing_is_told(told: list[str]) -> None:
    thread = threading.Thread(target=lambda: waiting.waited_for(lambda: time.sleep(0.2), "compiling"))
    thread.start()
    thread.join()
    assert told == []


def test_an_interrupt_ends_the_wait(told: list[str]) -> None:
    ended = threading.Event()
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        waiting.waited_for(lambda: ended.wait(20), "compiling")
    assert time.monotonic() - began < 10
    ended.set()


@pytest.mark.slow
def test_the_compiler_leaves_python_alone(told: list[str]) -> None:
    from wmmadiag.compile.driver import compile_text

    text = "#include <cooperative_groups.h>\n#include <mma.h>\n__global__ void k(float *x) { *x = 1; }\n"
    assert compile_text(text, "slow.cu", use_cache=False).entries
    assert any("slow.cu" in line for line in told)
