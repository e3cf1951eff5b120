"""Compilations that begin before they are asked for."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from wmmadiag.compile import CompileOptions
from wmmadiag.diagnose.trials import ahead
from wmmadiag.diagnose.trials.ahead import Ahead
from wmmadiag.errors import CompileError

KERNEL = "__global__ void k(float* x) { x[0] = 2.0f * x[1]; }\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "k.cu"
    path.write_text(KERNEL)
    return path


@pytest.fixture
def compiled(monkeypatch) -> list[str]:
    """The texts that were compiled."""
    texts: list[str] = []
    inner = ahead.compile_changed

    def noting(path, options, changed):
        texts.append(changed[path.resolve()])
        return inner(path, options, changed)

    monkeypatch.setattr(ahead, "compile_changed", noting)
    return texts


def test_what_was_begun_is_taken_and_not_compiled_twice(source, compiled):
    bench, options = Ahead(), CompileOptions()
    texts = [{source.resolve(): KERNEL.replace("2.0f", value)} for value in ("3.0f", "5.0f")]
    for one in texts:
        bench.begin(source, options, one)
    bits = ["0f40400000", "0f40A00000"]
    assert [bit in bench.take(source, options, one).ptx for bit, one in zip(bits, texts, strict=True)] == [True, True]
    assert sorted(compiled) == sorted(one[source.resolve()] for one in texts)
    bench.close()


def test_what_was_not_begun_is_compiled_now(source, compiled):
    assert (
        "0f41100000" in Ahead().take(source, CompileOptions(), {source.resolve(): KERNEL.replace("2.0f", "9.0f")}).ptx
    )
    assert len(compiled) == 1


def test_an_error_comes_when_it_is_taken(source):
    bench, texts = Ahead(), {source.resolve(): "__global__ void k(float* x) { x[0] = ; }\n"}
    bench.begin(source, CompileOptions(), texts)
    with pytest.raises(CompileError):
        bench.take(source, CompileOptions(), texts)
    bench.close()


def test_nothing_is_left_behind_and_it_goes_on(source, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bench, texts = Ahead(), {source.resolve(): KERNEL.replace("2.0f", "3.0f")}
    bench.begin(source, CompileOptions(), texts)
    assert list(tmp_path.glob("wmmadiag-*"))
    bench.close()
    assert not list(tmp_path.glob("wmmadiag-*"))
    assert "0f40400000" in bench.take(source, CompileOptions(), texts).ptx
