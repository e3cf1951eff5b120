"""Sources as people write them, host code included: they compile, and no line of device code moves.

Each style marks device lines with `// HERE`; the line table must name exactly those lines among others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from test_blanking import HOST

from wmmadiag.compile.driver import compile_source, compile_text
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.ptx_scan import instructions

WMMA_BODY = """
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 16);  // HERE
  wmma::load_matrix_sync(fb, b, 16);  // HERE
  wmma::mma_sync(fc, fa, fb, fc);  // HERE
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);  // HERE
"""


@dataclass(frozen=True)
class Style:
    """A way of writing CUDA: files by name ("main.cu" is compiled), options, and the kernels expected."""

    name: str
    files: dict[str, str]
    kernels: tuple[str, ...]
    options: CompileOptions = field(default_factory=CompileOptions)
    notes: tuple[str, ...] = ()


def one(name: str, text: str, *kernels: str, notes: tuple[str, ...] = (), **options: object) -> Style:
    return Style(name, {"main.cu": text}, kernels, CompileOptions(**options), notes)  # type: ignore[arg-type]


STYLES = [
    one(
        "cub-umbrella-and-thrust",
        """#include <cub/cub.cuh>
#include <cub/device/device_reduce.cuh>
#include <thrust/device_vector.h>
template <int BLOCK> __global__ void largest(const float *x, float *y) {
  using Reduce = cub::BlockReduce<float, BLOCK>;
  __shared__ typename Reduce::TempStorage storage;
  float most = Reduce(storage).Reduce(x[threadIdx.x], cub::Max());
  if (threadIdx.x == 0) y[0] = most;  // HERE
}
int main() {
  thrust::device_vector<float> x(64), y(1);
  size_t bytes = 0;
  cub::DeviceReduce::Sum(nullptr, bytes, x.begin(), y.begin(), 64);
  largest<64><<<1, 64>>>(thrust::raw_pointer_cast(x.data()), thrust::raw_pointer_cast(y.data()));
}
""",
        "largest<64>",
    ),
    one(
        "main-with-cudaMalloc",
        """#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#define CHECK(call)                                                       \\
  do {                                                                    \\
    cudaError_t e = (call);                                               \\
    if (e != cudaSuccess) { fprintf(stderr, "%s", cudaGetErrorString(e)); exit(1); } \\
  } while (0)

__global__ void scale(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 3.0f;  // HERE
}

static int parse(int argc, char **argv) { return argc > 1 ? atoi(argv[1]) : 1024; }

int main(int argc, char **argv) {
  int n = parse(argc, argv);
  std::vector<float> host(n, 1.0f);
  float *device;
  CHECK(cudaMalloc(&device, n * sizeof(float)));
  CHECK(cudaMemcpy(device, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  scale<<<(n + 255) / 256, 256>>>(device, n);
  CHECK(cudaDeviceSynchronize());
  for (auto v : host) printf("%f\\n", v);
  return 0;
}
""",
        "scale",
    ),
    one(
        "extern-c-launchers",
        """#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
__global__ void tile(const half *a, const half *b, float *c) {"""
        + WMMA_BODY
        + """}
extern "C" void launch_tile(const void *a, const void *b, void *c, cudaStream_t stream) {
  tile<<<1, 32, 0, stream>>>((const half *)a, (const half *)b, (float *)c);
}
extern "C" {
int version(void);
int version(void) { return 3; }
void launch_twice(float *p) {
  for (int i = 0; i < 2; i++) { launch_tile(p, p, p, 0); }
}
}
""",
        "tile",
    ),
    one(
        "torch-binding",
        """#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <vector>
#define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda() && x.is_contiguous(), #x " bad")
namespace {
template <typename scalar_t>
__global__ void add_kernel(const scalar_t *__restrict__ a, scalar_t *__restrict__ o, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) o[i] = a[i] + scalar_t(1);  // HERE
}
}  // namespace
std::vector<torch::Tensor> forward(torch::Tensor a) {
  CHECK_INPUT(a);
  const at::cuda::OptionalCUDAGuard guard(device_of(a));
  auto out = torch::empty_like(a);
  add_kernel<float><<<1, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      a.data_ptr<float>(), out.data_ptr<float>(), a.numel());
  return {out};
}
TORCH_LIBRARY(demo, m) {
  m.def("forward(Tensor a) -> Tensor[]");
}
TORCH_LIBRARY_IMPL(demo, CUDA, m) { m.impl("forward", &forward); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "forward", py::arg("a"));
}
""",
        "add_kernel<float>",
    ),
    one(
        "torch-half",
        """#include <torch/extension.h>
