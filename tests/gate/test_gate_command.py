"""`wmmadiag check` over folders, as a merge gate: what is left out, interruption, reports that appear whole or not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_kernels import HANG, PYTHON_CARD, write_card, write_right, write_wrong

from wmmadiag.gate import batch


@pytest.fixture
def folder(here):
    write_right(here)
    Path("wrong").mkdir()
    write_wrong(Path("wrong"))
    Path("wrong/wrong.truth.toml").write_text('cause = "accumulation"\n')
    return here


def test_kernels_broken_on_purpose_are_left_out_of_a_folder(folder, run):
    code, out, err = run("check", ".", "--case", "one")
    assert code == 0 and "1 kernels that are broken on purpose were left out" in err and "wrong.cu" not in out
    code, out, err = run("check", ".", "--case", "one", "--wrong")
    assert code == 1 and "2 checks: 1 ok, 1 wrong" in out and "left out" not in err


@pytest.mark.parametrize("paths", [["wrong"], ["wrong/wrong.toml"], [".", "wrong/wrong.toml"]])
def test_but_not_where_they_are_meant(folder, run, paths):
    code, out, err = run("check", *paths, "--case", "one")
    assert code == 1 and "wrong.cu" in out and "left out" not in err


def test_without_a_truth_file_a_folder_called_wrong_is_checked(folder, run):
    Path("wrong/wrong.truth.toml").unlink()
    assert run("check", ".", "--case", "one")[0] == 1


def test_cases_variants_and_architectures(folder, run):
    code, out, _ = run("check", ".", "--arch", "sm_80", "--arch", "sm_89", "-q")
    assert code == 0 and out == "2 checks: 2 ok\n"


@pytest.mark.slow
def test_a_process_that_dies_costs_its_own_task(folder):
    """The reference kills the process that checks its card."""
    write_card(folder, "again")
    Path("killed.toml").write_text(PYTHON_CARD)
    Path("own.py").write_text("import os, signal\ndef f(inputs, symbols):\n    os.kill(os.getppid(), signal.SIGKILL)\n")
    paths = ("again.toml", "killed.toml", "right.toml")
    tasks = [batch.Task(Path(name), None, options={"use_cache": False}) for name in paths]
    found = list(batch.check_all(tasks, jobs=2))
    assert [one.code for one in found] == [0, 3, 0], found
    assert "SIGKILL" in found[1].error and "--jobs 1" in found[1].error


def processes_of(mark: str) -> list[int]:
    """Processes whose environment has the mark, the dead but unburied ones left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"WMMADIAG_TEST_MARK={mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
            if marked and (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.subprocess
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, 130, b"interrupted"),
        (signal.SIGTERM, 143, b"terminated"),
        (signal.SIGHUP, 129, b"the terminal went away"),
        (signal.SIGKILL, -9, b""),
    ],
)
def test_what_ends_the_command_leaves_nothing_behind(folder, jobs, own_cache, number, code, word):
    """Old reports stay as they were, no process and no half file is left, nobody holds the pipes."""
    Path("hang.cu").write_text(HANG.replace("hang(", "gemm("))
    write_card(folder, "spins", "hang.cu")  # after "right"
    Path("run.json").write_text("old")
    command = [sys.executable, "-m", "wmmadiag", "check", ".", "--jobs", jobs, "--json", "run.json"]
    mark = f"{os.getpid()}/{jobs}/{number}"  # of this case: what another left behind is not its fault
    process = subprocess.Popen(
        [*command, "--html", "run.html", "--budget-instructions", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "WMMADIAG_TEST_MARK": mark},
    )
    results = own_cache / "results-1"
    for _ in range(600):  # the right one is done, the other goes on for ever
        if results.is_dir() and any(results.glob("*.json")):
            break
        time.sleep(0.1)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code and word in err and b"Traceback" not in err and b"semaphore" not in err
    for _ in range(100):
        if not processes_of(mark):
            break
        time.sleep(0.05)
    assert processes_of(mark) == []
    assert Path("run.json").read_text() == "old"
    assert not Path("run.html").exists() and not list(folder.glob(".run*"))


LEAVES = """
import os, signal, sys, time
sys.argv = ["wmmadiag", "check", "nothing.cu"]
import wmmadiag.cli.main as command
from wmmadiag.processes.scratch import scratch_folder
def run(argv):
    print(scratch_folder("test"), flush=True)
    time.sleep(60)
command._run = run
sys.exit(command.main())
"""


@pytest.mark.subprocess
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_what_ends_the_command_takes_its_folders_along(number):
    process = subprocess.Popen([sys.executable, "-c", LEAVES], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    made = Path(process.stdout.readline().decode().strip())
    assert made.is_dir()
    process.send_signal(number)
    process.communicate(timeout=60)
    assert not made.parent.exists()
