"""Loops of host code run over symbols: a size for those that double, sums over their indices for those that add."""

from __future__ import annotations

import pytest
from host_launches import KERNEL, launched, ran, shown

from wmmadiag.hostcode import terms

BLOCKS = """void run(half* a, half* b, float* c, int m, int n, int k) {
  int threads = 32, log2 = 0;
  while (threads < n / 2) threads *= 2;
  while ((1 << log2) < n) ++log2;
  %s
  mm<64, half><<<m, threads, log2 * 4>>>(a, b, c, m, n, k);
}"""


@pytest.mark.parametrize(("before", "supposed"), [("", {"n"}), ("assert(m %% 4 == 0);", {"n"})])
def test_a_loop_that_doubles_runs_for_one_size(tmp_path, before, supposed):
    ((launch, machine),) = launched(tmp_path, KERNEL + BLOCKS % before)
    assert shown(launch, machine)[1:] == (["m", "1", "1"], ["128", "1", "1"], "32")
    assert machine.supposed == supposed and machine.usual["n"] == 256


def test_a_loop_that_counts_supposes_nothing(tmp_path):
    text = (
        "void run(half* a, half* b, float* c, int m, int n, int k) { int s = 0; for (int i = 0; i < n; ++i) s += i;\n"
    )
    ((_, machine),) = launched(tmp_path, KERNEL + text + "mm<64, half><<<m, 128>>>(a, b, c, m, n, k); }")
    assert not machine.supposed


@pytest.mark.parametrize(
    "text",
    [
        "void run(int n) { while (true) { n = n * 2; } k<<<n, 1>>>(); }",
        "void run(int n) { run(n + 1); k<<<n, 1>>>(); }",
        "void run(int n) { for (;;) { k<<<n, 1>>>(); } }",
        "template <int N> struct A { static constexpr int v = A<N - 1>::v; }; void run() { k<<<A<9>::v, 1>>>(); }",
        "void run() { k<<<(1 / 0), 1 << 400>>>(); }",
        "void run( { k<<<1, >>>(",
    ],
)
def test_host_code_that_never_ends_or_is_none_ends_here(tmp_path, text):
    assert ran(tmp_path, "__global__ void k() {}\n" + text) is not None


def test_a_sum_of_a_loop_goes_on_to_another_variable(tmp_path):
    text = KERNEL + (
        "void run(half* a, float* c, float* s, int n) { double sum = 0, last = 0;\n"
        "  for (int i = 0; i < n; i++) { sum += s[i] = expf(s[i]); last = sum; }\n"
        "  mm<64, half><<<n, 32>>>(a, a, c, n, n, n); }\n"
    )
    ((launch, machine),) = launched(tmp_path, text)
    assert shown(launch, machine)[1:3] == (["n", "1", "1"], ["32", "1", "1"])


def test_loops_of_the_host_are_sums_over_their_indices(tmp_path):
    text = (
        "__global__ void k() {}\n"
        "void reference(const float* A, const half* B, float* C, int M, int N, int K) {\n"
        "  for (int i = 0; i < M; ++i) for (int j = 0; j < N; ++j) { float s = 0.f;\n"
        "    for (int k = 0; k < K; ++k) s += A[i * K + k] * (float)B[j * K + k];\n"
        "    C[i * N + j] = 2.f * s; } k<<<1, 1>>>(); }\n"
    )
    machine = ran(tmp_path, text)[0].machine
    ((buffer, place, value),) = machine.stores
    assert buffer.name == "C" and terms.text(place) == "index_1 * N + index_2"
    (total,) = [one for one in value.args if one.op == "+"]
    added = total.args[1]
    assert added.op == "sum" and terms.text(added.args[0]) == "index_3"
    first, second = added.args[1].args
    assert [machine.loads[one.args[0]].name for one in (first, second)] == ["A", "B"]
    assert terms.text(second.args[1]) == "index_2 * K + index_3"