__global__ void widen(const at::Half *a, float *o) {
  o[threadIdx.x] = static_cast<float>(a[threadIdx.x]) * 2.0f;  // HERE
}
""",
        "widen",
    ),
    one(
        "dispatch-macro",
        """#include <torch/extension.h>
template <typename T, int N>
__global__ void fill(T *o) {
  o[threadIdx.x] = T(N);  // HERE
}
void run(torch::Tensor t) {
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(t.scalar_type(), "fill", ([&] {
    fill<scalar_t, 4><<<1, 32>>>(t.data_ptr<scalar_t>());
  }));
}
""",
        "fill<float, 4>",
        name_expressions=("fill<float, 4>",),
    ),
    one(
        "namespaces",
        """namespace lib { inline namespace v2 {
namespace detail {
__device__ __forceinline__ float square(float x) { return x * x; }
int host_only(int x) { return x + 1; }
}
template <int D> __global__ void power(float *x) {
  x[threadIdx.x] = detail::square(x[threadIdx.x]) + D;  // HERE
}
void launch(float *x) { power<8><<<1, 32>>>(x); }
}}
namespace other::nested {
__global__ void plain(float *x) { x[threadIdx.x] = 2.5f; }  // HERE
}
""",
        "lib::v2::power<8>",
        "other::nested::plain",
    ),
    one(
        "constants-in-host-function",
        """template <int M, int N, bool CAUSAL>
__global__ void attn(float *o) {
  if (CAUSAL) o[threadIdx.x] = M;  // HERE
  else o[threadIdx.x] = N;
}
template <int HEAD>
void run(float *o, bool causal) {
  constexpr int UNUSED = 1, M = 64;
  enum { N = HEAD / 2, OTHER };
  if (causal) attn<M, N, true><<<1, 32>>>(o);
}
void dispatch(float *o, int head) {
  if (head == 64) run<64>(o, true);
  else if (head == 128) run<128>(o, true);
}
""",
        "attn<64, 32, true>",
        "attn<64, 64, true>",
    ),
    one(
        "flag-made-constant-by-a-macro",
        """#define BOOL_SWITCH(COND, NAME, ...) \\
  [&] { if (COND) { constexpr bool NAME = true; return __VA_ARGS__(); } \\
        else { constexpr bool NAME = false; return __VA_ARGS__(); } }()
template <int HEAD> struct Traits { static constexpr int kHead = HEAD; static int bytes() { return printf("x"); } };
template <typename T, bool CAUSAL> __global__ void attn(float *o) {
  o[threadIdx.x] = CAUSAL ? T::kHead : 2.5f;  // HERE
}
template <int HEAD> void run(float *o, bool causal) {
  using Config = Traits<HEAD>;
  BOOL_SWITCH(causal, Causal, [&] {
    auto kernel = &attn<Config, Causal>;
    kernel<<<1, 32, Config::bytes()>>>(o);
  });
}
void all(float *o) { run<64>(o, true); }
""",
        "attn<Traits<64>, true>",
        "attn<Traits<64>, false>",
    ),
    one(
        "classes-with-host-members",
        """#include <string>
#include <iostream>
#include <memory>
struct Params {
  int n = 0;
  float scale;
  Params() = default;
  Params(int n_, float s) : n(n_), scale{s} { if (n < 0) throw 1; }
  __host__ __device__ float apply(float x) const { return x * scale; }  // HERE
  std::string describe() const { return "params"; }
  bool operator==(const Params &o) const { return n == o.n; }
};
class Runner {
 public:
  explicit Runner(std::string name) : name_(std::move(name)) { cudaStreamCreate(&stream_); }
  virtual ~Runner() { cudaStreamDestroy(stream_); }
  void run(float *x) const;
 private:
  std::string name_;
  cudaStream_t stream_;
  std::unique_ptr<int[]> buffer_;
};
template <typename T> struct Guard { T *p; Guard(T *q) : p(q) {} ~Guard() { delete p; } };
__global__ void kernel(float *x, Params p) {
  x[threadIdx.x] = p.apply(x[threadIdx.x]);  // HERE
}
void Runner::run(float *x) const { kernel<<<1, 32, 0, stream_>>>(x, Params(1, 2.0f)); }
std::ostream &operator<<(std::ostream &o, const Params &p) { return o << p.n; }
""",
        "kernel",
    ),
    one(
        "globals-and-lambdas",
        """#include <vector>
