"""Sizes of 0: a sum over nothing is judged, what cannot be made or launched is the case's error."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_kernels import write_right

from wmmadiag.campaign.points import Point
from wmmadiag.campaign.work import PointResult, WorkSetting, run_point

KERNELS = Path(__file__).parents[2] / "kernels"


def ran(folder: Path, card: str, case: str, version: str = "", **sizes: int) -> PointResult:
    return run_point(WorkSetting(str(folder)), version, Point(card, "sm_90", "default", case, sizes))


def test_a_sum_over_nothing(tmp_path):
    write_right(tmp_path)
    source = tmp_path / "gemm.cu"
    assert ran(tmp_path, "right.toml", "one", K=0).status == "passed"
    source.write_text(source.read_text().replace("#define FILL 0.0f", "#define FILL 1.0f"))
    wrong = ran(tmp_path, "right.toml", "one", "wrong", K=0)
    assert wrong.status == "failed" and wrong.wrong > 0


@pytest.mark.parametrize(
    ("card", "case", "sizes", "says"),
    [
        ("gemm/kernel.toml", "one_fragment", {"M": 0}, "grid.y"),
        ("gemm/kernel.toml", "one_fragment", {"N": 0}, "grid.x"),
        ("decode_attention/kernel.toml", "small", {"H": 0}, "0 is no divisor"),
        ("paged_attention/kernel.toml", "small", {"B": 0}, "grid.x"),
        ("packed_attention/kernel.toml", "small", {"B": 0}, ""),
    ],
)
def test_what_is_not_defined_is_the_case_s_error(card, case, sizes, says):
    found = ran(KERNELS, card, case, **sizes)
    assert says in found.message and (found.status == "error" or not says)


def test_inputs_that_cannot_be_made_are_told(monkeypatch):
    def divided(*_):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("wmmadiag.subject.binding.draw_meaningful", divided)
    found = ran(KERNELS, "paged_attention/kernel.toml", "small", B=0)
    assert (
        found.status == "error"
        and "no inputs of paged_attention can be made where 'out' has no element" in found.message
    )
    assert (
        "a bug of wmmadiag" in ran(KERNELS, "paged_attention/kernel.toml", "small").message
    )  # not for lack of elements


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_no_warning_is_shown():
    assert ran(KERNELS, "layernorm/kernel.toml", "small", N=0).status in ("undecided", "passed")
