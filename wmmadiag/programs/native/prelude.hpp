// Read before every host half: the CUDA runtime's own headers as a plain C++ compiler takes them, and what nvcc adds to them.
//
// Types, templates and the exact host arithmetic of half, bfloat16 and fp8 are NVIDIA's. The functions behind them are those of this
// folder. Kernels have bodies that hand their arguments over (`wmmadiag_stub`); launches name their configuration before the call.
#pragma once

// A torch extension: torch's headers as its CPU build has them, before anything here looks like a device compiler.
#ifdef WMMADIAG_TORCH
#include <torch/extension.h>
// What torch declares for compilers of device code alone, and programs name in launchers.
namespace at {
template <class T>
struct RestrictPtrTraits {
    typedef T* __restrict__ PtrType;
};
}  // namespace at
#endif

#include <cassert>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <initializer_list>
#include <new>
#include <tuple>
#include <utility>

// clang-format off: the order matters.
// Without __CUDACC__: its presence makes these headers define device code, which no host compiler takes.
#include <builtin_types.h>
#include <channel_descriptor.h>
#include <crt/host_config.h>
#include <crt/host_defines.h>
#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>
#include <driver_functions.h>
#include <library_types.h>
#include <vector_functions.h>

// cuda_runtime.h declares its templates over kernels and symbols under __CUDACC__; the device headers it would read are taken as read.
#define __COMMON_FUNCTIONS_H__
#define __DEVICE_FUNCTIONS_H__
#define __DEVICE_LAUNCH_PARAMETERS_H__
#define __CUDACC__ 1
#include <cuda_runtime.h>
#define __NVCC__ 1
#define CCCL_DISABLE_NVTX
#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#define THRUST_IGNORE_CUB_VERSION_CHECK
#define __CUDACC_VER_MAJOR__ CUDART_VERSION / 1000
#define __CUDACC_VER_MINOR__ CUDART_VERSION % 1000 / 10
#define __CUDACC_VER_BUILD__ 0
// clang-format on

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __managed__
#undef __grid_constant__
#undef __launch_bounds__
#undef __cluster_dims__
#undef __maxnreg__
#undef __block_size__
#undef __forceinline__
#undef __noinline__
#undef __align__
// A kernel stays a function of its own: its symbol names the instantiation, its address stands for it.
#define __global__ __attribute__((noipa))
#define __device__
#define __host__
#define __shared__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __block_size__(...)
#define __forceinline__ inline
// Not __noinline__: the standard library writes __attribute__((__noinline__)), so the user's own are rewritten.
#define __align__(n) __attribute__((aligned(n)))