#include <map>
#include <functional>
static std::vector<float> g_cache;
std::map<int, int> g_table = {{1, 2}, {3, 4}};
int g_counter = 0, g_other{7};
static cudaStream_t g_stream;
const char *const g_names[] = {"a", "b"};
auto g_lambda = [](int x) { return x * 2; };
std::function<void(int)> g_function = [](int) { g_counter++; };
constexpr int kTile = 16;
const float kScale = 0.125f;
enum Layout { ROW, COL };
typedef unsigned int uint_alias;
using index_t = long long;
static_assert(kTile == 16, "tile");
__constant__ float c_table[4] = {1.f, 2.f, 3.f, 4.f};
__device__ int d_counter = 5;
__global__ void kernel(float *x, index_t n) {
  x[threadIdx.x] = c_table[n & 3] * kScale + kTile + COL + d_counter;  // HERE
}
""",
        "kernel",
    ),
    one(
        "macros-as-decorators",
        """#define DEVICE_INLINE __device__ __forceinline__
#define HD_FN __host__ DEVICE_INLINE
#define KERNEL(threads) __global__ void __launch_bounds__(threads)
#define DEFINE_OP(name, expr) DEVICE_INLINE float name(float x) { return expr; }
#define CEIL_DIV(a, b) (((a) + (b)-1) / (b))
DEFINE_OP(twice, x * 2.0f)
HD_FN float thrice(float x) { return x * 3.0f; }  // HERE
KERNEL(128) kernel(float *x) {
  x[threadIdx.x] = twice(thrice(x[threadIdx.x])) + CEIL_DIV(7, 2);  // HERE
}
#define LAUNCH(k, n) k<<<CEIL_DIV(n, 128), 128>>>
void go(float *x) { LAUNCH(kernel, 1000)(x); }
""",
        "kernel",
    ),
    one(
        "conditionals-around-and-inside-host-code",
        """#ifdef USE_CPU
void run(float *x, int n) {
#else
void run(float *x) {
#endif
#if defined(VERBOSE) && VERBOSE > 1
  printf("verbose\\n");
#else
  int quiet = 1;
#endif
}
#if 0
this is not C++ at all, don't parse { { (
#endif
#ifdef FAST
__global__ void kernel(float *x, int n)
#else
__global__ void kernel(float *x)
#endif
{
#ifdef FAST
  x[n] = 1.0f;
#else
  x[threadIdx.x] = 7.5f;  // HERE
#endif
}
#ifndef NO_MAIN
int main() {
#ifdef FAST
  kernel<<<1, 1>>>(nullptr, 2);
#else
  kernel<<<1, 1>>>(nullptr);
#endif
}
#endif
""",
        "kernel",
    ),
    one(
        "inline-assembly-and-launch-bounds",
        """#include <cstdint>
__device__ __forceinline__ uint32_t smem(const void *p) {
  uint32_t a;
  asm volatile("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p));
  return a;
}
#define CP_ASYNC(dst, src) \\
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src))
__global__ void __launch_bounds__(256, 2) kernel(const float4 *in, float *out) {
  extern __shared__ __align__(16) unsigned char raw[];
  CP_ASYNC(smem(raw + 16 * threadIdx.x), in + threadIdx.x);  // HERE
  asm volatile("cp.async.wait_all;" ::: "memory");  // HERE
  __syncthreads();
  out[threadIdx.x] = reinterpret_cast<float *>(raw)[threadIdx.x];  // HERE
}
""",
        "kernel",
    ),
    one(
        "std-in-device-code",
        """#include <algorithm>
