"""A kernel on the bench: as it stands, changed, launched otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wmmadiag import backends
from wmmadiag.checks import native_names, select
from wmmadiag.emulator import Budget
from wmmadiag.errors import BudgetError, CompileError
from wmmadiag.subject.bench import Workbench
from wmmadiag.subject.card import Case
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.compiling import SubjectCompiler

SOURCE = """#include "factor.cuh"
__global__ void gemm(const float* a, const float* b, float* c, int n, int k) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= 16 * n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; i += 1) sum += a[at / n * k + i] * b[i * n + at % n];
    c[at] = sum * FACTOR;
}
"""
HEADER = "#pragma once\n#define FACTOR 1.0f\n"
CARD = """format = 1
source = "kernel.cu"
entry = "gemm"
[computes]
operation = "gemm"
[[arguments]]
name = "a"
role = "a"
dtype = "f32"
[[arguments]]
name = "b"
role = "b"
dtype = "f32"
[[arguments]]
name = "c"
role = "d"
dtype = "f32"
direction = "out"
[[arguments]]
name = "n"
dtype = "s32"
value = "N"
[[arguments]]
name = "k"
dtype = "s32"
value = "K"
[launch]
grid = "M * N / 64"
block = 64
[[cases]]
name = "large"
M = 16
N = 32
K = 32
[[cases]]
name = "small"
M = 16
N = 16
K = 8
"""


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    for name, text in {"kernel.cu": SOURCE, "factor.cuh": HEADER, "kernel.toml": CARD}.items():
        (tmp_path / name).write_text(text)
    card = load_card(tmp_path / "kernel.toml")
    checks = select("default")
    loader = backends.backend("emulator", None, native_names(checks))
    return Workbench(card, card.variants[0], "sm_90", loader, checks, SubjectCompiler())


def small(bench: Workbench) -> Case:
    return bench.cases()[0]


def test_cases_run_smallest_first_as_the_source_stands(bench: Workbench) -> None:
    assert [case.name for case in bench.cases()] == ["small", "large"]
    assert [bench.run(case).passed for case in bench.cases()] == [True, True]


def test_a_changed_source_is_wrong_where_the_change_says(bench: Workbench) -> None:
    changed = {bench.source.resolve(): SOURCE.replace("at % n", "at % 2")}
    run = bench.run(small(bench), changed)
    assert (run.passed, run.wrong_count > 0, run.wrong["d"].shape) == (False, True, (16, 16))
    assert bench.run(small(bench)).passed


def test_a_changed_header_is_seen(bench: Workbench) -> None:
    header = bench.source.parent.resolve() / "factor.cuh"
    assert bench.run(small(bench), {header: HEADER.replace("1.0f", "2.0f")}).wrong_count == 16 * 16
    assert bench.run(small(bench), {header: HEADER.replace("1.0f", "(2.0f - 1.0f)")}).passed


def test_a_changed_text_is_compiled_once_ever(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(tmp_path / "cache"))
    texts = {bench.source.resolve(): SOURCE.replace("0.0f;", "3.0f;")}
    first = bench.run(small(bench), texts).compilation
    again = replace(bench, _sessions={}).run(small(bench), texts).compilation
    assert first is not None
    assert again is not None
    assert (first.cached, again.cached, first.ptx == again.ptx) == (False, True, True)


def test_a_changed_loop_that_never_ends_is_stopped_by_its_instructions(bench: Workbench) -> None:
    right = bench.run(small(bench))
    endless = bench.run(small(bench), {bench.source.resolve(): SOURCE.replace("i += 1", "i -= i")})
    assert isinstance(endless.error, BudgetError)
    assert "warp instructions" in endless.error.message
    assert right.passed


def test_what_does_not_compile_is_said_and_not_raised(bench: Workbench) -> None:
    run = bench.run(small(bench), {bench.source.resolve(): SOURCE.replace("sum +=", "total +=")})
    assert isinstance(run.error, CompileError)
    assert (run.kernel, run.verdict, run.passed) == (None, None, False)


def test_another_launch_takes_the_place_of_the_cards(bench: Workbench) -> None:
    launch = bench.card.launch
    bench.launch = replace(launch, grid=launch.block)  # of 64 blocks, 4 or 8 have work
    assert [bench.run(case).passed for case in bench.cases()] == [True, True]
    bench.launch = replace(launch, block=launch.grid)  # as many threads as there were blocks
    assert not bench.run(small(bench)).passed


def test_what_takes_longer_than_a_look_is_run_in_full_if_it_ends_at_all(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bench.run(small(bench))
    monkeypatch.setattr("wmmadiag.subject.bench._LOOKED_AT", whole.result.warp_instructions - 1)
    again = replace(bench, _sessions={}).run(small(bench))
    assert again.passed and again.result.warp_instructions == whole.result.warp_instructions
    monkeypatch.setattr("wmmadiag.subject.bench._USUAL", Budget(whole.result.warp_instructions - 1, seconds=0))
    never = replace(bench, _sessions={}).run(small(bench))
    assert isinstance(never.error, BudgetError) and never.verdict is None
