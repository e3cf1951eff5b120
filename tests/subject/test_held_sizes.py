"""Sizes that host code refuses are not tried, whatever it calls what it asks for multiples of."""

from wmmadiag.cli.main import main

SOURCE = """
#include <cassert>
#include <cuda_fp16.h>
template <class T> struct alignas(16) Pack {
    static constexpr const size_t size = sizeof(int4) / sizeof(T);
    T v[size];
};
typedef Pack<half> pack;
__global__ void relu_forward_kernel(half* out, const half* inp) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * pack::size;
    pack in = *reinterpret_cast<const pack*>(inp + i), result;
    for (int k = 0; k < pack::size; ++k) result.v[k] = __hmax(in.v[k], __float2half(0.0f));
    *reinterpret_cast<pack*>(out + i) = result;
}
void relu_forward(half* out, const half* inp, int N) {
    const int block_size = 512;
    CONDITION;
    relu_forward_kernel<<<(N + block_size * pack::size - 1) / (block_size * pack::size), block_size>>>(out, inp);
}
"""


def test_what_a_size_is_a_multiple_of_may_be_a_product_that_no_case_names(tmp_path, capsys):
    path = tmp_path / "relu.cu"
    path.write_text(SOURCE.replace("CONDITION", "assert(N % (block_size * pack::size) == 0)"))
    assert main(["check", str(path)]) == 0
    assert "N=4096" in capsys.readouterr().out


def test_without_the_condition_the_kernel_reads_outside_and_that_is_asked_about(tmp_path, capsys):
    path = tmp_path / "relu.cu"
    path.write_text(SOURCE.replace("CONDITION", "int unused = N"))
    assert main(["check", str(path)]) == 3
    assert "out of bounds" in " ".join(capsys.readouterr().out.split())
