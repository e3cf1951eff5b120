"""`init`, `ptx` and `doctor`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wmmadiag.cli import installation
from wmmadiag.errors import ConfigurationError

pytestmark = pytest.mark.usefixtures("here")


def test_init_writes_a_card_that_check_takes(run):
    answer = run("init", "gemm.cu", "--computes", "gemm")
    assert answer.code == 0 and "wrote gemm.toml" in answer.out and "TODO" not in answer.out
    assert "next: wmmadiag check gemm.toml" in answer.out
    assert run("check", "gemm.toml").code == 0


def test_init_refuses_to_overwrite(run):
    Path("gemm.toml").write_text("mine")
    answer = run("init", "gemm.cu", "--computes", "gemm")
    assert answer.code == 2 and "--force" in answer.err and Path("gemm.toml").read_text() == "mine"
    assert run("init", "gemm.cu", "--computes", "gemm", "--force").code == 0
    assert "format = 1" in Path("gemm.toml").read_text()
    assert not [path for path in Path().iterdir() if path.name.startswith(".gemm")]


@pytest.mark.slow
def test_init_says_what_is_still_to_be_filled_in(run):
    answer = run("init", "hang.cu", "--computes", "gemm")
    assert answer.code == 0 and "2 places marked TODO" in answer.out
    answer = run("check", "hang.toml")
    assert answer.code == 2 and "still to be filled in" in answer.err


def test_init_to_the_terminal_and_elsewhere(run):
    answer = run("init", "gemm.cu", "--computes", "gemm", "-o", "-")
    assert answer.code == 0 and answer.out.startswith("format = 1") and not Path("gemm.toml").exists()
    Path("cards").mkdir()
    assert run("init", "gemm.cu", "--computes", "gemm", "-o", "cards/one.toml", "-D", "FILL=0.5f", "-I", ".").code == 0
    text = Path("cards/one.toml").read_text()
    assert 'source = "../gemm.cu"' in text and 'FILL = "0.5f"' in text and 'include_paths = [".."]' in text
    assert run("check", "cards/one.toml").code == 1  # the macro arrived
    assert run("init", "gemm.cu", "-o", "cards").code == 2
    assert "cannot be written" in run("init", "gemm.cu", "-o", "gone/one.toml").err


def test_init_of_one_kernel_of_several(run):
    Path("both.cu").write_text(Path("gemm.cu").read_text() + '\n__global__ void other(float* x, int n) {}\n'
                               "void go(float* x) { other<<<1, 32>>>(x, 4); }\n")  # fmt: skip
    assert run("init", "both.cu").code == 0  # one of them has tensor-core instructions
    text = Path("both.toml").read_text()
    assert (
        'entry = "gemm' in text and "the only one with tensor-core instructions; --entry takes another: other" in text
    )
    twice = Path("gemm.cu").read_text().replace("gemm", "second").partition("#include <mma.h>")[2]
    Path("both.cu").write_text(Path("gemm.cu").read_text() + twice)
    answer = run("init", "both.cu", "--force")
    assert answer.code == 2 and "several kernels" in answer.err and "--entry" in answer.err
    assert run("init", "both.cu", "--entry", "gemm", "--computes", "gemm", "--force").code == 0


def test_ptx_interleaves_source_lines(run):
    answer = run("ptx", "gemm.cu")
    assert answer.code == 0
    assert "gemm.cu:16  wmma::mma_sync(sum, a, b, sum);" in answer.out
    assert "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32" in answer.out
    assert "mma.hpp" in answer.out


def test_ptx_of_ptx_and_raw(run):
    raw = run("ptx", "gemm.cu", "--raw", "--arch", "sm_80").out
    assert ".target sm_80" in raw
    Path("one.ptx").write_text(raw)
    answer = run("ptx", "one.ptx")
    assert answer.code == 0 and "for sm_80" in answer.out and "wmma.mma" in answer.out


def test_ptx_of_one_kernel(run):
    other = 'extern "C" __global__ void other(float* x) { *x = 1; }'
    Path("gemm.cu").write_text(f"{Path('gemm.cu').read_text()}\n{other}\n")
    assert ".entry other" in run("ptx", "gemm.cu").out
    answer = run("ptx", "gemm.cu", "--entry", "gemm")
    assert ".entry other" not in answer.out and "wmma.mma" in answer.out


def test_ptx_shows_what_the_compiler_removed(run):
    Path("gemm.cu").write_text(Path("gemm.cu").read_text().replace(
        "wmma::store_matrix_sync(C +", "float t[256]; wmma::store_matrix_sync(t, sum, 16, wmma::mem_row_major);"
        " C[0] = t[threadIdx.x]; if (0) wmma::store_matrix_sync(C +"))  # fmt: skip
    assert "note: gemm.cu:18" in run("ptx", "gemm.cu").err


def test_doctor(run):
    answer = run("doctor")
    assert answer.code == 0 and "ready: all that is required is there" in answer.out
    for name in ("Python", "emulator core", "NVRTC", "CUDA headers", "cache", "GPU", "self test"):
        assert name in answer.out
    assert "gives the right bits" in answer.out


def test_doctor_as_json(run):
    found = json.loads(run("doctor", "--json", "-").out)
    assert found["ready"] is True
    parts = {part["name"]: part for part in found["components"]}
    assert parts["self test"]["present"] and not parts["GPU"]["required"]


def test_doctor_names_what_is_missing_and_the_command(run, monkeypatch):
    def missing() -> None:
        raise ConfigurationError("the NVRTC library not found", hint="pip install nvidia-cuda-nvrtc")

    monkeypatch.setattr("wmmadiag.compile.toolchain.nvrtc_library", missing)
    answer = run("doctor", "--color", "always")
    assert answer.code == 2 and "not ready: NVRTC" in answer.out
    assert "next: pip install nvidia-cuda-nvrtc" in answer.out


def test_doctor_survives_a_broken_part(run, monkeypatch):
    def broken() -> None:
        raise RuntimeError("no such symbol")

    monkeypatch.setattr("wmmadiag.emulator.native.engine", broken)
    answer = run("doctor")
    assert answer.code == 2 and "RuntimeError: no such symbol" in answer.out and "CUDA headers" in answer.out


def test_the_self_test_can_fail(monkeypatch):
    source = installation._SELF_TEST
    monkeypatch.setattr(installation, "_SELF_TEST", source.replace("fb, b, 16", "fb, b, 8"))
    assert not installation._self_test().present


def test_a_cache_that_cannot_be_written_is_no_failure(run, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(tmp_path / "file"))
    answer = run("doctor")
    assert answer.code == 0 and "is not writable" in answer.out


@pytest.mark.parametrize("known", [True, False])
def test_doctor_says_which_engine_is_used(run, monkeypatch, known):
    from wmmadiag.emulator import native

    native.engine.cache_clear()
    isa = native.isas()[0] if known else "nonsense"
    monkeypatch.setenv("WMMADIAG_ISA", isa)
    answer = run("doctor")
    assert answer.code == (0 if known else 2)
    assert (f"{isa} (by WMMADIAG_ISA)" if known else "no engine for instruction set 'nonsense'") in answer.out
    monkeypatch.undo()
    native.engine.cache_clear()


@pytest.mark.parametrize(
    "words",
    [("fragment", "m16n16k16", "f16", "a"), ("shapes",), ("probe", "--list")],
    ids=lambda words: words[0],
)
def test_json_goes_to_a_file_or_alone_to_standard_output(run, tmp_path, words):
    file = tmp_path / "found.json"
    beside = run(*words, "--json", str(file))
    alone = run(*words, "--json", "-")
    assert json.loads(alone.out) == json.loads(file.read_text("utf-8"))
    assert str(file) in beside.err
    answer = run(*words, "--json", str(tmp_path / "gone" / "found.json"))
    assert answer.code == 2 and "mkdir" in answer.err
