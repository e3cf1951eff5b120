"""The command line as a whole: help, typos, files of the wrong kind, and the ways a command can end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import wmmadiag
from wmmadiag.cli import dispatch
from wmmadiag.cli.main import main

pytestmark = pytest.mark.usefixtures("here")

RUN = [sys.executable, "-m", "wmmadiag"]


def test_version(run):
    answer = run("--version")
    assert answer.code == 0 and answer.out.startswith(f"wmmadiag {wmmadiag.__version__}")


def test_version_is_that_of_the_package():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'\nversion = "{wmmadiag.__version__}"\n' in text


@pytest.mark.parametrize("words", [("--help",), ("-h",)])
def test_help_lists_the_commands(run, words):
    answer = run(*words)
    assert answer.code == 0
    for name in dispatch.COMMANDS:
        assert f"\n  {name} " in answer.out


@pytest.mark.parametrize("command", dispatch.COMMANDS)
def test_help_of_each_command(run, command):
    answer = run(command, "--help")
    assert answer.code == 0 and answer.out.startswith(f"usage: wmmadiag {command} ")


def test_nothing_asked_shows_the_help(run):
    answer = run()
    assert answer.code == 2 and "commands:" in answer.err and not answer.out


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("chekc",), "there is no command 'chekc'", "did you mean 'check'?"),
        (("frobnicate",), "there is no command 'frobnicate'", "commands: check, run, diagnose, "),
        (("right.toml",), "there is no command 'right.toml'", "to check it: wmmadiag check right.toml"),
        (("--versoin",), "unknown option '--versoin'", "did you mean '--version'?"),
        (("check", "right.toml", "--archs", "sm_80"), "unknown option '--archs'", "did you mean '--arch'?"),
        (("check",), "arguments are required: PATH", "see `wmmadiag check --help`"),
        (("check", "right.toml", "--seed", "-1"), "'-1' is not a whole number", "see `wmmadiag check --help`"),
        (("check", "right.toml", "--budget-seconds", "nan"), "'nan' is not a number of seconds", ""),
        (("check", "right.toml", "--symbol", "S"), "'S' is not NAME=VALUE", ""),
        (("check", "right.toml", "-D", "1X"), "'1X' is not NAME or NAME=TEXT", ""),
        (("check", "right.toml", "--inputs", "norml"), "unknown distribution 'norml'", "did you mean 'normal'?"),
        (("check", "rigth.toml"), "rigth.toml: no such file or folder", "did you mean right.toml?"),
        (("check", "no/such/place.cu"), "no such file or folder", "the path exists up to ."),
        (("check", "empty"), "no kernel card (*.toml) in this folder or below", "wmmadiag init kernel.cu"),
        (("check", "sources"), "no kernel card", "wmmadiag init sources/k.cu"),
        (("check", "notes.md"), "neither a kernel card (.toml) nor CUDA source (.cu) nor PTX (.ptx)", ""),
        (("check", "empty.cu", "--computes", "gemm"), "the file is empty", ""),
        (("check", "empty.toml"), "not a kernel card", "wmmadiag init kernel.cu"),
        (("check", "binary.cu", "--computes", "gemm"), "not a text file", ""),
        (("check", "binary.toml"), "binary.toml:1: the card is not UTF-8 text", ""),
        (("ptx", "binary.ptx"), "UTF-16 text", "iconv"),
        (("ptx", "empty"), "empty", ""),
        (("ptx", "empty.ptx"), "the file is empty", "give PTX"),
        (("ptx", "empty.cu"), "the source has no kernel", ""),
        (("ptx", "gemm.cu", "--entry", "gem"), "no kernel 'gem'", "did you mean 'gemm'?"),
        (("init", "empty"), "not a CUDA source", ""),
        (("init", ""), "not a CUDA source", ""),
        (("init", "gone.cu"), "no such file", ""),
        (("init", "gemm.cu", "--computes", "gem"), "unknown operation 'gem'", "did you mean 'gemm' or 'gemv'?"),
    ],
)
def test_usage_errors(run, words, message, hint):
    Path("empty").mkdir()
    Path("sources").mkdir()
    Path("sources/k.cu").write_text("")
    Path("notes.md").write_text("hello")
    for name in ("empty.cu", "empty.toml", "empty.ptx"):
        Path(name).write_bytes(b"")
    for name in ("binary.cu", "binary.toml", "binary.ptx"):
        Path(name).write_bytes(bytes(range(255, -1, -1)))
    answer = run(*words)
    assert answer.code == 2 and not answer.out
    assert answer.err.startswith("wmmadiag: error: ") and message in answer.err and hint in answer.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_files(run):
    Path("right.toml").chmod(0)
    assert "cannot read" in run("check", "right.toml").err


def test_an_internal_error_is_a_bug_of_ours(run, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("wmmadiag.subject.find_cards.find_subjects", fail)
    answer = run("check", "right.toml")
    assert answer.code == 70
    assert "a bug of wmmadiag: ZeroDivisionError: oops" in answer.err and "wmmadiag doctor" in answer.err


def test_the_traceback_is_there_for_those_who_ask(monkeypatch, capsys):
    monkeypatch.setenv("WMMADIAG_DEBUG", "1")
    assert main(["check", "gone.toml"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt, 130), (MemoryError, 3)])
def test_interrupted_and_out_of_memory(run, monkeypatch, error, code):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("wmmadiag.subject.find_cards.find_subjects", fail)
    answer = run("check", "right.toml")
    assert answer.code == code and len(answer.err.splitlines()) <= 2


@pytest.mark.slow
def test_ctrl_c_in_an_endless_kernel():
    words = ["check", "hang.cu", "--computes", "gemm", "--grid", "1", "--block", "32"]
    process = subprocess.Popen([*RUN, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    asked = time.perf_counter()
    out, err = process.communicate(timeout=20)
    # Killed by the signal counts, too: a shell says 130 of both.
    assert process.returncode in (130, -signal.SIGINT)
    assert err == "wmmadiag: interrupted\n" and not out
    assert time.perf_counter() - asked < 5


def test_a_closed_pipe_is_silent():
    command = f"{sys.executable} -m wmmadiag ptx gemm.cu | head -1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode in (0, 141) and not done.stderr and done.stdout.startswith("PTX ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_no_bug_of_ours():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*RUN, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "cannot write to standard output" in done.stderr and "Traceback" not in done.stderr


def test_a_terminal_without_unicode():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [*RUN, "init", "gemm.cu", "-o", "-"], capture_output=True, env=environment, check=False, timeout=60
    )
    assert done.returncode == 0 and done.stdout.isascii() and b"\\xb7" in done.stdout


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from wmmadiag.cli.main import main; main(['--help']);"
        "import json; json.dump(sorted(sys.modules), sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(json.loads(done.stderr))
    assert not loaded & {"numpy", "cuda", "msgspec", "wmmadiag.compile", "wmmadiag.emulator", "asyncio"}


@pytest.mark.subprocess
@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "2>/dev/full"])
def test_a_closed_or_full_stream_changes_no_exit_code(redirection):
    command = f"{shlex.quote(sys.executable)} -m wmmadiag check gone.toml {redirection}"
    assert subprocess.run(["bash", "-c", command], timeout=60, check=False).returncode == 2


def test_a_link_to_nowhere(run):
    Path("link.cu").symlink_to("gone.cu")
    assert "it is a link to gone.cu" in run("check", "link.cu").err