#include <array>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
using namespace std;
template <typename T> __device__ T lowest() { return std::numeric_limits<T>::lowest(); }
template <size_t... I> __device__ float sum(const float *p, std::index_sequence<I...>) { return (p[I] + ...); }
__global__ void kernel(float *x, const uint8_t *b) {
  static_assert(std::is_same<std::remove_cv_t<const float>, float>::value, "");
  std::array<float, 2> a{1.0f, x[1]};
  float m = -INFINITY;
  m = std::max(m, x[0]);  // HERE
  m = fmaxf(m, lowest<float>());
  if constexpr (std::is_floating_point_v<float>) m += std::exp(x[3]);
  x[0] = m + a[1] + FLT_MAX + M_PI + sum(x, std::make_index_sequence<4>{});  // HERE
  x[1] = std::min(static_cast<int>(b[0]), INT_MAX) + std::numeric_limits<float>::infinity();
}
""",
        "kernel",
    ),
    one(
        "nothing-included",
        """__global__ void kernel(float *x, int64_t n, size_t z) {
  uint i = threadIdx.x;
  x[i] = INFINITY + make_float4(1, 2, 3, 4).x + INT_MAX + (float)M_PI;  // HERE
  x[1] = min(n, (int64_t)3) + std::min(1, (int)z) + std::numeric_limits<float>::max();  // HERE
  atomicAdd(x, 1.0f);
  memcpy(x, x + 4, 16);
  printf("%p", x == NULL);
}
int main() { cudaError_t e = cudaSuccess; kernel<<<1, 1>>>(nullptr, 1, 2); }
""",
        "kernel",
    ),
    one(
        "everything-included",
        """#include <bits/stdc++.h>
using namespace std;
__global__ void kernel(float *x) { x[0] = max(x[1], FLT_MIN) + numeric_limits<int>::max(); }  // HERE
int main() { vector<int> v(3); cout << v.size() << endl; }
""",
        "kernel",
    ),
    one(
        "constexpr-helpers",
        """constexpr int log2i(int n) { return n <= 1 ? 0 : 1 + log2i(n / 2); }
