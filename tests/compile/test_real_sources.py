"""Sources as people write them, host code included: they compile, and no line of device code moves.

Each of `real_sources/` says in its first lines which kernels it has, which notes are made and what it is compiled with.
Device lines are marked with `// HERE`; the line table must name exactly those lines among others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from test_blanking import HOST

from wmmadiag.compile.driver import compile_source, compile_text
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.ptx_scan import instructions


@dataclass(frozen=True)
class Style:
    """A way of writing CUDA: files by name ("main.cu" is compiled), options, and the kernels expected."""

    name: str
    files: dict[str, str]
    kernels: tuple[str, ...] = ("kernel",)
    options: CompileOptions = field(default_factory=CompileOptions)
    notes: tuple[str, ...] = ()


def style(path: Path) -> Style:
    text = path.read_text("utf-8")
    said: dict[str, list[str]] = {"kernel": [], "note": [], "instantiate": [], "macro": []}
    for what, value in re.findall(r"^// (\w+): (.*)$", text, re.MULTILINE):
        said[what].append(value)
    macros = {name: value if equals else None for name, equals, value in (one.partition("=") for one in said["macro"])}
    options = CompileOptions(name_expressions=tuple(said["instantiate"]), macros=macros)
    return Style(path.stem, {"main.cu": text}, tuple(said["kernel"]), options, tuple(said["note"]))


STYLES = [
    *(style(path) for path in sorted((Path(__file__).parent / "real_sources").glob("*.cu"))),
    # What follows is no tree without the preprocessor, has bytes of its own, or several files.
    Style(
        "conditionals-around-and-inside-host-code",
        {
            "main.cu": """#ifdef USE_CPU
void run(float *x, int n) {
#else
void run(float *x) {
#endif
#if defined(VERBOSE) && VERBOSE > 1
  printf("verbose\\n");
#else
  int quiet = 1;
#endif
}
#if 0
this is not C++ at all, don't parse { { (
#endif
#ifdef FAST
__global__ void kernel(float *x, int n)
#else
__global__ void kernel(float *x)
#endif
{
#ifdef FAST
  x[n] = 1.0f;
#else
  x[threadIdx.x] = 7.5f;  // HERE
#endif
}
#ifndef NO_MAIN
int main() {
#ifdef FAST
  kernel<<<1, 1>>>(nullptr, 2);
#else
  kernel<<<1, 1>>>(nullptr);
#endif
}
#endif
"""
        },
    ),
    Style(
        "unbalanced-parenthesis-in-macro",
        {
            "main.cu": """#define BEGIN_CALL(f) f(
#define END_CALL )
void host(int x) { BEGIN_CALL(host) x END_CALL; }
__device__ float id(float x) { return x + 1.0f; }
__global__ void kernel(float *x) {
  x[threadIdx.x] = BEGIN_CALL(id) x[0] END_CALL;  // HERE
}
int tail() { return 2; }
"""
        },
    ),
    Style(
        "crlf-and-latin1",
        {
            "main.cu": "// caf\udce9\r\n#include <vector>\r\nint host() {\r\n  return 1;\r\n}\r\n"
            "__global__ void kernel(float *x) {\r\n  x[threadIdx.x] = 2.5f;  // HERE\r\n}\r\n",
        },
    ),
    Style(
        "headers-with-host-code",
        {
            "main.cu": """#include "src/kernels.cuh"
#include "common.h"
int main() { launch(nullptr); return 0; }
""",
            "common.h": """#pragma once
#include <string>
#include <vector>
inline std::string name() { return "x"; }
struct Options { std::vector<int> sizes; };
#define TILE 8
""",
            "src/kernels.cuh": """#ifndef KERNELS_CUH
#define KERNELS_CUH
#include "../common.h"
#include "device/math.cuh"
inline void log(const std::string &s) {
  printf("%s", s.c_str());
}
__global__ void kernel(float *x) {
  x[threadIdx.x] = cube(x[threadIdx.x]) + TILE;
}
inline void launch(float *x) { kernel<<<1, 32>>>(x); }
#endif
""",
            "src/device/math.cuh": "#pragma once\nint host_helper(int a) {\n  return a;\n}\n"
            "__device__ inline float cube(float x) {\n  return x * x * x;\n}\n",
        },
    ),
    Style(
        "include-path",
        {
            "main.cu": """#include <proj/scale.cuh>
__global__ void kernel(float *x) { x[0] *= SCALE; }  // HERE
""",
            "inc/proj/scale.cuh": "#define SCALE 4.0f\nvoid host() { std::abort(); }\n",
        },
        options=CompileOptions(include_paths=(Path("inc"),)),
    ),
]


def shown_lines(ptx: str, file: str) -> set[int]:
    """The lines of `file` that the line table names, in any frame."""
    return {
        frame.line
        for item in instructions(ptx)
        if item.place is not None
        for frame in item.place.frames()
        if frame.file == file
    }


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
@pytest.mark.corpus
def test_style(style: Style, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in style.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    compilation = compile_source(Path("main.cu"), style.options)
    assert {entry.demangled for entry in compilation.entries} == set(style.kernels)
    marked = {number for number, line in enumerate(style.files["main.cu"].split("\n"), 1) if "// HERE" in line}
    assert marked <= shown_lines(compilation.ptx, "main.cu")
    assert tuple(note.kind for note in compilation.notes) == style.notes
    for entry in compilation.entries:
        assert entry.place is not None
        lines = style.files[entry.place.file].split("\n")
        assert entry.base_name in lines[entry.place.line - 1]


def test_header_lines_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    style = next(style for style in STYLES if style.name == "headers-with-host-code")
    monkeypatch.chdir(tmp_path)
    for name, text in style.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    compilation = compile_source("main.cu")
    entry = compilation.entry("kernel")
    assert entry.place is not None
    assert (entry.place.file, entry.place.line) == ("src/kernels.cuh", 8)
    assert 9 in shown_lines(compilation.ptx, "src/kernels.cuh")
    assert 6 in shown_lines(compilation.ptx, "src/device/math.cuh")
    assert set(compilation.includes) == {"src/kernels.cuh", "common.h", "src/../common.h", "src/device/math.cuh"} - {
        "src/../common.h" if "common.h" in compilation.includes else "common.h"
    }


def test_every_host_form_in_one_file_with_a_kernel() -> None:
    lines = [form for form in HOST if "main(" not in form]
    text = "\n".join(
        [*lines, "__global__ void kernel(float *p) {", "  *p = 2.5f;", "}", "int main() { return 0; }", ""]
    )
    compilation = compile_text(text, "all.cu")
    assert [entry.demangled for entry in compilation.entries] == ["kernel"]
    assert compilation.notes == ()
    assert text.split("\n").index("  *p = 2.5f;") + 1 in shown_lines(compilation.ptx, "all.cu")
