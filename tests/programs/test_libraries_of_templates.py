"""Programs over libraries that name CUDA's words anew, and whose instantiations have names of a thousand letters."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command import run_program

from wmmadiag.compile.names import demangle

WORDS = """
#pragma once
#if defined(__CUDACC__)
#define LIB_DEVICE __forceinline__ __device__
#define LIB_INLINE LIB_DEVICE
#define LIB_GLOBAL __global__ static
#else
#define LIB_DEVICE inline
#define LIB_INLINE inline
#define LIB_GLOBAL
#endif
"""
LIBRARY = """
#pragma once
#include "words.h"
namespace lib {
template <int N> struct Shape {};
template <class A, class B> struct Both {};
template <class T> struct Flag {
    T state;
    LIB_INLINE bool wait() { return __syncthreads_and(state != 0); }
};
template <class T, class> struct Twice {
    using Flag = Flag<T>;  // GCC: this changes the meaning of the name
    LIB_DEVICE static T of(T x) { Flag flag{x}; return flag.wait() ? x + x : x; }
};
template <class Operator, class T>
LIB_GLOBAL void Kernel(T* x) { x[threadIdx.x] = Operator::of(x[threadIdx.x]); }
}
"""
PROGRAM = """
#include <cstdio>
#include <lib/library.h>
using namespace lib;
using A = Both<Shape<1>, Both<Shape<2>, Shape<3>>>;
using B = Both<Both<A, Shape<4>>, Both<Shape<5>, A>>;
using C = Both<Both<B, Shape<6>>, Both<Shape<7>, B>>;
int main() {
    int h[32], *x;
    for (int i = 0; i < 32; ++i) h[i] = i + 1;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    Kernel<Twice<int, C>><<<1, 32>>>(x);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d\\n", h[0], h[31]);
}
"""


def test_words_of_a_library_for_device_and_global(tmp_path: Path) -> None:
    folder = tmp_path / "include" / "lib"
    folder.mkdir(parents=True)
    (folder / "words.h").write_text(WORDS, "utf-8")
    (folder / "library.h").write_text(LIBRARY, "utf-8")
    done = run_program(tmp_path, PROGRAM, "-I", str(tmp_path / "include"))
    assert done.stdout == "2 64\n", done.stderr
    assert "1 launch (1 watched), nothing found" in done.stderr or "1 launch, nothing found" in done.stderr


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="the runtime's demangler alone gives up")
def test_a_name_too_long_for_the_runtimes_demangler() -> None:
    """The runtime of GCC gives up on 1,024 letters and more; what is no name stays what it is, however long."""
    arguments = "".join(f"Li{number}E" for number in range(400))
    name = f"_ZN3libL6KernelIJ{arguments}EEEvPf"
    assert demangle(name) == f"lib::Kernel<{', '.join(map(str, range(400)))}>"
    assert demangle("_Z" + "?" * 2000) == "_Z" + "?" * 2000


THRUST = """
#include <cstdio>
#include <thrust/complex.h>
#include <thrust/device_vector.h>
#include <thrust/tuple.h>
__global__ void turn(thrust::complex<float>* z, thrust::tuple<int, float>* pairs) {
    z[threadIdx.x] *= thrust::complex<float>(0, 1);
    thrust::get<0>(pairs[threadIdx.x]) += threadIdx.x;
}
int main() {
    thrust::device_vector<int> of_host(10);
    thrust::sequence(of_host.begin(), of_host.end());  // <thrust/sequence.h> is not named
    thrust::complex<float> z[4], *d_z;
    thrust::tuple<int, float> pairs[4], *d_pairs;
    for (int i = 0; i < 4; ++i) z[i] = thrust::complex<float>(i, 1), pairs[i] = {i, 0.5f};
    cudaMalloc(&d_z, sizeof z);
    cudaMalloc(&d_pairs, sizeof pairs);
    cudaMemcpy(d_z, z, sizeof z, cudaMemcpyHostToDevice);
    cudaMemcpy(d_pairs, pairs, sizeof pairs, cudaMemcpyHostToDevice);
    turn<<<1, 4>>>(d_z, d_pairs);
    cudaMemcpy(z, d_z, sizeof z, cudaMemcpyDeviceToHost);
    cudaMemcpy(pairs, d_pairs, sizeof pairs, cudaMemcpyDeviceToHost);
    printf("%g %g %d %d\\n", z[3].real(), z[3].imag(), thrust::get<0>(pairs[3]), int(of_host[9]));
}
"""


@pytest.mark.slow
def test_types_of_thrust_in_kernels_and_headers_that_another_one_read(tmp_path: Path) -> None:
    done = run_program(tmp_path, THRUST)
    assert done.stdout == "-1 3 6 9\n", done.stderr


@pytest.mark.slow
def test_names_that_thrust_takes_from_elsewhere(tmp_path: Path) -> None:
    """`using ::cuda::std::make_tuple;` of a header that nobody names."""
    text = """#include <cstdio>
