"""`wmmadiag check` over folders, as a merge gate: what is left out, interruption, reports that appear whole or not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_kernels import HANG, write_card, write_right, write_wrong

from wmmadiag import batch


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


def test_a_process_that_dies_is_an_outcome(folder, monkeypatch):
    write_card(folder, "again")
    tasks = [batch.Task(Path("right.toml"), None), batch.Task(Path("again.toml"), None, options={"use_cache": False})]
    monkeypatch.setattr(batch, "_prepare_worker", os._exit)
    found = list(batch.check_all(tasks, jobs=2))
    assert [one.code for one in found] == [3, 3] and "ended by itself" in found[0].error


@pytest.mark.subprocess
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_leaves_old_reports_as_they_were(folder, jobs, own_cache):
    Path("hang.cu").write_text(HANG.replace("hang(", "gemm("))
    write_card(folder, "spins", "hang.cu")  # after "right"
    Path("run.json").write_text("old")
    command = [
        sys.executable,
        "-m",
        "wmmadiag",
        "check",
        ".",
        "--jobs",
        jobs,
        "--json",
        "run.json",
        "--html",
        "run.html",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    results = own_cache / "results-1"
    for _ in range(300):  # the right one is done, the other goes on for ever
        if results.is_dir() and any(results.glob("*.json")):
            break
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and b"interrupted" in err and b"Traceback" not in err
    assert Path("run.json").read_text() == "old"
    assert not Path("run.html").exists() and not list(folder.glob(".run*"))
