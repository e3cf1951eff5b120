"""The process of a program: a copy of the command's own, or a new one, and the program cannot tell which."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from wmmadiag.compile.options import CompileOptions
from wmmadiag.programs import run
from wmmadiag.programs.build import build
from wmmadiag.programs.run import run_program
from wmmadiag.programs.spec import ProgramSpec
from wmmadiag.programs.start import may_copy

ASKS = r"""#include <csignal>
#include <cstdio>
#include <dirent.h>
#include <unistd.h>
__global__ void one(int* x) { *x += 1; }
int main(int count, char** words) {
    int *x, h = 41, files = 0;
    cudaMalloc(&x, 4), cudaMemcpy(x, &h, 4, cudaMemcpyHostToDevice);
    one<<<1, 1>>>(x), cudaMemcpy(&h, x, 4, cudaMemcpyDeviceToHost);
    printf("%d %s %d %d\n", h, words[1], getsid(0) == getpid(), getpgrp() == getpid());
    for (int number : {SIGINT, SIGTERM, SIGPIPE, SIGIO}) {
        struct sigaction now;
        sigaction(number, nullptr, &now);
        printf("%d ", now.sa_handler == SIG_DFL ? 0 : now.sa_handler == SIG_IGN ? 1 : 2);
    }
    char text[99] = "";
    printf("%d %s\n", (int)read(0, text, 98), text);
    return count;
}
"""

COMMAND = "import sys; from wmmadiag.cli.main import main; sys.exit(main())"
BESIDE = "import threading, time; threading.Thread(target=time.sleep, args=(9,), daemon=True).start(); " + COMMAND


@pytest.mark.parametrize("command", [COMMAND, BESIDE])
def test_either_way_is_the_same_to_the_program(tmp_path: Path, command: str) -> None:
    (tmp_path / "asks.cu").write_text(ASKS)
    words = [sys.executable, "-c", command, "run", "asks.cu", "--", "a"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, input="in", capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("42 a 1 1\n0 0 1 0 2 in\n", 2), done.stderr


def test_a_copy_is_made_of_a_process_with_one_thread_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "asks.cu"
    source.write_text(ASKS)
    program, made = build([source], CompileOptions()), []
    monkeypatch.setattr(run, "as_copy", lambda *_: made.append(1))
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        assert not may_copy()
        with (tmp_path / "said").open("w") as said:
            assert (
                run_program(
                    program, ProgramSpec(CompileOptions()), "x", ["a"], output=said.fileno(), copied=True
                ).status
                == 2
            )
    finally:
        stop.set()
        other.join()
    assert not made and (tmp_path / "said").read_text().startswith("42 a 1 1")


def test_a_copy_ends_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "waits.cu").write_text(
        '#include <cstdio>\n#include <unistd.h>\nint main() { printf("%d\\n", getpid()), fflush(stdout), sleep(60); }\n'
    )
    words = [sys.executable, "-m", "wmmadiag", "run", "waits.cu"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
    end = time.monotonic() + 10
    while Path(f"/proc/{child}/stat").exists() and time.monotonic() < end:
        if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists()
