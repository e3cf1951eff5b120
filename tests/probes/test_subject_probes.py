"""Probes of whole kernels: right ones answer right everywhere, wrong ones are wrong where their fault must show."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

import pytest

from wmmadiag import backends
from wmmadiag.api import open_card
from wmmadiag.launch import Launch, RunStats
from wmmadiag.probes.subject import ProbeAnswer, run_subject_probes
from wmmadiag.probes.subject.command import _telling_case, as_data, as_text, exit_code, probe_card
from wmmadiag.probes.subject.registry import all_subject_probes
from wmmadiag.subject.bench import Workbench
from wmmadiag.subject.compiling import SubjectCompiler

KERNELS = Path(__file__).parents[2] / "kernels"


def bench_of(path: str, backend: backends.Loader | None = None) -> Workbench:
    card = open_card(KERNELS / path)
    loader = backend or backends.backend("emulator")
    return Workbench(card, card.variants[0], "sm_90", loader, (), SubjectCompiler())


@cache
def answers(path: str, case: str) -> dict[str, ProbeAnswer]:
    bench = bench_of(path)
    return {one.name: one for one in run_subject_probes(bench, bench.card.case(case), seconds=30)}


RIGHT = [
    "attention/kernel.toml", "attention/fp16_accumulate.toml", "attention_fused/kernel.toml", "gemm/kernel.toml",
    "gemm/bf16.toml", "gemm/tf32.toml", "gemm/s8.toml", "gemm/f64.toml", "gemm_mma/kernel.toml", "pv/kernel.toml",
    "qkt/kernel.toml",
]  # fmt: skip
LOOKALIKES = sorted(path.relative_to(KERNELS).as_posix() for path in KERNELS.glob("*/lookalike/*.toml"))


@pytest.mark.parametrize("path", [*RIGHT, *LOOKALIKES])
def test_a_right_kernel_answers_right(path: str) -> None:
    bench = bench_of(path)
    for case in bench.cases()[:2]:
        for answer in run_subject_probes(bench, case, seconds=30):
            # Without a maximum subtracted, large scores overflow in a kernel that is right for small ones.
            allowed = {"right", "undecided"} if "no_max" in path else {"right"}
            assert answer.verdict in allowed, (case.name, answer)
            assert answer.sentence and not answer.supports


WRONG = [
    ("attention/wrong/qk_not_transposed.toml", {"dominant-key": "", "permuted-keys": "layout"},
     {"uniform-weights", "row-sum"}),
    ("attention/wrong/bshd_alpha_missing_on_o.toml", {"row-maxima": "statement", "row-sum": "statement"},
     {"uniform-weights"}),
    ("attention/wrong/bshd_exp2.toml", {"score-slope": "value"}, {"dominant-key", "row-sum", "uniform-weights"}),
    ("attention/wrong/twopass_scale_missing.toml", {"score-slope": "value"}, {"uniform-weights", "row-sum"}),
    ("attention/wrong/bshd_no_final_division.toml", {"row-sum": "value", "uniform-weights": "value"},
     {"dominant-key"}),
    ("attention/wrong/pv_overwritten.toml", {"key-tiles": "accumulation", "permuted-keys": "accumulation"},
     set()),
    ("attention/wrong/gqa_head_modulo.toml", {"head-codes": "stride"}, {"row-sum"}),
    ("attention/wrong/gqa_causal_off_by_one.toml", {"uniform-weights": "condition"}, {"row-sum"}),
    ("attention/wrong/gqa_nan_rows.toml", {"masked-rows": "condition"}, set()),
    ("attention/wrong/too_few_warps.toml", {"permuted-rows": "launch", "two-runs": "launch"}, set()),
    ("attention/wrong/bshd_wrong_row_sum.toml", {"permuted-rows": "value"}, {"uniform-weights"}),
    ("attention/wrong/pipe_lse_of_unscaled.toml", {"log-sum": "value"}, {"score-slope", "row-sum"}),
    ("attention/wrong/bshd_syncwarp_for_syncthreads.toml", {"warp-order": "missing-order"}, set()),
    ("attention/wrong/local_array.toml", {"runs": ""}, set()),
    ("gemm/wrong/zeroed_in_k_loop.toml", {"counted-terms": "accumulation"}, {"zero-operand"}),
    ("gemm/wrong/no_zero_fill.toml", {"zero-operand": "accumulation"}, set()),
    ("gemm/wrong/splitk_slice_twice.toml", {"counted-terms": "loop-extent"}, {"zero-operand"}),
    ("gemm/wrong/k_tail_dropped.toml", {"counted-terms": "loop-extent", "operand-map": "loop-extent"},
     {"zero-operand"}),
    ("gemm/wrong/tn_a_ldm_k.toml", {"operand-map": "leading-dimension"}, {"zero-operand"}),
    ("gemm/wrong/fill_without_stride_loop.toml", {"two-runs": "loop-extent"}, set()),
    ("gemm_mma/wrong/mma_b_without_trans.toml", {"operand-map": "layout"}, {"counted-terms"}),
    ("pv/wrong/pv_v_col_major.toml", {"operand-map": "layout"}, {"counted-terms", "zero-operand"}),
    ("qkt/wrong/qk_plain_product.toml", {"operand-map": "layout"}, {"counted-terms", "zero-operand"}),
    ("qkt/wrong/qk_scale_by_d.toml", {"counted-terms": "value"}, {"zero-operand"}),
    ("softmax/wrong/softmax_first_warps.toml", {"softmax-rows": "value"}, {"warp-order", "warp-alone"}),
    ("softmax/wrong/softmax_partial_reused.toml", {"warp-alone": "missing-order"}, set()),
    ("pv/wrong/pv_half_columns.toml", {"warp-alone": "launch"}, set()),
    ("gemm/wrong/tn_warp_number.toml", {"warp-alone": "index"}, set()),
    ("gemm/wrong/int8_three_columns.toml", {"warp-alone": "condition"}, set()),
]  # fmt: skip


@cache
def of_card(path: str) -> dict[str, ProbeAnswer]:
    return {one.name: one for one in probe_card(KERNELS / path, seconds=30).answers}


@pytest.mark.parametrize(("path", "wrong", "right"), WRONG, ids=[Path(path).stem for path, _, _ in WRONG])
def test_a_wrong_kernel_answers_wrong_where_it_shows(path: str, wrong: dict[str, str], right: set[str]) -> None:
    found = of_card(path)
    for name, supported in wrong.items():
        assert found[name].verdict == "wrong", found[name]
        assert not supported or supported in found[name].supports, found[name]
    for name in right:
        assert found[name].verdict == "right", found[name]


def test_sentences_say_what_came_out() -> None:
    assert "scores 8 times as large" in of_card("attention/wrong/twopass_scale_missing.toml")["score-slope"].sentence
    assert "exp2 without log2(e)" in of_card("attention/wrong/bshd_exp2.toml")["score-slope"].sentence
    layout = of_card("qkt/wrong/qk_plain_product.toml")["operand-map"].sentence
    assert layout == "index-coded operands: K is read transposed"
    alone = of_card("pv/wrong/pv_half_columns.toml")["warp-alone"].sentence
    assert alone == "elements that warp 1 wrote are wrong, all that warp 0 wrote are right"
    assert "stored by two warps" in of_card("gemm/wrong/tn_warp_number.toml")["warp-alone"].sentence
    assert "only the last survives" in of_card("gemm/wrong/zeroed_in_k_loop.toml")["counted-terms"].sentence


def test_each_probe_is_asked_by_some_test() -> None:
    """Of the cards above; the rest of them is not asked again once none is left."""
    left = set(all_subject_probes()) - {"padding"} - set(answers("qkt/kernel.toml", "one_tile"))
    for path, _, _ in WRONG:
        if left:
            left -= set(of_card(path))
    for path in LOOKALIKES:
        if left:
            left -= set(answers(path, open_card(KERNELS / path).cases[0].name))
    assert not left


class _OutputsOnly:
    """A kernel that shows nothing but its arrays, as on a GPU."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def launch(self, launch: Launch) -> RunStats:
        return self._inner.launch(launch)  # type: ignore[attr-defined, no-any-return]


