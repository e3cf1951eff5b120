"""Folders for files that pass: what a killed process leaves, the next one removes, and nobody else's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

MAKES = """
import sys, time
from wmmadiag.processes.scratch import scratch_folder
folder = scratch_folder("headers")
(folder / "held").write_text("x")
print(folder, flush=True)
if len(sys.argv) > 1:
    time.sleep(float(sys.argv[1]))
"""


def begun(around: Path, *words: str) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", MAKES, *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(around)},
    )
    assert process.stdout is not None
    with process.stdout as said:
        return process, Path(said.readline().strip())


@pytest.mark.subprocess
def test_folders_go_with_their_process(tmp_path):
    process, folder = begun(tmp_path)
    assert folder.parent.parent == tmp_path and folder.name.startswith("headers-")
    assert process.wait(30) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.subprocess
def test_what_a_killed_process_left_is_removed_and_what_a_living_one_uses_is_not(tmp_path):
    killed, left = begun(tmp_path, "600")
    living, used = begun(tmp_path, "600")
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait(30)
        assert left.is_dir()
        (tmp_path / "wmmadiag-of-nobody").mkdir()  # without a lock: it may be anybody's
        (tmp_path / "wmmadiag-link").symlink_to(used)
        (tmp_path / "other").mkdir()
        assert begun(tmp_path)[0].wait(30) == 0
        assert not left.parent.exists() and (used / "held").read_text() == "x"
        assert {one.name for one in tmp_path.iterdir()} == {
            used.parent.name, "wmmadiag-of-nobody", "wmmadiag-link", "other",
        }  # fmt: skip
    finally:
        living.kill()
        living.wait(30)


@pytest.mark.subprocess
def test_a_copy_of_a_process_keeps_its_folders_and_removes_none_of_them(tmp_path):
    copies = """
import os, time
from wmmadiag.processes.scratch import scratch_folder
folder = scratch_folder("headers")
if os.fork() == 0:
    own = scratch_folder("headers")
    assert own.parent != folder.parent and folder.is_dir()
    raise SystemExit(0)
os.wait()
print(folder.is_dir(), len(list(folder.parents[1].iterdir())))
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", copies], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "True 1\n", done.stderr
    for _ in range(50):
        if not list(tmp_path.iterdir()):
            break
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []
