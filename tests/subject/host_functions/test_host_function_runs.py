"""Calls of host functions: what they may cost, those that make no end, and accesses outside their arrays."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from host_sources import CARD, GELU, source

import wmmadiag
from wmmadiag.results.model import Problem
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.host_calls import derived, trying
from wmmadiag.subject.drafts.kernel import read_kernel
from wmmadiag.subject.host_functions import library, probe
from wmmadiag.subject.host_functions.reference import prepared, program_of
from wmmadiag.subject.open_subject import SubjectOptions

ENDLESS = """
void {name}(float* out, const float* inp, int n) {{
    volatile int turns = 0;
    for (int i = 0; i < n; i++) out[i] = 2.0f * inp[i];
    {loop}
}}
__global__ void {kernel}(float* out, const float* inp, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * inp[i];
}}
void launch(float* out, const float* inp, int n) {{ {kernel}<<<(n + 63) / 64, 64>>>(out, inp, n); }}
"""


def probed(tmp_path, monkeypatch, work, loop=""):
    """What each question to the calls is answered, asked in this process."""
    monkeypatch.setattr(probe, "_WORK", work)
    text = ENDLESS.format(name="twice_cpu", kernel="twice_kernel", loop=loop)
    path, found = source(tmp_path, text), []
    asked = lambda question: found.append(probe.probe(question)) or found[-1]  # noqa: E731
    monkeypatch.setattr("wmmadiag.subject.reference_process.asked_probe", asked)
    given = GivenSource(path, SubjectOptions(), text)
    derived.host_card(given, read_kernel(given), ())
    return found


def test_what_a_function_may_cost_is_counted_in_operations_and_not_in_seconds(tmp_path, monkeypatch):
    assert all(probed(tmp_path, monkeypatch, 10_000_000))
    stopped = probed(tmp_path, monkeypatch, 10)  # a product for each of 64 elements, or more
    assert stopped and not any(stopped)


@pytest.mark.parametrize("loop", ["while (n) out[0] += 1.0f;", "while (n) turns = 0;"])
@pytest.mark.slow
def test_a_function_that_makes_no_end_is_no_reference(tmp_path, monkeypatch, loop):
    monkeypatch.setattr(library, "_STOPPED", 1)
    stopped = probed(tmp_path, monkeypatch, 100_000, loop)
    assert stopped and not any(stopped)


def test_an_access_a_little_outside_an_array_ends_the_call(tmp_path):
    source(tmp_path, GELU)
    card = source(tmp_path, CARD.replace("CALL", "gelu_cpu(out, inp, n + 1)"), "kernel.toml")
    report = wmmadiag.check(card)
    assert "reads or writes outside its arrays" in report.cases[0].problem.message


TWO_EXTENTS = """
void twice_cpu(float* out, const float* inp, int B, int T) {
    for (int i = 0; i < B * T; i++) out[i] = 2.0f * inp[i];
}
__global__ void twice_kernel(float* out, const float* inp, int B, int T) {
    for (int i = threadIdx.x; i < B * T; i += 32) out[i] = 2.0f * inp[i];
}
int main() {
    int B = 8, T = 1024;
    float *d_out, *d_inp;
    cudaMalloc(&d_out, B * T * sizeof(float));
    cudaMalloc(&d_inp, B * T * sizeof(float));
    twice_kernel<<<1, 32>>>(d_out, d_inp, B, T);
}
"""


def test_where_a_run_does_not_end_only_much_less_is_tried(tmp_path, monkeypatch):
    tried = []

    def takes_long(card, candidate, tries):
        tried.append(trying.weight(card))
        if tried[-1] > 64:
            tries.heavy = tried[-1]
        return tried[-1] <= 64

    monkeypatch.setattr(derived, "is_right", takes_long)
    given = GivenSource(source(tmp_path, TWO_EXTENTS), SubjectOptions())
    kernel = read_kernel(given)
    card, _ = derived.host_card(given, kernel, ())
    assert card is not None and card.cases[0].symbols["T"] == 16
    assert tried == [4 * 1024, 2 * 16]


def test_a_run_that_does_not_end_is_noted_with_its_sizes(tmp_path, monkeypatch):
    given = GivenSource(source(tmp_path, TWO_EXTENTS), SubjectOptions())
    card, _ = derived.host_card(given, read_kernel(given), ())
    case = SimpleNamespace(warp_instructions=9, status="error", problem=Problem("budget", "too long"))
    monkeypatch.setattr("wmmadiag.subject.check.run_case", lambda *_: (case, None, None))
    tries = trying.Tries()
    assert not trying.is_right(card, None, tries)
    assert tries.heavy == trying.weight(card) == 4 * 1024


STRAYS = """
void first_cpu(float* out, float* own, const float* inp, int n) {
    for (int i = 0; i < n; i++) out[i] = own[(long)i * FAR] + inp[i];
}
"""


@pytest.mark.parametrize(("far", "ends"), [(1 << 10, True), (1 << 20, False), (-1, False)])
def test_an_array_that_only_the_function_has_is_large_and_nothing_lies_near_it(tmp_path, far, ends):
    path = source(tmp_path, STRAYS.replace("FAR", str(far)))
    call = prepared(program_of(path, (), ()), "first_cpu(out, own, inp, n)", {"n": False}, "k.cu")
    counts = {"out": 1000, "inp": 1000}
    done = library.run(call.made, call.arrays, {"inp": np.ones(1000)}, counts, [1000], (2.0**-24, 2.0**-22))
    assert (done is not None) == ends