def _black_box(ptx: str, entry: str, *, arch: str) -> _OutputsOnly:
    return _OutputsOnly(backends.backend("emulator")(ptx, entry, arch=arch))


def test_outputs_are_enough() -> None:
    bench = bench_of("attention/wrong/qk_not_transposed.toml", _black_box)
    found = {one.name: one for one in run_subject_probes(bench, _telling_case(bench, print), seconds=30)}
    assert found["dominant-key"].verdict == "wrong" and found["uniform-weights"].verdict == "right"
    assert "warp-order" not in found and found["two-runs"].verdict == "right"


def test_the_arrays_are_as_before_and_time_is_kept() -> None:
    bench = bench_of("gemm/kernel.toml")
    started = time.perf_counter()
    assert run_subject_probes(bench, bench.cases()[0], seconds=0) == ()
    assert time.perf_counter() - started < 10
    first = run_subject_probes(bench, bench.cases()[0], seconds=30)
    assert first == run_subject_probes(bench, bench.cases()[0], seconds=30)


PADDED = """#include <cuda_fp16.h>
extern "C" __global__ void f(const half* A, const half* B, float* D, int M, int N, int K, int P)
{
    int r = threadIdx.x / N, c = threadIdx.x % N;
    if (r >= M) return;
    float sum = 0;
    for (int k = 0; k < K + READ; ++k) sum += __half2float(A[r * P + k]) * (k < K ? __half2float(B[k * N + c]) : 1.0f);
    D[r * N + c] = sum;
}
"""
CARD = """format = 1
source = "f.cu"
entry = "f"
arguments = [
    { name = "A", role = "a", dtype = "f16", pad = { K = 8 }, padding = "zero" },
    { name = "B", role = "b", dtype = "f16" }, { name = "D", role = "d", dtype = "f32" },
    { name = "M", dtype = "s32", value = "M" }, { name = "N", dtype = "s32", value = "N" },
    { name = "K", dtype = "s32", value = "K" }, { name = "P", dtype = "s32", value = "K + 8" },
]
launch = { grid = 1, block = 256 }
computes = { operation = "gemm" }
macros = { READ = 0 }
cases = [{ name = "one", M = 8, N = 16, K = 16 }]
"""