extern "C" {
// Where the next call of the runtime stands in the user's source; `text`: its arguments as written, or "".
void wmmadiag_at(const char* file, int line, const char* text);
// Bytes of an element of the next allocation.
void wmmadiag_item(size_t bytes);
// A kernel's body: null-terminated addresses of its arguments.
void wmmadiag_stub(void** arguments);
// Says how the next kernel is launched; `callee`: which, as written. Its end is told: whether a kernel took it.
void* wmmadiag_configure(const char* file, int line, const char* callee, dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
void wmmadiag_launched(void* launch, bool thrown);
}

// What an array that a lambda captures is.
template <class T, unsigned long N>
struct wmmadiag_array {
    T held[N];
    operator const T*() const { return held; }
};

namespace wmmadiag_host {

// An argument of a kernel, where the device's copy of it is taken from.
template <class T>
struct Argument {
    void* at;
    explicit Argument(const volatile void* value) : at(const_cast<void*>(value)) {}
    void* address() const { return at; }
};
template <class T>
struct Argument<T&> {
    const volatile void* at;
    explicit Argument(const volatile void* value) : at(value) {}
    void* address() const { return const_cast<void*>(static_cast<const void*>(&at)); }
};
template <class T>
struct Argument<T&&> : Argument<T&> {
    using Argument<T&>::Argument;
};
inline __attribute__((always_inline)) void** addresses(std::initializer_list<void*> all) { return const_cast<void**>(all.begin()); }

// `(Launch(…) ? (void)0 : kernel(arguments))`: lives until the kernel's body has been reached, or an argument has thrown.
class Launch {
public:
    Launch(const char* file, int line, const char* callee, dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = nullptr)
        : held(wmmadiag_configure(file, line, callee, grid, block, shared, stream)), thrown(std::uncaught_exceptions()) {}
    Launch(const Launch&) = delete;
    ~Launch() { wmmadiag_launched(held, std::uncaught_exceptions() != thrown); }
    explicit operator bool() const { return false; }

private:
    void* held;
    int thrown;
};
#define WMMADIAG_TEXT(...) #__VA_ARGS__

// `kernel * configuration(…)(arguments)`: a launch whose configuration comes from a macro of its own.
template <class... Arguments>
struct Arranged {
    const char* file;
    int line;
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    std::tuple<Arguments...> arguments;
};
struct Configuration {
    const char* file;
    int line;
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    template <class... Arguments>
    Arranged<Arguments&&...> operator()(Arguments&&... arguments) const {
        return {file, line, grid, block, shared, stream, {static_cast<Arguments&&>(arguments)...}};
    }
};
inline Configuration configuration(const char* file, int line, dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = nullptr) {
    return {file, line, grid, block, shared, stream};
}
template <class... Parameters, class... Arguments>
void operator*(void (*kernel)(Parameters...), Arranged<Arguments...>&& how) {
    const Launch launch(how.file, how.line, "a function", how.grid, how.block, how.shared, how.stream);
    std::apply(kernel, static_cast<std::tuple<Arguments...>&&>(how.arguments));
}

using Properties = cudaDeviceProp;

// Allocations know their elements' size, for messages.
template <class T, class... More>
std::integral_constant<std::size_t, sizeof(T)> item(T**, const More&...);
template <class... More>
std::integral_constant<std::size_t, 0> item(void**, const More&...);
template <class... More>
std::integral_constant<std::size_t, 0> item(const void**, const More&...);
template <class... More>
std::integral_constant<std::size_t, 0> item(std::nullptr_t, const More&...);
std::integral_constant<std::size_t, 0> item(...);
template <class Found>
void element(const Found&) {
    if (Found::value != 0) wmmadiag_item(Found::value);
}

// What an extended lambda captures of an expression.
template <class T>
struct Capturing {
    using type = T;
};
template <class T, std::size_t N>
struct Capturing<T[N]> {
    using type = wmmadiag_array<T, N>;
};
template <class T>
using Captured = typename Capturing<std::remove_cv_t<std::remove_reference_t<T>>>::type;
template <class T>
T&& capture(T&& value) {
    return static_cast<T&&>(value);
}
template <class T, std::size_t N>
wmmadiag_array<std::remove_cv_t<T>, N> capture(T (&value)[N]) {
    wmmadiag_array<std::remove_cv_t<T>, N> made;
    for (std::size_t i = 0; i < N; ++i) made.held[i] = value[i];
    return made;
}

}  // namespace wmmadiag_host

// What CUDA 13 took out, and programs for earlier ones use.
struct wmmadiag_device_properties : cudaDeviceProp {
    int clockRate, memoryClockRate, deviceOverlap, computeMode, kernelExecTimeoutEnabled, singleToDoublePrecisionPerfRatio;
    int cooperativeMultiDeviceLaunch, maxTexture1DLinear;
};
#define cudaDeviceProp wmmadiag_device_properties
inline cudaError_t cudaGetDeviceProperties(wmmadiag_device_properties* to, int device) {
    const auto error = ::cudaGetDeviceProperties(static_cast<wmmadiag_host::Properties*>(to), device);
    to->clockRate = to->memoryClockRate = 0;
    if (error != cudaSuccess) return error;
    cudaDeviceGetAttribute(&to->clockRate, cudaDevAttrClockRate, device);
    cudaDeviceGetAttribute(&to->memoryClockRate, cudaDevAttrMemoryClockRate, device);
    to->deviceOverlap = 1;
    to->computeMode = to->kernelExecTimeoutEnabled = to->cooperativeMultiDeviceLaunch = to->maxTexture1DLinear = 0;
    to->singleToDoublePrecisionPerfRatio = 2;
    return error;
}
inline cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, int device, cudaStream_t stream = nullptr) {
    return cudaMemPrefetchAsync(
        pointer, bytes, cudaMemLocation{device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, {device < 0 ? 0 : device}}, 0, stream);
}
inline cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, int device) {
    return cudaMemAdvise(pointer, bytes, advice,
                         cudaMemLocation{device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, {device < 0 ? 0 : device}});
}

