"""What kernels take of Thrust and CUB: pointers and iterators as arguments, functors, algorithms, operators of old."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

POINTERS = r"""#include <cstdio>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/swap.h>
template <class From, class To>
__global__ void copy(From from, To to, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}
__global__ void twice(thrust::device_ptr<int> x, thrust::device_ptr<const int> y, int n) {
    if (threadIdx.x < n) x[threadIdx.x] = 2 * *(y + threadIdx.x);
}
__global__ void rows(int* x, int* sums, int n) {
    int* row = x + threadIdx.x * n;
    thrust::sort(thrust::seq, row, row + n, thrust::greater<int>());
    thrust::swap(row[0], row[1]);
    sums[threadIdx.x] = thrust::reduce(thrust::seq, row, row + n, 0, thrust::plus<int>());
    sums[threadIdx.x] += 1000 * (thrust::max_element(thrust::seq, row, row + n) - row);
    sums[threadIdx.x] += 10000 * thrust::count_if(thrust::seq, row, row + n, [](int v) { return v % 2 == 0; });
}
int main() {
    const int n = 20;
    thrust::device_vector<int> a(n), b(n), sums(2);
    copy<<<1, 32>>>(thrust::counting_iterator<int>(5), a.begin(), n);
    copy<<<1, 32>>>(a.begin(), thrust::raw_pointer_cast(b.data()), n);
    twice<<<1, 32>>>(a.data(), b.data(), n);
    b[3] = 100;
    rows<<<1, 2>>>(b.data().get(), sums.data().get(), n / 2);
    printf("%d %d %d %d %d %d\n", (int)a[0], (int)a[n - 1], (int)b[0], (int)b[1], (int)sums[0], (int)sums[1]);
}
"""


@pytest.mark.subprocess
def test_pointers_iterators_and_algorithms_of_thrust(tmp_path: Path) -> None:
    done = run_program(tmp_path, POINTERS)
    numbers = [100, *(one for one in range(5, 15) if one != 8)]
    other = range(15, 25)
    sums = [sum(some) + 1000 + 10000 * sum(one % 2 == 0 for one in some) for some in (numbers, other)]
    assert done.stdout.split() == [str(one) for one in (10, 48, 14, 100, *sums)], done.stderr
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


TRANSFORMS = r"""#include <cstdio>
#include <cub/device/device_transform.cuh>
#include <cuda/std/tuple>
#include <thrust/device_vector.h>
int main() {
    thrust::device_vector<int> a(50, 3), b(50), c(50);
    cub::DeviceTransform::Fill(b.begin(), 50, 4);
    const auto both = cuda::std::make_tuple(a.begin(), thrust::raw_pointer_cast(b.data()));
    cub::DeviceTransform::Transform(both, c.begin(), 50, [] __device__(int x, int y) { return 10 * x + y; });
    cub::DeviceTransform::Transform(c.begin(), a.begin(), 50, [] __device__(int x) { return -x; });
    cudaDeviceSynchronize();
    printf("%d %d\n", (int)c[49], (int)a[0]);
}
"""


@pytest.mark.subprocess
def test_transforms_of_several_inputs(tmp_path: Path) -> None:
    done = run_program(tmp_path, TRANSFORMS)
    assert (done.stdout, done.returncode) == ("34 -34\n", 0), done.stderr
