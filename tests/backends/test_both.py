"""Whole kernels on both backends; and what is said where they differ."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))

from gpu_kernels import compiled, needs_gpu, zeros

from wmmadiag.api import check
from wmmadiag.errors import KernelFault

KERNELS = Path(__file__).parents[2] / "kernels"
# Of the wrong kernels those that end on a chip, whatever it does with their mistake.
WRONG = ("ldm_ignores_padding", "local_array", "pv_overwritten", "qk_not_transposed", "too_few_warps")
CARDS = [
    *sorted(KERNELS.glob("*/*.toml")),
    *sorted(KERNELS.glob("*/lookalike/*.toml")),
    *(KERNELS / "attention" / "wrong" / f"{name}.toml" for name in WRONG),
]


@needs_gpu
@pytest.mark.parametrize("path", CARDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_case_of_every_card_gives_the_same_bits(path: Path) -> None:
    report = check(path, backend="both")
    differing = [
        (case.variant, case.case, note)
        for case in report.cases
        if not any("order is free" in note for note in case.notes)  # sums by atomics
        for note in case.notes
        if "differ" in note
    ]
    if path.parent.name == "wrong":  # what it reads may be garbage, and differ; but it is wrong on both
        assert report.status == "failed"
    else:
        assert differing == []
        assert [case.case for case in report.cases if case.status != "passed"] == []


@needs_gpu
def test_agreement_is_silent() -> None:
    stats = compiled("p[threadIdx.x] = threadIdx.x;", "both").launch(1, 64, zeros())
    (other,) = stats.elsewhere
    assert other.backend == "gpu"
    assert other.notes == ()
    assert stats.warp_instructions > 0


@needs_gpu
def test_uninitialised_memory_is_the_reason() -> None:
    body = (
        "__shared__ int s[64]; if (threadIdx.x & 1) s[threadIdx.x] = 7; __syncthreads();\n"
        "p[threadIdx.x] = s[threadIdx.x];"
    )
    stats = compiled(body, "both").launch(1, 64, zeros())
    notes = "\n".join(stats.elsewhere[0].notes)
    assert "32 of 64 elements differ; the first, p[0]" in notes
    assert "was stored last at" in notes
    assert "uninitialised" in notes


@needs_gpu
def test_a_race_is_the_reason() -> None:
    body = "__shared__ int s[128]; s[threadIdx.x] = threadIdx.x; p[threadIdx.x] = s[127 - threadIdx.x];"
    stats = compiled(body, "both").launch(1, 128, zeros(128))
    notes = "\n".join(stats.elsewhere[0].notes)
    assert "order in which warps run" in notes or not notes


@needs_gpu
def test_a_fault_on_both_names_the_line() -> None:
    with pytest.raises(KernelFault) as caught:
        compiled("p[1ll << 40] = 1;", "both").launch(1, 1, zeros())
    assert caught.value.kind == "out-of-bounds"
    assert "on the GPU: it dies there, too" in caught.value.detail


@needs_gpu
def test_a_fault_on_one_only() -> None:
    with pytest.raises(KernelFault) as caught:
        compiled("p[1] = p[64 + (1 << 14)];", "both").launch(1, 1, zeros())
    assert "ran to its end there" in caught.value.detail
