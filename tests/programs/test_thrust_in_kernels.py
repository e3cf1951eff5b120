"""What kernels take of Thrust and CUB: pointers and iterators as arguments, functors, operators of old."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

POINTERS = r"""#include <cstdio>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/iterator/counting_iterator.h>
template <class From, class To>
__global__ void copy(From from, To to, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}
__global__ void twice(thrust::device_ptr<int> x, thrust::device_ptr<const int> y, int n) {
    if (threadIdx.x < n) x[threadIdx.x] = 2 * *(y + threadIdx.x);
}
__global__ void folded(const int* x, int* sums, int n) {
    thrust::plus<int> add;
    for (int i = 0; i < n; ++i) sums[threadIdx.x] = add(sums[threadIdx.x], x[threadIdx.x * n + i]);
}
int main() {
    const int n = 20;
    thrust::device_vector<int> a(n), b(n), sums(2);
    copy<<<1, 32>>>(thrust::counting_iterator<int>(5), a.begin(), n);
    copy<<<1, 32>>>(a.begin(), thrust::raw_pointer_cast(b.data()), n);
    twice<<<1, 32>>>(a.data(), b.data(), n);
    b[3] = 100;
    folded<<<1, 2>>>(b.data().get(), sums.data().get(), n / 2);
    printf("%d %d %d %d %d %d\n", (int)a[0], (int)a[n - 1], (int)b[0], (int)b[1], (int)sums[0], (int)sums[1]);
}
"""


@pytest.mark.subprocess
def test_pointers_iterators_and_functors_of_thrust(tmp_path: Path) -> None:
    done = run_program(tmp_path, POINTERS)
    sums = [100 - 8 + sum(range(5, 15)), sum(range(15, 25))]
    assert done.stdout.split() == [str(one) for one in (10, 48, 5, 6, *sums)], done.stderr
    assert done.returncode == 0


OPERATORS = r"""#include <cstdio>
#include <cub/block/block_reduce.cuh>
__global__ void reduced(int* out) {
    using Reduce = cub::BlockReduce<int, 64>;
    __shared__ typename Reduce::TempStorage kept;
    const int i = threadIdx.x;
    const int most = Reduce(kept).Reduce(i, cub::Max());
    __syncthreads();
    const int least = Reduce(kept).Reduce(i + 3, cub::Min());
    __syncthreads();
    const int sum = Reduce(kept).Reduce(i, cub::Sum());
    if (i == 0) out[0] = most, out[1] = least, out[2] = sum;
    if (i == 0) out[3] = cub::Inequality()(1, 2) + 2 * cub::Equality()(1, 2);
}
int main() {
    int *out, got[4];
    cudaMalloc(&out, sizeof got);
    reduced<<<1, 64>>>(out);
    cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost);
    printf("%d %d %d %d\n", got[0], got[1], got[2], got[3]);
}
"""


@pytest.mark.subprocess
def test_operators_that_cub_dropped(tmp_path: Path) -> None:
    done = run_program(tmp_path, OPERATORS)
    assert (done.stdout, done.returncode) == ("63 3 2016 1\n", 0), done.stderr
