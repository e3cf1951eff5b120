"""Arguments by reference, null pointers, what is not there, and what was advised: calls that a program makes once."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

REFERENCES = r"""#include <cstdio>
struct Element { int value; Element* operator&() const { return nullptr; } };
__global__ void once(Element& element, const int& by) { element.value += by; }
template <class... T> __global__ void all(int& sum, T&... more) { sum = (more + ... + 0); }
int main() {
    Element* element;
    int* three;
    cudaMallocManaged(&element, sizeof(Element)), cudaMallocManaged(&three, 12);
    element->value = 40, three[0] = 2, three[1] = 30;
    once<<<1, 1>>>(*element, three[0]);
    all<<<1, 1>>>(three[2], three[0], three[1]);
    cudaDeviceSynchronize();
    printf("%d %d\n", element->value, three[2]);
}
"""


def test_arguments_by_reference(tmp_path: Path) -> None:
    done = run_program(tmp_path, REFERENCES, "--std", "c++17")
    assert (done.stdout, done.returncode) == ("42 32\n", 0), done.stderr


REFUSED = r"""#include <cstdio>
int main() {
    int value, device;
    size_t limit;
    const cudaError_t got[] = {
        cudaMalloc(nullptr, 16), cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0),
        cudaDeviceGetAttribute(&value, (cudaDeviceAttr)100000, 0), cudaDeviceCanAccessPeer(&value, 0, 5),
        cudaGetDevice(nullptr), cudaDeviceGetLimit(&limit, (cudaLimit)99), cudaGetDevice(&device)};
    for (auto one : got) printf("%s\n", cudaGetErrorName(one));
    cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 12345), cudaDeviceGetLimit(&limit, cudaLimitPrintfFifoSize);
    printf("%zu\n", limit);
}
"""


def test_calls_that_cannot_be_are_refused(tmp_path: Path) -> None:
    done = run_program(tmp_path, REFUSED)
    names = ["InvalidValue", "InvalidValue", "InvalidValue", "InvalidDevice", "InvalidValue", "UnsupportedLimit"]
    assert done.stdout.split() == [*(f"cudaError{one}" for one in names), "cudaSuccess", "12345"], done.stderr
    assert "there is no device attribute 100000" in done.stderr and done.returncode == 0


ADVISED = r"""#include <cstdio>
int main() {
    float* x;
    int said[4];
    cudaMallocManaged(&x, 4096);
    const auto ask = [&](int i, cudaMemRangeAttribute what) { cudaMemRangeGetAttribute(&said[i], 4, what, x, 4096); };
    cudaMemAdvise(x, 4096, cudaMemAdviseSetReadMostly, 0);
    cudaMemAdvise(x, 4096, cudaMemAdviseSetPreferredLocation, 0);
    cudaMemPrefetchAsync(x, 4096, cudaCpuDeviceId);
    ask(0, cudaMemRangeAttributeReadMostly), ask(1, cudaMemRangeAttributePreferredLocation);
    ask(2, cudaMemRangeAttributeLastPrefetchLocation), ask(3, cudaMemRangeAttributeAccessedBy);
    for (int one : said) printf("%d ", one);
    float* d;
    cudaMalloc(&d, 64);
    printf("%d\n", cudaMemRangeGetAttribute(said, 4, cudaMemRangeAttributeReadMostly, d, 64) == cudaErrorInvalidValue);
}
"""


def test_what_was_advised_can_be_asked(tmp_path: Path) -> None:
    done = run_program(tmp_path, ADVISED)
    assert (done.stdout, done.returncode) == ("1 0 -1 -2 1\n", 0), done.stderr


DEPENDENT = r"""#include <cstdio>
HEADER
__global__ void first(int* x) {
    cudaTriggerProgrammaticLaunchCompletion();
    x[threadIdx.x] = threadIdx.x;
}
__global__ void second(const int* x, int* y) {
    cudaGridDependencySynchronize();
    y[threadIdx.x] = x[31 - threadIdx.x];
}
int main() {
    int *x, *y, h[32];
    cudaMalloc(&x, 128), cudaMalloc(&y, 128);
    first<<<1, 32>>>(x);
    cudaLaunchAttribute may[1];
    may[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    may[0].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how{};
    how.gridDim = 1, how.blockDim = 32, how.attrs = may, how.numAttrs = 1;
    const int* from = x;
    printf("%d ", cudaLaunchKernelEx(&how, second, from, y));
    cudaMemcpy(h, y, 128, cudaMemcpyDeviceToHost);
    printf("%d\n", h[0]);
}
"""


@pytest.mark.parametrize("header", ["", "#include <cuda_device_runtime_api.h>"])
def test_a_launch_that_depends_on_the_one_before(tmp_path: Path, header: str) -> None:
    done = run_program(tmp_path, DEPENDENT.replace("HEADER", header))
    assert (done.stdout, done.returncode) == ("0 31\n", 0), done.stderr
