"""The launch of a kernel that nobody launches is derived only where its code leaves one answer."""

from __future__ import annotations

import pytest

from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.binding import bind
from wmmadiag.subject.open_subject import SubjectOptions, open_subject

HEAD = "#include <mma.h>\n#include <cuda_fp16.h>\nconstexpr int BM = 64, BN = 32, THREADS = 4 * 32;\n"
GEMM = "const half* A, const half* B, float* C, int M, int N, int K"
ATTENTION = "const half* Q, const half* K, const half* V, half* O, int batch, int heads, int seq_len, int head_dim"


def card_of(tmp_path, signature, body, operation, bounds="__launch_bounds__(THREADS)", **options):
    path = tmp_path / "k.cu"
    path.write_text(f"{HEAD}__global__ void {bounds} k({signature}) {{ {body} }}\n")
    return open_subject(path, SubjectOptions(computes=operation, **options))


GUARDED = "const int r0 = blockIdx.y * BM; const int c0 = blockIdx.x * BN; if (r0 >= M || c0 >= N) return;"
STEPPED = "int row = blockIdx.x * BM + threadIdx.x / 32; int col = blockIdx.y * BN; C[row * N + col] = A[row * K];"
TURNED = "int by = blockIdx.y; int col = by * BN; int row = blockIdx.x * BM; C[col * M + row] = 0;"


@pytest.mark.parametrize(
    ("body", "grid"),
    [(GUARDED, (6, 2, 1)), (STEPPED, (2, 6, 1)), (TURNED, (2, 6, 1))],
    ids=["guard", "step", "columns"],
)
def test_a_gemm_by_its_guards_or_strides(tmp_path, body, grid):
    card = card_of(tmp_path, GEMM, body, "gemm")
    launch = bind(card, card.case("tiles"), card.variants[0]).launch
    assert (launch.grid, launch.block) == (grid, (128, 1, 1))
    assert "since the source has no launch; --grid and --block say otherwise" in card.assumed[0]


@pytest.mark.parametrize(
    ("body", "grid"),
    [
        ("int bh = blockIdx.y; int m0 = BM * blockIdx.x; O[bh + m0] = Q[0];", (2, 6, 1)),
        ("int b = blockIdx.x / heads, h = blockIdx.x % heads; int q0 = blockIdx.y * BM;", (6, 2, 1)),
        ("const int batch_idx = blockIdx.z; int head_id = blockIdx.y; int q0 = blockIdx.x * BM;", (2, 3, 2)),
    ],
)
def test_an_attention_by_what_its_blocks_count(tmp_path, body, grid):
    card = card_of(tmp_path, ATTENTION, body, "attention", symbols={"D": "64"})
    assert bind(card, card.case("tiles"), card.variants[0]).launch.grid == grid


def test_a_block_by_the_strides_of_its_loops(tmp_path):
    loop = "const int tid = threadIdx.x; for (int i = tid; i < BM * BN; i += THREADS) s[i] = 0;"
    card = card_of(tmp_path, GEMM, GUARDED + loop, "gemm", "")
    assert bind(card, card.cases[0], card.variants[0]).launch.block == (128, 1, 1)


@pytest.mark.parametrize(
    ("signature", "body", "operation", "bounds", "asked"),
    [
        (GEMM, GUARDED, "gemm", "", "block"),
        (GEMM, GUARDED + "for (int i = threadIdx.x; i < BM; i += 256) s[i] = 0;", "gemm", None, "block"),
        (GEMM, GUARDED + "s[threadIdx.y] = 0;", "gemm", None, "block"),
        (GEMM, GUARDED + "t = gridDim.x;", "gemm", None, "grid"),
        (GEMM, "int t = blockIdx.x; int row = t / 3 * BM; int col = t % 3 * BN;", "gemm", None, "grid"),
        (GEMM, "int x = blockIdx.x * BM; int y = blockIdx.y * BN; f(x, y);", "gemm", None, "grid"),
        (GEMM, GUARDED.replace("blockIdx.y * BM", "blockIdx.y * size"), "gemm", None, "grid"),
        (GEMM, GUARDED + "int z = blockIdx.z;", "gemm", None, "grid"),
        (GEMM, "C[threadIdx.x] = 0;", "gemm", None, "grid"),
        (ATTENTION, "int a = blockIdx.x * BM; int b = blockIdx.y * BN;", "attention", None, "grid"),
        (ATTENTION, "int what = blockIdx.y; int q0 = blockIdx.x * BM;", "attention", None, "grid"),
        (GEMM, GUARDED + "extern __shared__ float s[];", "gemm", None, "shared"),
    ],
)
def test_what_is_not_plain_is_asked_for(tmp_path, signature, body, operation, bounds, asked):
    with pytest.raises(ConfigurationError, match=r"cannot|can be derived") as raised:
        card_of(tmp_path, signature, body, operation, bounds if bounds is not None else "__launch_bounds__(THREADS)",
                symbols={"D": "64"} if operation == "attention" else {})  # fmt: skip
    assert f"  {asked}: " in raised.value.detail


def test_what_the_user_gives_is_not_derived(tmp_path):
    card = card_of(tmp_path, GEMM, GUARDED, "gemm", grid=("N//32", "M//64"), block=("256",))
    assert card.assumed == () and [str(one) for one in card.launch.block] == ["256"]
