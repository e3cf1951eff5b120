/* Read before every source: what nvcc's own implicit #include of cuda_runtime.h brings in. */
#ifndef WMMADIAG_PRELUDE_H
#define WMMADIAG_PRELUDE_H
/* What libcu++ takes with nvcc. NVRTC would get 16, whose templates, never used, take more than half of its seconds. */
#ifndef _CCCL_META_UNROLL_LIMIT
#define _CCCL_META_UNROLL_LIMIT 10
#endif
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>
#include <limits.h>
#include <math.h>
/* <sys/types.h>, which a host compiler's <stdlib.h> reads. */
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned long ulong;
typedef long ssize_t;
typedef unsigned char u_char;
typedef uint8_t u_int8_t;
typedef uint16_t u_int16_t;
typedef uint32_t u_int32_t;
typedef uint64_t u_int64_t;
/* GCC manual, "Alternate Keywords": those that nvcc takes from its host compiler and NVRTC does not know. */
#define __asm__ asm
#define __asm asm
#define __volatile volatile
#define __const__ const
#define __const const
#define __signed__ signed
#define __signed signed
#define __extension__
/* GCC manual, "Referring to a Type with typeof": of an expression; what it refers to, never a reference. */
template <class T> struct wmmadiag_typeof { typedef T type; };
template <class T> struct wmmadiag_typeof<T &> { typedef T type; };
template <class T> struct wmmadiag_typeof<T &&> { typedef T type; };
#define __typeof__(...) typename wmmadiag_typeof<decltype(__VA_ARGS__)>::type
#define __typeof(...) typename wmmadiag_typeof<decltype(__VA_ARGS__)>::type
/* nvcc's cuda_runtime.h reads cuda_device_runtime_api.h as well. Templates: whoever includes that gets its own. */
template <class = void> static __device__ __forceinline__ void cudaGridDependencySynchronize() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
template <class = void> static __device__ __forceinline__ void cudaTriggerProgrammaticLaunchCompletion() {
  asm volatile("griddepcontrol.launch_dependents;");
}
/* Never complete in device code; headers of both halves name them in operators that nothing there calls. */
namespace std {
template <class, class> class basic_istream;
template <class, class> class basic_ostream;
}
#endif