#include <thrust/device_vector.h>
#include <thrust/iterator/zip_iterator.h>
int main() {
    thrust::device_vector<int> x(3, 4), y(3, 5);
    auto both = thrust::make_zip_iterator(thrust::make_tuple(x.begin(), y.begin()));
    using Pair = thrust::tuple<int, int>;
    const Pair last = both[2];
    printf("%d\\n", int(thrust::get<1>(last)) + int(thrust::get<0>(*both)));
}
"""
    done = run_program(tmp_path, text)
    assert done.stdout == "9\n", done.stderr


@pytest.mark.slow
def test_policies_of_cuda_and_random_numbers_of_thrust(tmp_path: Path) -> None:
    """`thrust::cuda::par`, and a function object of both halves over engines and distributions."""
    text = """#include <cstdio>
#include <thrust/device_vector.h>
#include <thrust/random.h>
#include <thrust/sequence.h>
#include <thrust/system/cuda/memory_resource.h>
#include <thrust/tabulate.h>
struct Draw {
    __host__ __device__ float operator()(unsigned i) const {
        thrust::default_random_engine engine(7);
        thrust::uniform_real_distribution<float> between(2, 3);
        engine.discard(i);
        return between(engine);
    }
};
__global__ void draw(float* out) { out[threadIdx.x] = Draw()(threadIdx.x); }
int main() {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    thrust::device_vector<float> host(8), device(8);
    thrust::device_vector<int> numbers(8);
    thrust::sequence(thrust::cuda::par.on(stream), numbers.begin(), numbers.end());
    thrust::tabulate(thrust::device, host.begin(), host.end(), Draw());
    draw<<<1, 8, 0, stream>>>(thrust::raw_pointer_cast(device.data()));
    cudaStreamSynchronize(stream);
    thrust::device_ptr_memory_resource<thrust::cuda::memory_resource> plain;
    thrust::device_ptr<void> taken = plain.allocate(64);
    plain.deallocate(taken, 64);
    printf("%d %d %d\\n", int(numbers[7]), host == device, host[0] != host[7] && host[3] >= 2 && host[3] < 3);
}
"""
    done = run_program(tmp_path, text)
    assert done.stdout == "7 1 1\n", done.stderr


@pytest.mark.slow
def test_algorithms_over_memory_of_cudaMalloc_in_a_program_without_vectors(tmp_path: Path) -> None:
    """What an algorithm is given, the host may touch, whichever of Thrust's headers are there."""
    text = """#include <cstdio>
#include <thrust/execution_policy.h>
#include <thrust/sort.h>
__global__ void fill(int* x) { x[threadIdx.x] = 8 - threadIdx.x; }
int main() {
    int *x, first = 0;
    cudaMalloc(&x, 8 * sizeof(int));
    fill<<<1, 8>>>(x);
    thrust::sort(thrust::device, x, x + 8);
    cudaMemcpy(&first, x, sizeof first, cudaMemcpyDeviceToHost);
    printf("%d\\n", first);
}
"""
    done = run_program(tmp_path, text)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


@pytest.mark.slow
def test_what_thrust_does_not_have_is_an_error_at_its_line(tmp_path: Path) -> None:
    done = run_program(tmp_path, THRUST.replace("thrust::sequence(", "thrust::sequence_of_what("))
    assert done.returncode == 2, done.stderr
    assert "program.cu:12" in done.stderr
    assert "sequence_of_what" in done.stderr
