"""Programs that call no library are linked without the runtime's libraries, which take a while to compile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from wmmadiag.compile.options import CompileOptions
from wmmadiag.errors import CompileError
from wmmadiag.programs import build

HEADERS = "#include <cooperative_groups.h>\n#include <cublas_v2.h>\n#include <cuda_profiler_api.h>\n"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For which runtimes, with libraries or without, was asked."""
    seen: list[bool] = []

    def runtime(libraries: bool = False) -> Path:
        seen.append(libraries)
        return Path("/with" if libraries else "/without") / "libwmmadiag_runtime.so"

    monkeypatch.setattr(build, "runtime_library", runtime)
    return seen


def _linked(monkeypatch: pytest.MonkeyPatch, *, calls_libraries: bool, headers: bool = True) -> bool:
    def linker(words: list[str], _name: str) -> None:
        if calls_libraries and "-L/without" in words:
            raise CompileError("undefined symbol: cublasCreate_v2")

    monkeypatch.setattr(build, "run_compiler", linker)
    source = SimpleNamespace(name="program.cu", may_use_libraries=lambda: headers)
    return build._linked(["c++"], [], [source])  # type: ignore[list-item]


def test_what_links_without_the_libraries_needs_none(monkeypatch: pytest.MonkeyPatch, asked: list[bool]) -> None:
    assert not _linked(monkeypatch, calls_libraries=False)
    assert asked == [False]


def test_a_call_of_a_library_has_them_built(monkeypatch: pytest.MonkeyPatch, asked: list[bool]) -> None:
    assert _linked(monkeypatch, calls_libraries=True)
    assert asked == [False, True]


def test_what_includes_no_header_of_a_library_has_none_built(
    monkeypatch: pytest.MonkeyPatch, asked: list[bool]
) -> None:
    with pytest.raises(CompileError, match="undefined symbol"):
        _linked(monkeypatch, calls_libraries=True, headers=False)
    assert asked == [False]


def test_programs_that_include_headers_of_libraries(tmp_path: Path) -> None:
    source = tmp_path / "program.cu"
    source.write_text(HEADERS + "int main() { cudaProfilerStart(); }\n")
    assert not build.build([source], CompileOptions()).libraries
    source.write_text(HEADERS + "int main() { cublasHandle_t one; cublasCreate(&one); }\n")
    built = build.build([source], CompileOptions())
    assert built.libraries or built.runtime == build.runtime_library()  # a wheel's runtime has them all
