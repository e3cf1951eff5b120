"""A copy or fill of as many bytes as the memory has elements is told, where the program's own words say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wmmadiag.cli.main import main

PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define BINS 256
struct Pair { float a, b; };
__global__ void fill(float* x, int n) {
    if (threadIdx.x < n) x[threadIdx.x] = 1;
}
int main() {
    const int n = 64, rows = 2;
    const size_t bytes = n * sizeof(float);
    float *x, *y, *planes, host[4 * BINS];
    Pair* pairs;
    cudaMalloc(&x, BINS * sizeof(float));
    cudaMalloc((void**)&y, sizeof(*y) * ( n*rows ));
    cudaMalloc(&planes, 4 * bytes);
    cudaMalloc(&pairs, n * sizeof *pairs);
    cudaMemset(x, 0, BINS);  // short
    cudaMemset(x, 0, BINS * sizeof(float));
    fill<<<1, BINS>>>(x, BINS);
    cudaMemcpy(host, x, BINS, cudaMemcpyDeviceToHost);  // short
    cudaMemcpy(host, x, sizeof(float) * BINS, cudaMemcpyDeviceToHost);
    cudaMemcpy(host, x, sizeof(float), cudaMemcpyDeviceToHost);  // one element
    cudaMemcpyAsync(y, host, (n * rows), cudaMemcpyHostToDevice, 0);  // short
    cudaMemcpyAsync(y, host, n * rows * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(planes, host, bytes, cudaMemcpyHostToDevice);  // the first of four
    cudaMemset(pairs, 0, n);  // short
    cudaMemset(pairs + 1, 0, n);  // from within
    cudaMemset(pairs, 0, n / 2);  // not as many as it has elements
    puts("done");
}
"""


@pytest.mark.subprocess
def test_sizes_in_elements_are_told_and_parts_are_not(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, record = tmp_path / "program.cu", tmp_path / "run.json"
    source.write_text(PROGRAM)
    main(["run", "--json", str(record), str(source)])
    said = capfd.readouterr()
    found = [one["finding"] for one in json.loads(record.read_text())["found"]]
    short = {
        int(one["place"].split(":")[1]) for one in found if "of the" in one["message"] and one["check"] == "memory"
    }
    marked = {at for at, line in enumerate(PROGRAM.split("\n"), 1) if line.endswith("// short")}
    assert short == marked, said.err
    assert "next: a size is in bytes: n * sizeof *pairs" in said.err