template <typename T> constexpr T round_up(T a, T b) { return (a + b - 1) / b * b; }
template <int D> struct Config {
  static constexpr int kStride = round_up(D, 16) + 8;
  static constexpr int kBytes = kStride * 2;
  static int host_bytes() { return printf("x"); }
};
__global__ void kernel(float *x, int n) {
  __shared__ float t[Config<60>::kStride];
  t[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = t[threadIdx.x ^ 1] + log2i(n) + round_up(n, 4);  // HERE
}
""",
        "kernel",
    ),
    one(
        "unknown-system-header",
        """#include <some/vendor/library.hpp>
#include "helper_cuda.h"
__global__ void kernel(float *x) { x[threadIdx.x] = 1.5f; }  // HERE
void host() { vendor::call(); checkCudaErrors(0); }
""",
        "kernel",
        notes=("stub-header",),
    ),
    one(
        "aliases-of-host-types",
        """#include <chrono>
#include <vector>
using std::vector;
using std::cout;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
typedef std::vector<float> Floats;
using Matrix = vendor_matrix<float>;
__global__ void kernel(float *x) { x[threadIdx.x] = 1.5f; }  // HERE
Floats run(const vector<int> &v) { auto t = Clock::now(); return {}; }
""",
        "kernel",
    ),
    one(
        "a-type-that-device-code-names-and-the-compiler-refuses",
        """using Matrix = vendor_matrix<float>;
template <typename T> struct Held { typedef T type; };
__global__ void kernel(float *x) { x[threadIdx.x] = sizeof(Held<float>); }  // HERE
__device__ int never(int Matrix) { return Matrix; }
""",
        "kernel",
        notes=("blanked-code",),
    ),
    one(
        "device-printf-and-assert",
        """#include <cassert>
#include <cstdio>
__global__ void kernel(float *x, int n) {
  assert(n > 0);  // HERE
  if (threadIdx.x == 0) printf("n = %d\\n", n);  // HERE
  x[threadIdx.x] = n;
}
int main() { printf("host\\n"); std::fprintf(stderr, "x"); assert(true); }
""",
        "kernel",
    ),
    one(
        "explicit-instantiations",
        """template <typename T, int N> __global__ void kernel(T *x) {
  x[threadIdx.x] = T(N);  // HERE
}
template __global__ void kernel<float, 4>(float *);
template <typename T> void launch(T *x) { kernel<T, 4><<<1, 1>>>(x); }
template void launch<float>(float *);
""",
        "kernel<float, 4>",
    ),
    one(
        "crlf-and-latin1",
        "// caf\udce9\r\n#include <vector>\r\nint host() {\r\n  return 1;\r\n}\r\n"
        "__global__ void kernel(float *x) {\r\n  x[threadIdx.x] = 2.5f;  // HERE\r\n}\r\n",
        "kernel",
    ),
    one(
        "unbalanced-parenthesis-in-macro",
        """#define BEGIN_CALL(f) f(
#define END_CALL )
void host(int x) { BEGIN_CALL(host) x END_CALL; }
__device__ float id(float x) { return x + 1.0f; }
__global__ void kernel(float *x) {
  x[threadIdx.x] = BEGIN_CALL(id) x[0] END_CALL;  // HERE
}
int tail() { return 2; }
""",
        "kernel",
    ),
    Style(
        "headers-with-host-code",
        {
            "main.cu": """#include "src/kernels.cuh"
#include "common.h"
int main() { launch(nullptr); return 0; }
""",
            "common.h": """#pragma once
#include <string>
#include <vector>
inline std::string name() { return "x"; }
struct Options { std::vector<int> sizes; };
#define TILE 8
""",
            "src/kernels.cuh": """#ifndef KERNELS_CUH
#define KERNELS_CUH
#include "../common.h"
#include "device/math.cuh"
inline void log(const std::string &s) {
  printf("%s", s.c_str());
}
__global__ void kernel(float *x) {
  x[threadIdx.x] = cube(x[threadIdx.x]) + TILE;
}
inline void launch(float *x) { kernel<<<1, 32>>>(x); }
#endif
""",
            "src/device/math.cuh": "#pragma once\nint host_helper(int a) {\n  return a;\n}\n"
            "__device__ inline float cube(float x) {\n  return x * x * x;\n}\n",
        },
        ("kernel",),
    ),
    Style(
        "include-path",
        {
            "main.cu": """#include <proj/scale.cuh>
__global__ void kernel(float *x) { x[0] *= SCALE; }  // HERE
""",
            "inc/proj/scale.cuh": "#define SCALE 4.0f\nvoid host() { std::abort(); }\n",
        },
        ("kernel",),
        CompileOptions(include_paths=(Path("inc"),)),
    ),
    one(
        "macro-variants",
        """#ifndef USE_WMMA
#define USE_WMMA 0
#endif
__global__ void kernel(float *x) {
#if USE_WMMA
  x[0] = 1.0f;  // HERE
#else
  x[0] = not_defined;
#endif
}
""",
        "kernel",
        macros={"USE_WMMA": "1", "FLAG": None},
    ),
    one(
        "cooperative-groups",
        """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void kernel(float *x) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  float v = x[threadIdx.x];
  for (int i = warp.size() / 2; i > 0; i /= 2) v += warp.shfl_down(v, i);  // HERE
  if (warp.thread_rank() == 0) x[0] = v;  // HERE
}
""",
        "kernel",
    ),
]


def shown_lines(ptx: str, file: str) -> set[int]:
    """The lines of `file` that the line table names, in any frame."""
    return {
        frame.line
        for item in instructions(ptx)
        if item.place is not None
        for frame in item.place.frames()
        if frame.file == file
    }


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
@pytest.mark.corpus
def test_style(style: Style, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in style.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    compilation = compile_source(Path("main.cu"), style.options)
    assert {entry.demangled for entry in compilation.entries} == set(style.kernels)
    marked = {number for number, line in enumerate(style.files["main.cu"].split("\n"), 1) if "// HERE" in line}
    assert marked <= shown_lines(compilation.ptx, "main.cu")
    assert tuple(note.kind for note in compilation.notes) == style.notes
    for entry in compilation.entries:
        assert entry.place is not None
        lines = style.files[entry.place.file].split("\n")
        assert entry.base_name in lines[entry.place.line - 1]


def test_header_lines_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    style = next(style for style in STYLES if style.name == "headers-with-host-code")
    monkeypatch.chdir(tmp_path)
    for name, text in style.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    compilation = compile_source("main.cu")
    entry = compilation.entry("kernel")
    assert entry.place is not None
    assert (entry.place.file, entry.place.line) == ("src/kernels.cuh", 8)
    assert 9 in shown_lines(compilation.ptx, "src/kernels.cuh")
    assert 6 in shown_lines(compilation.ptx, "src/device/math.cuh")
    assert set(compilation.includes) == {"src/kernels.cuh", "common.h", "src/../common.h", "src/device/math.cuh"} - {
        "src/../common.h" if "common.h" in compilation.includes else "common.h"
    }


def test_every_host_form_in_one_file_with_a_kernel() -> None:
    lines = [form for form in HOST if "main(" not in form]
    text = "\n".join(
        [*lines, "__global__ void kernel(float *p) {", "  *p = 2.5f;", "}", "int main() { return 0; }", ""]
    )
    compilation = compile_text(text, "all.cu")
    assert [entry.demangled for entry in compilation.entries] == ["kernel"]
    assert compilation.notes == ()
    assert text.split("\n").index("  *p = 2.5f;") + 1 in shown_lines(compilation.ptx, "all.cu")
