"""Child processes: they answer, they end with their parent however it ends, and they take nobody with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from wmmadiag.processes.child import Child, ChildEnded, ChildSilent

pytestmark = pytest.mark.subprocess

SERVANT = """
    import os, sys, time
    def serve(connection, *words):
        while True:
            request = connection.recv()
            if request == "crash":
                os.abort()
            if request == "leave":
                os._exit(0)
            if request == "raise":
                import threading
                threading.Thread(target=time.sleep, args=(600,)).start()
                raise KeyError("a mistake")
            if request == "sleep":
                time.sleep(600)
            if request == "spin":
                sum(range(10**12))
            if request == "offspring":
                import subprocess
                request = subprocess.Popen(["sleep", "600"]).pid
            if request == "print":
                print("words of the child")
            connection.send((os.getpid(), request, words))
"""


@pytest.fixture
def servant(tmp_path, monkeypatch):
    (tmp_path / "a_servant.py").write_text(textwrap.dedent(SERVANT))
    monkeypatch.syspath_prepend(tmp_path)
    child = Child("a_servant:serve", "one", "two")
    yield child
    child.stop()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pid: int) -> bool:
    """Whether it ends soon."""
    for _ in range(100):
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False


def test_a_child_answers_in_order_and_stays(servant):
    pid, request, words = servant.ask("a")
    assert request == "a" and words == ("one", "two") and pid != os.getpid()
    assert servant.ask("b") == (pid, "b", words) and servant.running


ENDS = [("crash", "signal SIGABRT"), ("leave", "exit status 0"), ("raise", "exit status 1")]


@pytest.mark.parametrize(("request_", "words"), ENDS)
def test_a_child_that_ends_is_said_and_replaced(servant, request_, words):
    pid, *_ = servant.ask("a")
    with pytest.raises(ChildEnded) as ended:
        servant.ask(request_)
    assert ended.value.words() == words
    assert servant.ask("a")[0] != pid


def test_a_child_that_ends_before_anybody_listens_is_said_too(servant):
    pid, *_ = servant.ask("a")
    servant.send("crash")
    assert gone(pid)
    with pytest.raises(ChildEnded):
        servant.receive(60)
    assert servant.ask("a")[0] != pid


def test_a_child_works_where_this_process_works(servant, tmp_path, monkeypatch):
    pid, *_ = servant.ask("a")
    monkeypatch.chdir(tmp_path)
    moved, *_ = servant.ask("a")
    assert moved != pid and Path(f"/proc/{moved}/cwd").readlink() == tmp_path
    assert servant.ask("b")[0] == moved


def test_a_silent_child_is_ended(servant):
    pid, *_ = servant.ask("a")
    with pytest.raises(ChildSilent):
        servant.ask("sleep", 0.2)
    assert gone(pid) and servant.ask("a")[0] != pid


def test_what_a_child_prints_is_no_output(servant, capfd):
    servant.ask("print")
    captured = capfd.readouterr()
    assert captured.out == "" and "words of the child" in captured.err


def test_stopping_ends_what_the_child_started(servant):
    _, offspring, _ = servant.ask("offspring")
    assert alive(offspring)
    servant.stop()
    assert gone(offspring) and not servant.running


PARENT = """
    import sys, time
    sys.path.insert(0, {folder!r})
    from wmmadiag.processes.child import Child
    child = Child("a_servant:serve")
    pid = child.ask("a")[0]
    offspring = child.ask("offspring")[1]
    child.send({busy!r})
    print(pid, offspring, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("busy", ["sleep", "spin"])  # spin: the interpreter's lock is held for ever
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_children_end_with_their_parent(servant, tmp_path, number, busy):
    command = [sys.executable, "-c", textwrap.dedent(PARENT.format(folder=str(tmp_path), busy=busy))]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child, offspring = map(int, parent.stdout.readline().split())
    assert alive(child) and alive(offspring)
    parent.send_signal(number)
    out, err = parent.communicate(timeout=30)  # returns when nobody holds the pipes any more
    assert gone(child) and gone(offspring) and (out, err) == ("", "")


def test_a_child_that_two_threads_end_at_once(servant, monkeypatch):
    servant.ask("hello")
    close, closed = os.close, []

    def ended_meanwhile(descriptor):
        close(descriptor)
        closed.append(descriptor)
        servant.stop()  # as another thread does that waited for an answer

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", ended_meanwhile)
        servant.stop()
    assert len(closed) == len(set(closed)) > 0
    assert servant.ask("again")[1] == "again"


def test_a_child_ended_while_another_thread_waits_for_its_answer(servant):
    servant.ask("hello")
    raised = []

    def wait():
        try:
            servant.ask("sleep")
        except (ChildEnded, OSError) as error:
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.2)
    servant.stop()
    waiting.join(30)
    assert len(raised) == 1
    assert servant.ask("again")[1] == "again"
