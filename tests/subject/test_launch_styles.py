"""Ways in which public host code launches a kernel: all lead to the same launch."""

from __future__ import annotations

import pytest

from wmmadiag.subject.binding import bind
from wmmadiag.subject.open_subject import SubjectOptions, open_subject

KERNEL = """#include <cuda_fp16.h>
#include <mma.h>
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define CHECK(x) do { if ((x) != cudaSuccess) abort(); } while (0)
using namespace nvcuda;
template <int BM, int BN, bool EVEN>
__global__ void mm(const half* A, const half* B, float* C, int M, int N, int K) { wmma::mma_sync(x, y, z, x); }
"""
HOST = "void run(half* a, half* b, float* c, int m, int n, int k, cudaStream_t stream) { %s }\n"
STYLES = {
    "extended": """cudaLaunchConfig_t config = {0};
        config.gridDim = dim3(n / 32, m / 64); config.blockDim = 128; config.dynamicSmemBytes = 64 * 32 * sizeof(half);
        CHECK(cudaLaunchKernelEx(&config, mm<64, 32, true>, (const half*)a, (const half*)b, c, m, n, k));""",
    "listed": """dim3 grid(n / 32, m / 64);
        cudaLaunchConfig_t config{grid, dim3(128), 64 * 32 * 2, stream};
        cudaLaunchKernelEx(&config, &mm<64, 32, true>, a, b, c, m, n, k);""",
    "designated": """cudaLaunchConfig_t config = {
          .gridDim = dim3(n / 32, m / 64), .blockDim = dim3(128), .dynamicSmemBytes = 4096};
        cudaLaunchKernelEx(&config, mm<64, 32, true>, a, b, c, m, n, k);""",
    "by address": """void* args[] = {&a, &b, &c, &m, &n, &k};
        CHECK(cudaLaunchKernel((const void*)mm<64, 32, true>, dim3(n / 32, m / 64), dim3(128), args, 4096, stream));""",
    "pointer": """auto kernel = &mm<64, 32, true>;
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 4096));
        dim3 grid{static_cast<unsigned>(n / 32), static_cast<unsigned>(m / 64)};
        kernel<<<grid, 128, 4096, stream>>>(a, b, c, m, n, k);""",
    "typed pointer": """using Kernel = void (*)(const half*, const half*, float*, int, int, int);
        Kernel kernel = mm<64, 32, true>;
        kernel<<<dim3(n / 32, m / 64), 128, 4096, stream>>>(a, b, c, m, n, k);""",
    "declared pointer": """void (*kernel)(const half*, const half*, float*, int, int, int) = mm<64, 32, true>;
        kernel<<<dim3(n / 32, m / 64), 128, 4096, stream>>>(a, b, c, m, n, k);""",
    "members": """dim3 grid, block; grid.x = CEIL_DIV(n, 32); grid.y = CEIL_DIV(m, 64); block.x = 128;
        mm<64, 32, true><<<grid, block, 4096>>>(a, b, c, m, n, k);""",
    "constants": """const uint BM = 64; const uint BN = 32; constexpr int kSmem = BM * BN * 2;
        mm<BM, BN, true><<<dim3(CEIL_DIV(n, BN), CEIL_DIV(m, BM)), dim3(4 * 32), kSmem>>>(a, b, c, m, n, k);""",
    "lambda": """auto go = [&](auto kernel, int threads) {
          kernel<<<dim3(n / 32, m / 64), threads, 4096>>>(a, b, c, m, n, k); };
        go(mm<64, 32, true>, 128);""",
    "helper": "start(mm<64, 32, true>, dim3(n / 32, m / 64), 128, stream, a, b, c, m, n, k);",
}
CHOSEN = """decltype(&mm<64, 32, true>) kernel = nullptr;
        switch (m) { case 64: kernel = &mm<64, 32, true>; break; default: kernel = mm<128, 32, false>; }
        kernel<<<dim3(n / 32, m / 64), 128, 4096, stream>>>(a, b, c, m, n, k);"""
HELPER = """
template <typename Kernel, typename... Args>
void start(Kernel kernel, dim3 grid, int threads, cudaStream_t stream, Args&&... args) {
  const size_t bytes = 4096;
  kernel<<<grid, dim3(threads), bytes, stream>>>(std::forward<Args>(args)...);
  CHECK(cudaGetLastError());
}
"""


def tiles(tmp_path, text):
    path = tmp_path / "k.cu"
    path.write_text(text)
    card = open_subject(path, SubjectOptions(computes="gemm"))
    return card, bind(card, card.case("tiles"), card.variants[0])


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("linkage", ["", 'extern "C" '])
def test_every_style_of_launch_is_understood(tmp_path, style, linkage):
    helper = HELPER if style == "helper" else ""
    card, bound = tiles(tmp_path, KERNEL + helper + linkage + HOST % STYLES[style])
    assert card.entry == "mm<64, 32, true>"
    assert (bound.launch.grid, bound.launch.block, bound.launch.shared_bytes) == ((6, 2, 1), (128, 1, 1), 4096)
    assert [int(one) for one in bound.launch.arguments[3:]] == [128, 192, 320]


def test_a_kernel_that_is_chosen_by_a_size_gets_that_size(tmp_path):
    card, bound = tiles(tmp_path, KERNEL + HOST % CHOSEN)
    assert card.entry == "mm<64, 32, true>" and [int(one) for one in bound.launch.arguments[3:]] == [64, 192, 320]


