"""Sources that no compiler should be asked about, or that it refuses: exit code 2, the place, and what to do."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

KERNEL = "__global__ void k(float* out) {\n  out[threadIdx.x] = 1;\n}\n"
COMMANDS = ("check", "diagnose", "debug", "init")
CARD = """\
format = 1
name = "bad"
source = "bad.cu"
entry = "k"

[computes]
operation = "python"
reference = "reference.py"

[[arguments]]
name = "out"
role = "out"
dtype = "f32"
shape = ["N"]
direction = "out"

[launch]
grid = 1
block = 32

[[cases]]
name = "one"
N = 32
"""


def doubling(levels: int) -> str:
    return "#define A0 1+\n" + "".join(f"#define A{n} A{n - 1} A{n - 1}\n" for n in range(1, levels + 1))


def composed(levels: int) -> str:
    return "#define F0(x) x+x\n" + "".join(f"#define F{n}(x) F{n - 1}(F{n - 1}(x))\n" for n in range(1, levels + 1))


# Source → what the message holds, place first.
SOURCES = {
    "no-program": ("this is no program (((\n", "bad.cu:1", "next:"),
    "empty": ("", "bad.cu", "the file is empty"),
    "blank": ("\n \n\t\n", "bad.cu", "the file is empty"),
    "doubling-macros": (doubling(60) + "int x = A60 1;\n" + KERNEL, "bad.cu:62:9", "expands to more than"),
    "composed-macros": (composed(40) + "int x = F40(1);\n" + KERNEL, "bad.cu:42:9", "expands to more than"),
    "macros-in-a-condition": (doubling(60) + "#if A60 1\n#endif\n" + KERNEL, "bad.cu:62:1", "expands to more than"),
    "includes-itself": ('#include "bad.cu"\n' + KERNEL, "bad.cu:1", "pragma once"),
    "includes-each-other": ('#include "one.h"\n' + KERNEL, 'two.h:1: #include file "one.h"', "pragma once"),
    "missing-header": ('#include "nowhere/x.cuh"\n' + KERNEL.replace("1", "ONE"), "bad.cu:1", "-I FOLDER"),
    "braces": ("{" * 100_000, "bad.cu:1:1001", "nested"),
    "namespaces": ("namespace a {\n" * 100_000, "bad.cu:1001", "nested"),
    "conditionals": ("#if 1\n" * 50_000 + KERNEL, "bad.cu:1001", "nested"),
    "unfinished-comment": ("/* " + KERNEL, "bad.cu", "next:"),
    "not-utf-8": ("__global__ void k(float* p) { *p = \udce9; }\n", "bad.cu:1:36", "next:"),
    "utf-16": ("\0".join(KERNEL), "bad.cu:1", "zero byte"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.h").write_text('#include "two.h"\n')
    (tmp_path / "two.h").write_text('#include "one.h"\n#include "one.h"\n')
    header = tmp_path / "lib" / "include" / "deep" / "x.cuh"
    header.parent.mkdir(parents=True)
    header.write_text("#define X 1\n")
    return tmp_path


def said(run: Callable[..., object], command: str, path: Path | str) -> str:
    """What a command says of a source that it refuses, in bounded time and memory."""
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = run(command, path, "--computes", "gemm")
    assert answer.code == 2, answer  # type: ignore[attr-defined]
    assert time.process_time() - began < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600 << 10
    return str(answer.err)  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", SOURCES)
def test_a_bad_source(run: Callable[..., object], folder: Path, name: str, command: str) -> None:
    text, place, words = SOURCES[name]
    (folder / "bad.cu").write_bytes(text.encode("utf-8", "surrogateescape"))
    told = said(run, command, "bad.cu")
    assert place in told and words in told


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["fifo", "folder", "device", "large", "absent"])
def test_what_is_no_source_file(run: Callable[..., object], folder: Path, name: str, command: str) -> None:
    path = folder / "bad.cu"
    if name == "fifo":
        os.mkfifo(path)
    elif name == "folder":
        path.mkdir()
    elif name == "device":
        path = Path("/dev/zero")
    elif name == "large":
        with path.open("wb") as file:
            file.truncate(50 << 20)
    assert path.name in said(run, command, path)


@pytest.mark.parametrize("command", ["check", "diagnose", "debug"])
def test_a_card_whose_source_is_refused(run: Callable[..., object], folder: Path, command: str) -> None:
    (folder / "bad.cu").write_text(KERNEL.replace("1;", "nope;"))
    (folder / "bad.toml").write_text(CARD)
    answer = run(command, "bad.toml")
    assert answer.code == 2  # type: ignore[attr-defined]
    shown = " ".join((answer.out + answer.err).split())  # type: ignore[attr-defined]
    for words in ("bad.cu:2", 'identifier "nope" is undefined', "-D NAME=TEXT"):
        assert words in shown


def test_a_header_that_one_folder_nearby_has_is_searched_there(run: Callable[..., object], folder: Path) -> None:
    (folder / "bad.cu").write_text('#include "deep/x.cuh"\n' + KERNEL.replace("1", "X"))
    answer = run("check", "bad.cu", "--computes", "none", "--grid", "1", "--block", "32")
    assert "deep/x.cuh was found under lib/include" in answer.err  # type: ignore[attr-defined]
    assert "identifier" not in answer.err  # type: ignore[attr-defined]
    other = folder / "other" / "deep"
    other.mkdir(parents=True)
    (other / "x.cuh").write_text("#define X 2\n")
    answer = run("check", "bad.cu", "--computes", "gemm")  # which of both?
    assert answer.code == 2 and "cannot open" in answer.err and "-I lib/include" in answer.err  # type: ignore[attr-defined]


def test_comments_in_another_encoding_swallow_no_line(folder: Path) -> None:
    from wmmadiag.compile.driver import compile_source

    (folder / "k.cu").write_bytes(b"// \xff\n" + KERNEL.encode() + b"#define N 3 // \xff\n__device__ int n = N;\n")
    made = compile_source("k.cu")
    assert [one.demangled for one in made.entries] == ["k"]
    assert " n = 3" in made.ptx
