"""The device half compiled beside the host half: final where it was guessed, with precompiled headers where not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from wmmadiag.compile.driver import compile_source
from wmmadiag.compile.options import CompileOptions
from wmmadiag.errors import ConfigurationError
from wmmadiag.programs import ahead as module
from wmmadiag.programs.ahead import Ahead
from wmmadiag.programs.build import BuiltProgram, build
from wmmadiag.programs.device_ptx import device_ptx

PLAIN = "__global__ void plain(float* x) { x[threadIdx.x] = 1; }\n"
TEMPLATE = "template <class T, int N> __global__ void filled(T* x, T v) { x[threadIdx.x % N] = v; }\n"
WRITTEN = f"{PLAIN}{TEMPLATE}int main() {{ filled<float,2><<<1, 32>>>(nullptr, 1); plain<<<1, 32>>>(nullptr); }}\n"
DEDUCED = f"{TEMPLATE}template <class T> void call(T* x) {{ filled<T, 4><<<1, 32>>>(x, T(2)); }}\n" + (
    "template <class F> __global__ void each(F f) { f(threadIdx.x); }\n"
    "int main() { double* x = nullptr; call(x); each<<<1, 32>>>([=] __device__ (int i) { x[i] = i; }); }\n"
)


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def built(folder: Path, text: str, options: CompileOptions) -> tuple[BuiltProgram, Ahead]:
    source = folder / "program.cu"
    source.write_text(text, "utf-8")
    ahead = Ahead(options)
    program = build([source], options, beside=ahead.begin)
    ahead.end(program.units, registers=program.registers)
    return program, ahead


@pytest.mark.usefixtures("two_processors")
@pytest.mark.parametrize(("text", "calls"), [(PLAIN + "int main() {}\n", 1), (WRITTEN, 1), (DEDUCED, 2)])
def test_what_the_program_uses_is_compiled_when_the_host_half_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, calls: int
) -> None:
    asked: list[CompileOptions] = []

    def counted(unit: Any, options: CompileOptions, **how: Any) -> Any:
        asked.append(options)
        return device_ptx(unit, options, **how)

    monkeypatch.setattr(module, "device_ptx", counted)
    options = CompileOptions()
    program, ahead = built(tmp_path, text, options)
    (unit,) = program.units
    made = device_ptx(unit, options, registers=False)
    assert made.cached and len(asked) == calls and bool(unit.expressions) == ("template" in text)
    fresh = device_ptx(unit, options, registers=False, use_cache=False)
    assert made.ptx == fresh.ptx and made.source_hash == fresh.source_hash
    # Precompiled headers are for those alone of whom NVRTC has to be asked again, and are gone with the compilation.
    folders = {one.precompiled for one in asked} - {None}
    assert len(folders) == calls - 1
    ahead.leave()
    assert not any(one.exists() for one in folders if one)


@pytest.mark.usefixtures("two_processors")
def test_what_is_refused_is_left_to_who_needs_it(tmp_path: Path) -> None:
    text = "__global__ void wrong() { nothing_of_that_name(); }\nint main() {}\n"
    program, _ = built(tmp_path, text, CompileOptions())
    assert program.main is not None


def test_without_a_second_processor_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    program, _ = built(tmp_path, WRITTEN, CompileOptions())
    assert not compile_source(tmp_path / "program.cu", CompileOptions()).cached and program.units[0].expressions


@pytest.mark.usefixtures("two_processors")
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_cannot_be_foreseen_is_compiled_when_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_own: Any) -> bool:
        raise ConfigurationError("its instantiations cannot be read")

    monkeypatch.setattr(module, "_foreseen", refused)
    program, ahead = built(tmp_path, WRITTEN, CompileOptions())
    assert program.units and not ahead._made