inline cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, size_t* count) {
    return cudaGraphGetEdges(graph, from, to, nullptr, count);
}
extern "C" {
cudaError_t cudaThreadSynchronize();
cudaError_t cudaThreadExit();
}
inline cudaError_t cudaThreadSetCacheConfig(cudaFuncCache how) { return cudaDeviceSetCacheConfig(how); }
inline cudaError_t cudaThreadGetCacheConfig(cudaFuncCache* how) { return cudaDeviceGetCacheConfig(how); }
inline cudaError_t cudaThreadSetLimit(cudaLimit limit, size_t value) { return cudaDeviceSetLimit(limit, value); }
inline cudaError_t cudaThreadGetLimit(size_t* value, cudaLimit limit) { return cudaDeviceGetLimit(value, limit); }

extern const uint3 threadIdx, blockIdx;
extern const dim3 blockDim, gridDim;
extern const int warpSize;

// CUDA C++ Programming Guide, "Mathematical Functions": what nvcc lets host code call besides the standard's own.
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
#include "host_maths.hpp"
#define WMMADIAG_EXTREMES(T)                         \
    inline T min(T a, T b) { return b < a ? b : a; } \
    inline T max(T a, T b) { return a < b ? b : a; }
WMMADIAG_EXTREMES(int)
WMMADIAG_EXTREMES(unsigned)
WMMADIAG_EXTREMES(long)
WMMADIAG_EXTREMES(unsigned long)
WMMADIAG_EXTREMES(long long)
WMMADIAG_EXTREMES(unsigned long long)
#undef WMMADIAG_EXTREMES
#define WMMADIAG_EXTREMES(T, S, U)                                               \
    inline T min(S a, U b) { return min(static_cast<T>(a), static_cast<T>(b)); } \
    inline T max(S a, U b) { return max(static_cast<T>(a), static_cast<T>(b)); }
WMMADIAG_EXTREMES(unsigned, int, unsigned)
WMMADIAG_EXTREMES(unsigned, unsigned, int)
WMMADIAG_EXTREMES(unsigned long, long, unsigned long)
WMMADIAG_EXTREMES(unsigned long, unsigned long, long)
WMMADIAG_EXTREMES(unsigned long long, long long, unsigned long long)
WMMADIAG_EXTREMES(unsigned long long, unsigned long long, long long)
#undef WMMADIAG_EXTREMES
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double max(double a, float b) { return fmax(a, b); }

// The calls whose place messages name.
#define WMMADIAG_HERE(...) ::wmmadiag_at(__FILE__, __LINE__, #__VA_ARGS__)
#define WMMADIAG_ALLOCATION(function, ...) \
    (WMMADIAG_HERE(__VA_ARGS__), ::wmmadiag_host::element(decltype(::wmmadiag_host::item(__VA_ARGS__)){}), ::function(__VA_ARGS__))