def test_a_macro_that_launches_and_a_switch_over_template_arguments(tmp_path):
    macro = (
        "#define LAUNCH(BM, BN) mm<BM, BN, true><<<dim3(CEIL_DIV(n, BN), CEIL_DIV(m, BM)), 128>>>(a, b, c, m, n, k)\n"
    )
    body = "switch (k) { case 64: LAUNCH(64, 32); break; default: LAUNCH(128, 64); }"
    card, bound = tiles(tmp_path, KERNEL + macro + HOST % body)
    assert card.entry == "mm<64, 32, true>" and bound.launch.grid == (6, 2, 1)


def test_the_class_template_that_launches_tells_its_parameters(tmp_path):
    text = KERNEL.replace("bool EVEN", "typename T").replace("const half* A, const half* B", "const T* A, const T* B")
    runner = (
        "template <typename E, int TILE> struct Runner { static void run(E* a, E* b, float* c, int m, int n,"
        " int k) { mm<TILE, TILE, E><<<dim3(n / TILE, m / TILE), 64>>>(a, b, c, m, n, k); } };\n"
        "int main() { Runner<half, 32>::run(0, 0, 0, 512, 512, 512); }\n"
    )
    card, bound = tiles(tmp_path, text + runner)
    assert card.entry == "mm<32, 32, half>" and card.arguments[0].element.name == "f16"
    assert bound.launch.grid == (6, 4, 1)


PERSISTENT = """
__global__ void mm(const half* A, const half* B, float* C, int M, int N, int K) {
  for (int tile = blockIdx.x; tile < M * N / 256; tile += gridDim.x) C[tile] = 0;
}
int main() { int M = 4096, N = 4096, K = 4096; COUNT mm<<<BLOCKS, 256>>>(pa, pb, pc, M, N, K); }
"""


@pytest.mark.parametrize(
    ("count", "blocks"),
    [
        ("cudaDeviceProp prop; cudaGetDeviceProperties(&prop, 0);", "prop.multiProcessorCount"),
        ("int sms; cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);", "dim3(sms * 2)"),
        ("", "at::cuda::getCurrentDeviceProperties()->multiProcessorCount"),
    ],
)
def test_a_kernel_that_takes_any_grid_gets_one_for_a_small_chip(tmp_path, count, blocks):
    _, bound = tiles(tmp_path, "#include <cuda_fp16.h>" + PERSISTENT.replace("COUNT", count).replace("BLOCKS", blocks))
    assert bound.launch.grid in ((3, 1, 1), (6, 1, 1))
    assert bound.symbols["M"] == 128, "not the size that the source launches with"


def test_a_helper_that_is_never_called_tells_nothing(tmp_path):
    card, bound = tiles(tmp_path, KERNEL + HELPER + HOST % STYLES["members"])
    assert card.entry == "mm<64, 32, true>" and bound.launch.block == (128, 1, 1)


@pytest.mark.parametrize(("rows", "size"), [("M * M_TILES", 128), ("M", 16)], ids=["of tiles", "of one tile"])
def test_extents_are_those_of_the_arrays_that_host_code_makes(tmp_path, rows, size):
    path = tmp_path / "k.cu"
    path.write_text(f"""#include <mma.h>
#define M 16
#define M_TILES 8
__global__ void gemm(const half* A, const half* B, float* C) {{ nvcuda::wmma::mma_sync(x, y, z, x[M]); }}
int main() {{
    half *A, *B; float *C; int n = 64, k = 32;
    cudaMalloc(&A, sizeof(half) * {rows} * k); cudaMalloc(&B, sizeof(half) * k * n);
    cudaMalloc(&C, sizeof(float) * {rows} * n);
    gemm<<<4, 128>>>(A, B, C);
}}
""")
    card = open_subject(path, SubjectOptions(computes="gemm"))
    assert {case.symbols["M"] for case in card.cases} == {size}


def test_one_tile_is_as_large_as_its_arrays(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text("""#include <mma.h>
__global__ void gemm(const half* a, const half* b, float* c) { nvcuda::wmma::mma_sync(x, y, z, x); }
int main() {
    half *a, *b; float *c;
    cudaMalloc(&a, 16 * 8 * sizeof(half)); cudaMalloc(&b, 8 * 32 * sizeof(half));
    cudaMalloc(&c, 16 * 32 * sizeof(float));
    gemm<<<1, 32>>>(a, b, c);
}
""")
    card = open_subject(path, SubjectOptions(computes="gemm"))
    assert [{name: case.symbols[name] for name in "MNK"} for case in card.cases] == [{"M": 16, "N": 32, "K": 8}]


@pytest.mark.parametrize(
    ("moved", "said"), [("a + i * m * k", True), ("a", False)], ids=["other matrices", "the same again"]
)
def test_of_a_loop_that_moves_its_arrays_one_turn_is_judged_which_is_said(tmp_path, moved, said):
    loop = f"for (int i = 0; i < many; i++) mm<64, 32, true><<<dim3(n / 32, m / 64), 128>>>({moved}, b, c, m, n, k);"
    source = tmp_path / "k.cu"
    source.write_text(KERNEL + HOST.replace("int m", "int many, int m") % loop)
    card = open_subject(source, SubjectOptions(computes="gemm"))
    assert any("one turn of the loop" in one for one in card.assumed) == said
