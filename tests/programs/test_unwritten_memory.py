"""Which bytes of device memory nothing has written, from launch to launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import run_program

PARTS = """#include <cstdio>
__global__ void fill(float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = i;
}
__global__ void shift(float* y, int n) {  // reads and writes the same array: run again in the order of blocks
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = y[i] + 1;
}
__global__ void sum(const float* y, int n, float* out) {
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 32) s += y[i];
    atomicAdd(out, s);
}
__global__ void rows(float* p, int pitch) { p[blockIdx.x * pitch + threadIdx.x] = threadIdx.x; }
__global__ void sums(const float* p, int pitch, int w, float* out) {
    float s = 0;
    for (int i = 0; i < w; ++i) s += p[threadIdx.x * pitch + i];
    out[threadIdx.x] = s;
}
int main(int argc, char**) {
    float *y, *z, *out, *p;
    cudaMalloc(&y, 4000), cudaMalloc(&z, 4000), cudaMalloc(&out, 128), cudaMalloc(&p, 32 * 40 * 4);
    cudaMemset(out, 0, 4);
    for (int k = 0; k < 3; ++k) fill<<<4, 256>>>(y, 900);  // the third is known to do what the second did
    for (int k = 0; k < 3; ++k) shift<<<4, 256>>>(y, 900);
    cudaMemset(y + 900, 0, 160);
    cudaMemcpy(z, y, 4000, cudaMemcpyDeviceToDevice);
    sum<<<1, 32>>>(z, 940, out);
    rows<<<32, 32>>>(p, 40);
    sums<<<1, 32>>>(p, 40, 32, out);
    if (argc > 1) {
        cudaMemset(out, 0, 4);
        sum<<<1, 32>>>(y, 1000, out);
        sum<<<1, 32>>>(z, 941, out);
        sums<<<1, 32>>>(p, 40, 33, out);
    }
    float h[1000];
    cudaMemcpy(h, z, 4000, cudaMemcpyDeviceToHost);
    printf("%g\\n", h[899]);
    return 0;
}
"""


def test_what_is_never_read_is_no_finding(tmp_path: Path) -> None:
    done = run_program(tmp_path, PARTS)
    assert (done.returncode, done.stdout) == (0, "902\n"), done.stderr
    assert "nothing found" in done.stderr


@pytest.mark.parametrize("how", [(), ("--sample-blocks", "1"), ("--schedules", "2")])
def test_bytes_that_no_launch_has_written_are_watched_still(tmp_path: Path, how: tuple[str, ...]) -> None:
    done = run_program(tmp_path, PARTS, *how, "--", "wrong")
    assert (done.returncode, done.stdout) == (1, "902\n"), done.stderr
    told = " ".join(done.stderr.split())
    assert told.count("error [uninitialised]") == 3
    assert "line 12 reads y, which nothing has written" in told and "reads y[940]" in told
    assert "line 12 reads z, which nothing has written" in told and "reads z[940]" in told
    assert "line 18 reads p, which nothing has written" in told and "reads p[32]" in told


PADDED = """#include <cstdio>
#include <curand_kernel.h>
struct Node { char kind; int next; double weight; int label; };
struct alignas(16) Triple { float x, y, z; };
template <class T>
__global__ void copied(const T* from, T* to) { to[threadIdx.x] = from[threadIdx.x]; }
__global__ void made(Node* nodes, Triple* triples) {
    const int t = threadIdx.x;
    nodes[t].kind = 'a', nodes[t].next = t, nodes[t].weight = t, nodes[t].label = t;
    triples[t].x = triples[t].y = triples[t].z = t;
}
__global__ void half_made(Node* nodes) { nodes[threadIdx.x].next = threadIdx.x; }
__global__ void weighed(const Node* nodes, double* to) { to[threadIdx.x] = nodes[threadIdx.x].weight * 2; }
__global__ void begun(curandState* states) { curand_init(7, threadIdx.x, 0, states + threadIdx.x); }
__global__ void drawn(curandState* states, float* to) {
    curandState own = states[threadIdx.x];
    to[threadIdx.x] = curand_uniform(&own);
    states[threadIdx.x] = own;
}
template <class T>
T* memory() {
    T* p;
    cudaMalloc(&p, 32 * sizeof(T));
    return p;
}
int main(int argc, char**) {
    auto *nodes = memory<Node>(), *others = memory<Node>();
    auto *triples = memory<Triple>(), *more = memory<Triple>();
    auto* states = memory<curandState>();
    if (argc > 1) half_made<<<1, 32>>>(nodes);
    else made<<<1, 32>>>(nodes, triples), copied<<<1, 32>>>(triples, more);
    copied<<<1, 32>>>(nodes, others);
    weighed<<<1, 32>>>(argc > 1 ? nodes : others, memory<double>());
    begun<<<1, 32>>>(states), drawn<<<1, 32>>>(states, memory<float>()), drawn<<<1, 32>>>(states, memory<float>());
    return cudaDeviceSynchronize();
}
"""


def test_padding_that_is_copied_with_its_struct_is_no_finding(tmp_path: Path) -> None:
    done = run_program(tmp_path, PADDED)
    assert done.returncode == 0 and "error" not in done.stderr and "warning" not in done.stderr, done.stderr


def test_members_that_nothing_has_written_are_a_finding(tmp_path: Path) -> None:
    done = run_program(tmp_path, PADDED, "--", "half")
    told = " ".join(done.stderr.split())
    assert done.returncode == 1 and "line 13 reads p, which nothing has written" in told, done.stderr
