"""Launches found in host code."""

from __future__ import annotations

import pytest

from wmmadiag.compile import find_launches

TEXT = """template <int A, int B> __global__ void attn(const half *q) {}
namespace n { __global__ void k(int a) {} }
void host(int B, int H) {
  dim3 grid((B + 63) / 64, H), block = dim3(128);
  int smem = 64 * 1024;
  cudaFuncSetAttribute(attn<64, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
  attn<64, (D > 32)><<<grid, block, smem, at::cuda::getCurrentCUDAStream()>>>(q.data_ptr<half>(), f<a, b>(3));
  n::k
     <<<1,
     32>>>(5);
  void *args[] = {&a};
  cudaLaunchKernel((const void *)&n::k, grid, dim3(1, 2), args, 0, stream);
  cudaLaunchKernelEx(&config, attn<1, 2>, q);
  AT_DISPATCH(t, "x", [&] { n::k<<<g, b>>>(a >> 1); });
}
class Runner { void run() { n::k<<<a < b ? 1 : 2, 3>>>(); } };
"""


def test_launches() -> None:
    found = find_launches(TEXT, "k.cu")
    assert [(launch.kernel, launch.place.line) for launch in found] == [
        ("attn", 7),
        ("n::k", 8),
        ("n::k", 12),
        ("attn", 13),
        ("n::k", 14),
        ("n::k", 16),
    ]
    first = found[0]
    assert [one.text for one in first.template_arguments] == ["64", "(D > 32)"]
    assert first.grid and first.block and first.shared and first.stream
    assert (first.grid.text, first.block.text, first.shared.text) == ("grid", "block", "smem")
    assert first.stream.text == "at::cuda::getCurrentCUDAStream()"
    assert (first.grid.place.line, first.grid.place.column) == (7, 24)
    assert [one.text for one in first.arguments] == ["q.data_ptr<half>()", "f<a, b>(3)"]
    assert [(name, value.text) for name, value in first.attributes] == [
        ("cudaFuncAttributeMaxDynamicSharedMemorySize", "smem")
    ]
    assert {name: value.text for name, value in first.locals}["grid"] == "dim3((B + 63) / 64, H)"
    assert {name: value.text for name, value in first.locals}["smem"] == "64 * 1024"
    assert first.function == "host"


def test_other_forms() -> None:
    found = find_launches(TEXT, "k.cu")
    assert found[1].block is not None
    assert (found[1].block.text, found[1].block.place.line, found[1].shared) == ("32", 10, None)
    assert found[2].block is not None and found[2].shared is not None
    assert (found[2].block.text, found[2].shared.text) == ("dim3(1, 2)", "0")
    assert found[3].grid is None
    assert [one.text for one in found[3].arguments] == ["q"]
    assert [one.text for one in found[4].arguments] == ["a >> 1"]
    assert found[5].function == "Runner::run"
    assert found[5].grid is not None
    assert found[5].grid.text == "a < b ? 1 : 2"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<<<",
        "void f() { a<<<",
        "void f() { a<<<1, 2>>>; }",
        "void f() { int x = a << 3; b >> 2; }",
        "void f() { <<<1>>>(2); }",
    ],
)
def test_what_is_no_launch(text: str) -> None:
    assert find_launches(text) == ()


def test_launch_through_a_pointer() -> None:
    text = """void host() {
  auto kernel = &ns::attn<64, true>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 99);
  kernel<<<1, 128, 99>>>(q);
}
"""
    (launch,) = find_launches(text)
    assert launch.kernel == "ns::attn"
    assert [one.text for one in launch.template_arguments] == ["64", "true"]
    assert [value.text for _, value in launch.attributes] == ["99"]
    assert launch.place.line == 4


def test_several_definitions_in_one_declaration():
    text = """
__global__ void k(float* x) {}
void run(float* x, int n) {
  const int a = (n + 3) / 4, b = max(n, 2);
  dim3 grid(a, b), block{32, 4}, one = dim3(1);
  k<<<grid, block>>>(x);
}
"""
    (launch,) = find_launches(text)
    assert {name: value.text for name, value in launch.locals} == {
        "a": "(n + 3) / 4", "b": "max(n, 2)", "grid": "dim3(a, b)", "block": "dim3(32, 4)", "one": "dim3(1)",
    }  # fmt: skip
