// Read before a source whose local variables are kept (debugger/kept.py): what makes a value stay, and a line a place to stop.
#pragma once

template <int Size>
struct wmmadiag_bits {
  template <class T>
  static __device__ __forceinline__ unsigned low(const T &) { return 0; }
  template <class T>
  static __device__ __forceinline__ unsigned high(const T &) { return 0; }
};
template <>
struct wmmadiag_bits<1> : wmmadiag_bits<0> {
  template <class T>
  static __device__ __forceinline__ unsigned low(const T &value) { return *(const unsigned char *)&value; }
};
template <>
struct wmmadiag_bits<2> : wmmadiag_bits<0> {
  template <class T>
  static __device__ __forceinline__ unsigned low(const T &value) { return *(const unsigned short *)&value; }
};
template <>
struct wmmadiag_bits<4> : wmmadiag_bits<0> {
  template <class T>
  static __device__ __forceinline__ unsigned low(const T &value) { return *(const unsigned *)&value; }
};
template <>
struct wmmadiag_bits<8> {
  template <class T>
  static __device__ __forceinline__ unsigned low(const T &value) { return (unsigned)*(const unsigned long long *)&value; }
  template <class T>
  static __device__ __forceinline__ unsigned high(const T &value) {
    return (unsigned)(*(const unsigned long long *)&value >> 32);
  }
};

#define WMMADIAG_KEEP(name, value)                                                                          \
  asm volatile("{ .reg .b32 " #name "l, " #name "h; mov.b32 " #name "l, %0; mov.b32 " #name "h, %1; }" ::   \
                   "r"(wmmadiag_bits<sizeof(value)>::low(value)), "r"(wmmadiag_bits<sizeof(value)>::high(value)));
#define WMMADIAG_HERE asm volatile("{ .reg .b32 wmmadiag_here; mov.b32 wmmadiag_here, 0; }");