@pytest.mark.parametrize(("read", "verdict"), [(0, "right"), (1, "wrong")])
def test_padding_that_is_read_shows_though_zeros_hid_it(tmp_path: Path, read: int, verdict: str) -> None:
    (tmp_path / "f.cu").write_text(PADDED)
    (tmp_path / "f.toml").write_text(CARD.replace("READ = 0", f"READ = {read}"))
    found = {one.name: one for one in probe_card(tmp_path / "f.toml").answers}
    assert found["padding"].verdict == verdict
    assert found["zero-operand"].verdict == "right"


def test_text_data_and_exit_codes() -> None:
    wrong, right = (
        probe_card(KERNELS / "qkt/wrong/qk_plain_product.toml"),
        probe_card(KERNELS / "qkt/kernel.toml", case="one_tile"),
    )
    assert (exit_code(wrong), exit_code(right)) == (1, 0)
    text = as_text(wrong, verbose=False, width=80)
    assert "WRONG     index-coded operands: K is read transposed [operand-map]" in text and "wmmadiag diagnose" in text
    assert max(map(len, text.splitlines())) <= 100
    assert "speaks for: layout" in as_text(wrong, verbose=True, width=80)
    assert as_data(wrong)["answers"][0]["verdict"] in ("right", "wrong")
