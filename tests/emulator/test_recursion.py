"""Device functions that come to themselves again, against the same in Python."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.compile.driver import compile_source
from wmmadiag.compile.options import CompileOptions
from wmmadiag.emulator import EmulatorOptions, load
from wmmadiag.errors import KernelFault, UnsupportedError
from wmmadiag.launch import Launch

SOURCE = """
struct Pair { double sum; char tag; float least; };
__device__ __noinline__ Pair both(Pair a, Pair b) {
  return {a.sum + b.sum, char(a.tag + b.tag), a.least < b.least ? a.least : b.least};
}
__device__ __noinline__ Pair halves(const float* x, int n, int* calls) {
  ++*calls;
  if (n == 1) return {x[0], 1, x[0]};
  int left = 0, right = 0;  // each has its own, and they are given away
  Pair a = halves(x, n / 2, &left), b = halves(x + n / 2, n - n / 2, &right);
  *calls += left + right;
  return both(a, b);
}
__device__ int odd(int n);
__device__ __noinline__ int even(int n) { return n == 0 ? 1 : odd(n - 1) * 3; }
__device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1) + 1; }
struct Shape { __device__ virtual int count(int depth) const = 0; };
struct Leaf : Shape { __device__ int count(int depth) const override { return depth; } };
struct Both : Shape {
  const Shape *a, *b;
  __device__ int count(int depth) const override { return a->count(depth + 1) + b->count(depth + 1); }
};
extern "C" __global__ void walk(const float* x, int n, double* sums, int* whole) {
  int t = threadIdx.x, calls = 0;
  if (t >= n) return;
  Pair found = halves(x, n - t, &calls);
  sums[t] = found.sum + found.least;
  Leaf leaf;
  Both chain[12];
  for (int i = 0; i < 12; i++) { chain[i].a = &leaf; chain[i].b = i ? (const Shape*)&chain[i - 1] : &leaf; }
  whole[3 * t] = calls; whole[3 * t + 1] = even(t % 12) + found.tag; whole[3 * t + 2] = chain[t % 12].count(0);
}
__device__ __noinline__ int deep(int n, int* out) { return n == 0 ? out[threadIdx.x] : deep(n - 1, out) * 3 + n; }
extern "C" __global__ void down(int* out, int n) { out[threadIdx.x] = deep(n, out); }
"""
CHECKS = EmulatorOptions(checks=("uninitialised", "races"))


@pytest.fixture(scope="module")
def ptx(tmp_path_factory):
    path = tmp_path_factory.mktemp("recursion") / "k.cu"
    path.write_text(SOURCE)
    return compile_source(path, CompileOptions(arch="sm_80")).ptx


def even(n):
    return 1 if n == 0 else odd(n - 1) * 3


def odd(n):
    return 0 if n == 0 else even(n - 1) + 1


def chain(n, depth):
    return depth + 1 + (chain(n - 1, depth + 1) if n else depth + 1)


def test_each_activation_has_its_own_variables_and_registers(ptx):
    n = 37
    x = (np.arange(n, dtype=np.float32) * 7 % 11 + 1).astype(np.float32)
    sums, whole = np.zeros(n), np.zeros((n, 3), np.int32)
    kernel = load(ptx, "walk", options=CHECKS)
    kernel.launch(Launch((1, 1, 1), (64, 1, 1), [x, n, sums, whole], names=("x", "n", "sums", "whole")))
    assert sums.tolist() == [float(x[: n - t].sum() + x[: n - t].min()) for t in range(n)]
    assert whole[:, 0].tolist() == [2 * (n - t) - 1 for t in range(n)]
    assert whole[:, 1].tolist() == [even(t % 12) + n - t for t in range(n)]
    assert whole[:, 2].tolist() == [chain(t % 12, 0) for t in range(n)]
    assert kernel.raw_findings == []


def test_what_a_recursion_does_wrong_is_told_at_its_line_and_what_goes_too_deep_is_refused(ptx):
    kernel = load(ptx, "down", options=CHECKS)
    out = np.zeros(32, np.int32)
    with pytest.raises(KernelFault, match="past the end of out") as fault:
        kernel.launch(Launch((1, 1, 1), (64, 1, 1), [out, 5], names=("out", "n")))
    assert fault.value.place.line == 33
    kernel = load(ptx, "down", options=CHECKS)
    with pytest.raises(UnsupportedError, match="the stack's 16,384 bytes"):
        kernel.launch(Launch((1, 1, 1), (32, 1, 1), [out, 100_000], names=("out", "n")))
