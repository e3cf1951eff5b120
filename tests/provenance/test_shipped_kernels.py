"""Right kernels: every output element is explained. Wrong ones: the disagreement, at its line."""

from __future__ import annotations

import pytest
from traced import KERNELS, traced_card

from wmmadiag.provenance import Disagreement, ProvenanceRun

RIGHT = [
    ("attention/kernel.toml", "", "tail"),
    ("attention/kernel.toml", "", "causal"),
    ("attention/kernel.toml", "", "one_query"),
    ("attention_fused/kernel.toml", "rows16", "tail"),
    ("attention_fused/kernel.toml", "rows32", "causal"),
    ("attention_fused/kernel.toml", "rows16", "growing_max"),
    ("qkt/kernel.toml", "", "odd"),
    ("pv/kernel.toml", "", "d72"),
    ("gemm/kernel.toml", "", "odd"),
    ("gemm/bf16.toml", "", "odd"),
    ("gemm/tf32.toml", "", "odd"),
    ("gemm/f64.toml", "", "odd"),
    ("gemm/s8.toml", "", "odd"),
    ("gemm_mma/kernel.toml", "", "odd"),
]


@pytest.mark.parametrize(("card", "variant", "case"), RIGHT)
def test_right_kernels_are_explained(card: str, variant: str, case: str) -> None:
    run = traced_card(KERNELS / card, case, variant)
    assert run.disagreements == ()
    assert run.notes == ()
    assert run.explained, run.outputs


def _line(name: str, text: str, occurrence: int = 0) -> int:
    source = (KERNELS / "attention" / "wrong" / f"{name}.cu").read_text()
    return [number for number, line in enumerate(source.splitlines(), 1) if text in line][occurrence]


def _wrong(name: str, case: str) -> tuple[ProvenanceRun, Disagreement]:
    run = traced_card(KERNELS / "attention" / "wrong" / f"{name}.toml", case)
    assert not run.explained
    return run, run.disagreements[0]


def test_product_over_the_wrong_axis() -> None:
    run, first = _wrong("qk_not_transposed", "two_heads")
    assert len(run.disagreements) == 1
    assert first.kind == "wrong-axis"
    assert first.place.line == _line("qk_not_transposed", "mma_sync", 0)
    assert first.other is not None
    assert first.other.line == _line("qk_not_transposed", "load_matrix_sync(b", 0)
    assert "multiplies Q[0,0]·K[0,0]: " in first.message and "rows of K" in first.message
    (reach,) = first.reach
    assert reach.elements == reach.of == 2 * 64 * 64


def test_leading_dimension_without_the_padding() -> None:
    run, first = _wrong("ldm_ignores_padding", "two_heads")
    assert first.kind == "leading-dimension"
    assert first.place.line == _line("ldm_ignores_padding", "&sP[ti * 16][k]")
    assert "64" in first.message
    assert first.hint == "pass 72 as the leading dimension"
    assert first.operand == "A"
    (summary,) = run.outputs
    assert summary.explained == 2 * 4 * 64  # rows 0, 16, 32, 48 of each head
    assert summary.unknown == 0


def test_partial_sums_overwritten() -> None:
    run, first = _wrong("pv_overwritten", "tail")
    assert len(run.disagreements) == 1
    assert first.kind == "lost-sums"
    assert first.place.line == _line("pv_overwritten", "store_matrix_sync(&sO")
    assert first.detail == ("o[0, 0, 0, 0] has [64, 100) of [0, 100)",)
    assert run.outputs[0].explained == 0


def test_overwriting_is_harmless_with_one_tile() -> None:
    run = traced_card(KERNELS / "attention" / "wrong" / "pv_overwritten.toml", "two_heads")
    assert run.disagreements == ()
    assert run.explained


def test_rows_that_no_warp_computes() -> None:
    run, first = _wrong("too_few_warps", "tail")
    assert {one.kind for one in run.disagreements} == {"uninitialised"}
    (reach,) = first.reach
    assert reach.first == (0, 0, 16, 0)
    assert reach.elements == 2 * 3 * 16 * 64
    assert run.outputs[0].explained == 2 * 52 * 64
