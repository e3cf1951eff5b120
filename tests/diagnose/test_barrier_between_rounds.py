"""A barrier between two rounds of a loop: where it stands decides whether lanes of a warp meet all the same."""

from __future__ import annotations

from pathlib import Path

from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.confirm import confirmed
from wmmadiag.diagnose.engine import failing_runs
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.search import Tried
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.subject.card_files.read import load_card

SOURCE = """#define T 32
__global__ void product(const float* a, const float* b, float* c, int n, int k) {
    __shared__ float left[T * T], right[T * T];
    const int col = threadIdx.x % T, row = threadIdx.x / T;
    a += blockIdx.y * T * k;
    b += blockIdx.x * T;
    c += blockIdx.y * T * n + blockIdx.x * T;
    float sum = 0.0f;
    for (int at = 0; at < k; at += T) {
        left[row * T + col] = a[row * k + col];
        right[row * T + col] = b[row * n + col];
        __syncthreads();
        a += T;
        b += T * n;
        for (int x = 0; x < T; ++x) {
            sum += left[row * T + x] * right[x * T + col];
        }
    }
    c[row * n + col] = sum;
}
"""
CARD = """format = 1
name = "product"
source = "product.cu"
entry = "product"

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

[[arguments]]
name = "n"
dtype = "s32"
value = "N"

[[arguments]]
name = "k"
dtype = "s32"
value = "K"

[launch]
grid = ["N / 32", "M / 32"]
block = 1024

[[cases]]
name = "two rounds"
M = 32
N = 32
K = 64
"""


def put_behind(source: Path, line: str, score: float) -> Tried:
    at = SOURCE.index(line) + len(line)
    text = "\n        __syncthreads();"
    change = Change("barrier_more", (TextEdit(str(source), at, at, text),), "insertion", "barrier", line)
    return Tried(Ranked(change, (str(source), SOURCE.count("\n", 0, at) + 1), score), Outcome(change, "right", 1, 0))


def test_a_barrier_behind_which_lanes_of_a_warp_meet_comes_after_one_that_leaves_none(tmp_path: Path) -> None:
    """Behind the first store it keeps warps apart, and not lanes, which read the row that they write."""
    (tmp_path / "product.cu").write_text(SOURCE, "utf-8")
    (tmp_path / "product.toml").write_text(CARD, "utf-8")
    ((bench, run),) = failing_runs(load_card(tmp_path / "product.toml"))
    store, rounds = "left[row * T + col] = a[row * k + col];", "right[x * T + col];\n        }"
    tried = [put_behind(bench.source, store, 9.0), put_behind(bench.source, rounds, 0.0)]
    texts = {str(bench.source): SOURCE.encode()}
    first, second = confirmed(bench, bench.cases(), {run.result.case: run}, tried, texts, 8)
    assert first.right and not first.lanes_meet and first.tried is tried[1]
    assert second.right and second.lanes_meet and second.tried is tried[0]
