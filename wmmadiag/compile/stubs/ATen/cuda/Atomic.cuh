#ifndef WMMADIAG_ATEN_ATOMIC_CUH
#define WMMADIAG_ATEN_ATOMIC_CUH
/* torch's atomics: the device's own where it has them, else a loop over compare-and-swap. All return the value before. */
#include <torch/wmmadiag_torch.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <int> struct wmmadiag_bits;
template <> struct wmmadiag_bits<2> { typedef unsigned short type; };
template <> struct wmmadiag_bits<4> { typedef unsigned type; };
template <> struct wmmadiag_bits<8> { typedef unsigned long long type; };
template <class To, class From> __device__ inline To wmmadiag_same_bits(const From &from) {
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
template <class T, class F> __device__ inline T wmmadiag_atomic(T *address, T value, F apply) {
  if constexpr (sizeof(T) == 1) {
    const unsigned long long place = reinterpret_cast<unsigned long long>(address);
    unsigned *word = reinterpret_cast<unsigned *>(place & ~3ull);
    const unsigned shift = (place & 3) * 8;
    for (unsigned seen = atomicAdd(word, 0u);;) {
      const T before = wmmadiag_same_bits<T>(static_cast<unsigned char>(seen >> shift));
      const unsigned next = wmmadiag_same_bits<unsigned char>(static_cast<T>(apply(before, value)));
      const unsigned now = atomicCAS(word, seen, (seen & ~(255u << shift)) | next << shift);
      if (now == seen) return before;
      seen = now;
    }
  } else {
    typedef typename wmmadiag_bits<sizeof(T)>::type bits;
    bits *word = reinterpret_cast<bits *>(address);
    for (bits seen = atomicCAS(word, bits(0), bits(0));;) {
      const T before = wmmadiag_same_bits<T>(seen);
      const bits now = atomicCAS(word, seen, wmmadiag_same_bits<bits>(static_cast<T>(apply(before, value))));
      if (now == seen) return before;
      seen = now;
    }
  }
}
template <class T> __device__ inline T gpuAtomicAdd(T *address, T value) {
  return wmmadiag_atomic(address, value, [](T a, T b) { return a + b; });
}
__device__ inline float gpuAtomicAdd(float *address, float value) { return atomicAdd(address, value); }
__device__ inline double gpuAtomicAdd(double *address, double value) { return atomicAdd(address, value); }
__device__ inline int gpuAtomicAdd(int *address, int value) { return atomicAdd(address, value); }
__device__ inline c10::Half gpuAtomicAdd(c10::Half *address, c10::Half value) {
  return atomicAdd(reinterpret_cast<__half *>(address), static_cast<__half>(value));
}
__device__ inline c10::BFloat16 gpuAtomicAdd(c10::BFloat16 *address, c10::BFloat16 value) {
  return atomicAdd(reinterpret_cast<__nv_bfloat16 *>(address), static_cast<__nv_bfloat16>(value));
}
template <class T> __device__ inline void gpuAtomicAddNoReturn(T *address, T value) { gpuAtomicAdd(address, value); }
template <class T> __device__ inline T gpuAtomicMul(T *address, T value) {
  return wmmadiag_atomic(address, value, [](T a, T b) { return a * b; });
}
template <class T> __device__ inline T gpuAtomicMax(T *address, T value) {
  return wmmadiag_atomic(address, value, [](T a, T b) { return a != a || a > b ? a : b; });
}
template <class T> __device__ inline T gpuAtomicMin(T *address, T value) {
  return wmmadiag_atomic(address, value, [](T a, T b) { return a != a || a < b ? a : b; });
}
__device__ inline c10::Half atomicAdd(c10::Half *address, c10::Half value) { return gpuAtomicAdd(address, value); }
__device__ inline c10::BFloat16 atomicAdd(c10::BFloat16 *address, c10::BFloat16 value) { return gpuAtomicAdd(address, value); }
__device__ inline void atomicAdd(int64_t *address, int64_t value) { gpuAtomicAdd(address, value); }
__device__ inline void atomicAdd(uint8_t *address, uint8_t value) { gpuAtomicAdd(address, value); }
__device__ inline void atomicAdd(int8_t *address, int8_t value) { gpuAtomicAdd(address, value); }
__device__ inline void atomicAdd(int16_t *address, int16_t value) { gpuAtomicAdd(address, value); }
__device__ inline void atomicAdd(bool *address, bool value) {
  wmmadiag_atomic(address, value, [](bool a, bool b) { return a || b; });
}
#endif
