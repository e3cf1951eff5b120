"""Error codes, packed arrays and who wrote what, against runs where it is known."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmmadiag.api import check
from wmmadiag.compare.comparison import classify
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.parts.rounding import Judgement
from wmmadiag.recording import ReportRecorder, run_of
from wmmadiag.recording.error_maps import Room, error_codes, packed
from wmmadiag.results.maps import ALLOWED, AT_BOUND, EXACT, INFINITE, LARGEST, NAN, UNBOUNDED, UNWRITTEN


def codes(observed, expected, bound, poison=None, free=None):
    arrays = [np.asarray(one, np.float64) for one in (observed, expected, bound)]
    seen = classify(
        arrays[0].astype(np.float32), arrays[1], Judgement(arrays[2], free), element=TYPES["f32"], unwritten=poison
    )
    return error_codes(seen, arrays[2]), seen.wrong


def test_each_code():
    poison = np.array([0, 0, 0, 0, 0, 0, 0, 0, 1], bool)
    made, wrong = codes(
        [1, 1, 1.5, 1.25, 2, np.nan, np.inf, np.nan, 7],
        [1, 1.5, 1, 1, 1, 1, 1, np.nan, 1],
        [0.1, 0, 0.5, 0.5, 0.5, 1, 1, 1, 1],
        poison,
    )
    assert made.tolist() == [EXACT, UNBOUNDED, AT_BOUND, AT_BOUND - 8, AT_BOUND + 8, NAN, INFINITE, ALLOWED, UNWRITTEN]
    assert wrong.tolist() == [False, True, False, False, True, True, True, False, True]


@given(st.floats(1e-30, 1e30), st.floats(1e-30, 1e30))
def test_no_element_crosses_the_bound(difference, bound):
    made, wrong = codes([np.float32(difference)], [0.0], [bound])
    assert (made[0] > AT_BOUND) == bool(wrong[0]) and made[0] <= LARGEST


def unpacked(text, dtype):
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype)


@pytest.mark.parametrize("size", [1.0, 1e-30, 1e30, 0.0])
def test_values_come_back(size):
    generator = np.random.default_rng(0)
    shape = (2, 300, 200)  # beyond what is kept to 24 bits
    observed, expected = size * generator.standard_normal((2, *shape))
    observed[0, 0, :3] = np.nan, np.inf, -np.inf
    wrong = np.ones(shape, bool)
    made = packed("v", "c", "O", "HSD", observed, expected, np.full(shape, 200, np.uint8), wrong, Room())
    assert (made.numbers, made.rows, made.columns, [one.index for one in made.planes]) == (
        "f16",
        300,
        200,
        [(0,), (1,)],
    )
    for number, plane in enumerate(made.planes):
        for text, values in ((plane.observed, observed), (plane.expected, expected)):
            back = unpacked(text, "<f2").astype(np.float64).reshape(300, 200) * made.scale
            np.testing.assert_allclose(back, values[number], rtol=2.0**-11, atol=2.0**-24 * made.scale)


def test_a_vector_is_one_row():
    made = packed("v", "c", "y", "", np.ones(5), np.zeros(5), np.full(5, 200, np.uint8), np.ones(5, bool), Room())
    assert (made.rows, made.columns, made.planes[0].index) == (1, 5, ())


KERNEL = """
extern "C" __global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = lane; i < 16 * 16; i += 32) {
        const int r = blockIdx.x * 16 + i / 16, c = warp * 16 + i % 16;
        if (warp == 3 && blockIdx.x == 1) continue;
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += __half2float(A[r * K + k]) * __half2float(B[k * N + c]);
        C[r * N + c] = sum + (warp == 1);
    }
}
"""
CARD = """format = 1
name = "tiles"
source = "tiles.cu"
entry = "gemm"
arguments = [
    { name = "A", role = "a", dtype = "f16" }, { name = "B", role = "b", dtype = "f16" },
    { name = "C", role = "d", dtype = "f32" },
    { name = "M", dtype = "s32", value = "M" }, { name = "N", dtype = "s32", value = "N" },
    { name = "K", dtype = "s32", value = "K" },
]
launch = { grid = ["M / 16"], block = 128 }
computes = { operation = "gemm" }
cases = [{ name = "one", M = 48, N = 64, K = 16 }]
"""


@pytest.fixture
def tiles(tmp_path, monkeypatch):
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "tiles.cu").write_text("#include <cuda_fp16.h>" + KERNEL)
    (tmp_path / "tiles.toml").write_text(CARD)
    return tmp_path / "tiles.toml"


def test_who_wrote_each_tile(tiles):
    recorder = ReportRecorder()
    report = check(tiles, recorder=recorder)
    made = recorder.kernel_run(report)
    assert report.status == "failed" and len(made.maps) == 1
    owners = made.maps[0].owners[0].tiles
    assert owners[1][3] is None
    for row, line in enumerate(owners):
        for column, one in enumerate(line):
            if one is not None:
                assert (one.block, one.warps, one.blocks, one.elements) == ((row, 0, 0), (column,), 1, 256)
    error = unpacked(made.maps[0].planes[0].error, np.uint8).reshape(48, 64)
    assert (
        (error[16:32, 48:] == UNWRITTEN).all()
        and (error[:, 16:32] > AT_BOUND).all()
        and (error[:, :16] <= AT_BOUND).all()
    )
    assert [Path(one.path).name for one in made.sources] == ["tiles.toml", "tiles.cu"]


def test_recording_changes_nothing(tiles):
    from dataclasses import replace

    plain, recorded = check(tiles), check(tiles, recorder=ReportRecorder())

    def timeless(report):
        cases = tuple(replace(case, seconds=0.0) for case in report.cases)
        return replace(report, seconds=0.0, cases=cases)

    assert repr(timeless(plain)) == repr(timeless(recorded))


def test_a_run_says_what_it_ran_with():
    run = run_of([], command="wmmadiag check")
    assert {"wmmadiag", "Python", "numpy"} <= set(run.versions) and run.started.endswith("Z")
    assert run.exit_code == 2 and any(rule.id == "races" and "happens-before" in rule.help for rule in run.rules)