#define cudaMalloc(...) WMMADIAG_ALLOCATION(cudaMalloc, __VA_ARGS__)
#define cudaMallocManaged(...) WMMADIAG_ALLOCATION(cudaMallocManaged, __VA_ARGS__)
#define cudaMallocHost(...) WMMADIAG_ALLOCATION(cudaMallocHost, __VA_ARGS__)
#define cudaHostAlloc(...) WMMADIAG_ALLOCATION(cudaHostAlloc, __VA_ARGS__)
#define cudaMallocAsync(...) WMMADIAG_ALLOCATION(cudaMallocAsync, __VA_ARGS__)
#define cudaMalloc3D(...) (WMMADIAG_HERE(__VA_ARGS__), cudaMalloc3D(__VA_ARGS__))
#define cudaMallocPitch(...) WMMADIAG_ALLOCATION(cudaMallocPitch, __VA_ARGS__)
#define cudaFree(...) (WMMADIAG_HERE(__VA_ARGS__), cudaFree(__VA_ARGS__))
#define cudaFreeAsync(...) (WMMADIAG_HERE(__VA_ARGS__), cudaFreeAsync(__VA_ARGS__))
#define cudaMemcpy(...) (WMMADIAG_HERE(__VA_ARGS__), cudaMemcpy(__VA_ARGS__))
#define cudaMemcpyAsync(...) (WMMADIAG_HERE(__VA_ARGS__), cudaMemcpyAsync(__VA_ARGS__))
#define cudaMemcpy2D(...) (WMMADIAG_HERE(__VA_ARGS__), cudaMemcpy2D(__VA_ARGS__))
#define cudaMemcpy2DAsync(...) (WMMADIAG_HERE(__VA_ARGS__), cudaMemcpy2DAsync(__VA_ARGS__))
#define cudaMemcpy3D(...) (WMMADIAG_HERE(__VA_ARGS__), cudaMemcpy3D(__VA_ARGS__))
#define cudaMemcpy3DAsync(...) (WMMADIAG_HERE(__VA_ARGS__), cudaMemcpy3DAsync(__VA_ARGS__))
#define cudaMemset(...) (WMMADIAG_HERE(__VA_ARGS__), cudaMemset(__VA_ARGS__))
#define cudaMemsetAsync(...) (WMMADIAG_HERE(__VA_ARGS__), cudaMemsetAsync(__VA_ARGS__))
#define cudaMemset2D(...) (WMMADIAG_HERE(__VA_ARGS__), cudaMemset2D(__VA_ARGS__))
#define cudaMemcpyToSymbol(...) (WMMADIAG_HERE(__VA_ARGS__), cudaMemcpyToSymbol(__VA_ARGS__))
#define cudaMemcpyFromSymbol(...) (WMMADIAG_HERE(__VA_ARGS__), cudaMemcpyFromSymbol(__VA_ARGS__))
#define cudaLaunchKernel(...) (WMMADIAG_HERE(__VA_ARGS__), cudaLaunchKernel(__VA_ARGS__))
#define cudaLaunchCooperativeKernel(...) (WMMADIAG_HERE(__VA_ARGS__), cudaLaunchCooperativeKernel(__VA_ARGS__))
#define cudaLaunchKernelEx(...) (WMMADIAG_HERE(__VA_ARGS__), cudaLaunchKernelEx(__VA_ARGS__))
#define cudaGraphAddKernelNode(...) (WMMADIAG_HERE(__VA_ARGS__), cudaGraphAddKernelNode(__VA_ARGS__))
#define cudaGraphAddMemcpyNode(...) (WMMADIAG_HERE(__VA_ARGS__), cudaGraphAddMemcpyNode(__VA_ARGS__))
#define cudaGraphAddMemsetNode(...) (WMMADIAG_HERE(__VA_ARGS__), cudaGraphAddMemsetNode(__VA_ARGS__))
#define cudaGraphAddMemcpyNode1D(...) (WMMADIAG_HERE(__VA_ARGS__), cudaGraphAddMemcpyNode1D(__VA_ARGS__))
#define cudaGraphLaunch(...) (WMMADIAG_HERE(__VA_ARGS__), cudaGraphLaunch(__VA_ARGS__))
