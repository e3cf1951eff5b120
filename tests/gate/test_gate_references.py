"""References in Python that misbehave: the gate says so, writes its reports, and never ends with exit code 0."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import wmmadiag
from small_kernels import PYTHON_CARD, RIGHT

pytestmark = pytest.mark.subprocess

GOOD = "def f(inputs, symbols):\n    return inputs['a'] @ inputs['b']\n"
IN_THE_CALL = "{0}\ndef f(inputs, symbols):\n    {1}\n    return inputs['a'] @ inputs['b']\n"
BAD = {
    "os._exit(0) in the call": IN_THE_CALL.format("import os", "os._exit(0)"),
    "os._exit(0) at import": "import os\nos._exit(0)\n",
    "sys.exit(0) in the call": IN_THE_CALL.format("import sys", "sys.exit(0)"),
    "sys.exit(0) at import": "import sys\nsys.exit(0)\n",
    "a crash": IN_THE_CALL.format("import ctypes", "ctypes.string_at(0)"),
    "killed": IN_THE_CALL.format("import os, signal", "os.kill(os.getpid(), signal.SIGKILL)"),
    "an exception that cannot be pickled": IN_THE_CALL.format(
        "class Odd(Exception):\n    def __reduce__(self): raise TypeError\n", "raise Odd('odd')"
    ),
}


def write(folder: Path, reference: str) -> None:
    (folder / "gemm.cu").write_text(RIGHT)
    (folder / "own.toml").write_text(PYTHON_CARD)
    (folder / "own.py").write_text(reference)


def checked(folder: Path, reference: str, *words: str) -> tuple[int, str, dict]:
    write(folder, reference)
    done = wmmadiag(folder, "check", "own.toml", "--json", "run.json", *words, timeout=120)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr, json.loads((folder / "run.json").read_text())


def test_a_reference_that_behaves(tmp_path):
    assert checked(tmp_path, GOOD)[0] == 0


@pytest.mark.parametrize("name", BAD)
def test_one_that_does_not_is_an_error_of_the_card(here, run, name):
    """In this process, which none of them ends."""
    write(here, BAD[name])
    code, out, err = run("check", "own.toml", "--json", "run.json")
    assert code == 2 and "own.py" in out + err
    (case,) = json.loads((here / "run.json").read_text())["kernels"][0]["report"]["cases"]
    assert case["status"] == "error" and "own.py" in case["problem"]["message"]


@pytest.mark.slow
def test_what_it_leaves_for_the_end_changes_nothing(tmp_path):
    late = "import atexit, os\natexit.register(os._exit, 0)\n"
    wrong = late + "def f(inputs, symbols):\n    return inputs['a'] @ inputs['b'] + 1\n"
    assert checked(tmp_path, late + GOOD)[0] == 0
    assert checked(tmp_path, wrong)[0] == 1


def test_one_that_hangs_is_undecided_in_time(tmp_path):
    reference = IN_THE_CALL.format("import time", "time.sleep(600)")
    code, text, _ = checked(tmp_path, reference, "--budget-seconds", "3")
    assert code == 3 and "3 s" in text and "--budget-seconds" in text


def test_one_that_prints_writes_to_standard_error(tmp_path):
    (tmp_path / "gemm.cu").write_text(RIGHT)
    (tmp_path / "own.toml").write_text(PYTHON_CARD)
    (tmp_path / "own.py").write_text(IN_THE_CALL.format("import os", "print('hello'); os.write(1, b'there\\n')"))
    done = wmmadiag(tmp_path, "check", "own.toml", "--json", "-")
    assert done.returncode == 0 and json.loads(done.stdout)
    assert "hello" in done.stderr and "there" in done.stderr
