"""What does not compile: the user's line, and what would help."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.compile.driver import compile_source, compile_text
from wmmadiag.compile.options import CompileOptions
from wmmadiag.errors import CompileError

PLAIN = "__global__ void kernel(float *x) {\n  x[threadIdx.x] = 1.0f;\n}\n"


def test_error_has_the_users_line_and_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("src/broken.cu")
    path.parent.mkdir()
    path.write_text("#include <vector>\nint main() { return 1; }\n\n__global__ void k(float *x) {\n  *x = y + 1;\n}\n")
    with pytest.raises(CompileError, match='identifier "y" is undefined') as caught:
        compile_source(path)
    error = caught.value
    assert error.place is not None
    assert (error.place.file, error.place.line, error.place.column) == ("src/broken.cu", 5, 8)
    assert "*x = y + 1;" in error.detail
    assert "^" in error.detail


def test_error_in_a_header_names_the_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("h.cuh").write_text("#pragma once\nvoid host() {}\n__device__ int f() { return oops; }\n")
    Path("k.cu").write_text('#include "h.cuh"\n__global__ void k(int *x) { *x = f(); }\n')
    with pytest.raises(CompileError, match="oops") as caught:
        compile_source("k.cu")
    assert str(caught.value.place) == "h.cuh:3:29"


NEEDS = "\n__global__ void needs(float *x) { nowhere::fill(x); }\n"
"""Code of the device that an empty header is not enough for."""


def test_missing_header_says_how_to_pass_its_folder() -> None:
    with pytest.raises(CompileError, match="nowhere") as caught:
        compile_text(f'#include "nowhere.cuh"\n{PLAIN}{NEEDS}', "k.cu")
    assert caught.value.place is not None
    assert caught.value.place.line == 1
    assert "include path" in caught.value.hint


def test_looking_for_a_missing_header_never_ends_by_what_the_disk_says() -> None:
    with pytest.raises(CompileError) as caught:
        compile_text(f'#include "{"long" * 80}.cuh"\n{PLAIN}{NEEDS}', "k.cu")
    assert "include path" in caught.value.hint


def test_missing_library_header_is_named_when_device_code_needs_it() -> None:
    text = "#include <tensor/lib.hpp>\n__global__ void k(float *x) { tensor::fill(x); }\n"
    with pytest.raises(CompileError, match="tensor") as caught:
        compile_text(text, "k.cu")
    assert "tensor/lib.hpp" in caught.value.hint


def test_kernel_that_calls_host_code_is_told_so() -> None:
    text = "int twice(int a) {\n  return 2 * a;\n}\n__global__ void k(int *x) {\n  *x = twice(*x);\n}\n"
    with pytest.raises(CompileError, match="twice") as caught:
        compile_text(text, "k.cu")
    assert caught.value.place is not None
    assert caught.value.place.line == 5
    assert "twice (k.cu:1) is host code" in caught.value.hint


def test_broken_declaration_that_a_kernel_needs_is_reported_where_it_stands() -> None:
    text = "struct Params {\n  flaot scale;\n};\n__global__ void k(float *x, Params p) {\n  *x = p.scale;\n}\n"
    with pytest.raises(CompileError, match="flaot") as caught:
        compile_text(text, "k.cu")
    assert caught.value.place is not None
    assert caught.value.place.line == 2


def test_bad_name_expression_is_an_error() -> None:
    with pytest.raises(CompileError, match="nope"):
        compile_text(PLAIN, "k.cu", CompileOptions(name_expressions=("nope<3>",)))


def test_instantiation_that_does_not_compile_leaves_the_others() -> None:
    text = """template <int N> __global__ void k(float *x) { static_assert(N < 100, "too big"); *x = N; }
__global__ void plain(float *x) { *x = 1; }
void host(float *x) { k<4000><<<1, 1>>>(x); plain<<<1, 1>>>(x); }
"""
    compilation = compile_text(text, "k.cu")
    assert [entry.demangled for entry in compilation.entries] == ["plain"]
    assert [note.kind for note in compilation.notes] == ["skipped-instantiation"]
    assert "too big" in compilation.notes[0].message
