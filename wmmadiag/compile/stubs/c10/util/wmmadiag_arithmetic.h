#ifndef WMMADIAG_C10_ARITHMETIC_H
#define WMMADIAG_C10_ARITHMETIC_H
/* Operators of torch's 16-bit types, as c10/util/Half-inl.h has them: in float, rounded once; with an integer, that is
   rounded to the type first; with a float or double, the result is one. Comparisons are torch's through its conversion
   to float; they stand here because cuda_fp16.h, whose operators torch switches off, has some as well. */
#define WMMADIAG_C10_BINARY(T, op)                                                                                    \
  __host__ __device__ inline T operator op(const T &a, const T &b) {                                                  \
    return static_cast<float>(a) op static_cast<float>(b);                                                            \
  }                                                                                                                   \
  __host__ __device__ inline T &operator op##=(T &a, const T &b) { return a = a op b; }                               \
  __host__ __device__ inline float operator op(T a, float b) { return static_cast<float>(a) op b; }                   \
  __host__ __device__ inline float operator op(float a, T b) { return a op static_cast<float>(b); }                   \
  __host__ __device__ inline float &operator op##=(float &a, const T &b) { return a = a op static_cast<float>(b); }   \
  __host__ __device__ inline double operator op(T a, double b) { return static_cast<double>(static_cast<float>(a)) op b; } \
  __host__ __device__ inline double operator op(double a, T b) { return a op static_cast<double>(static_cast<float>(b)); } \
  __host__ __device__ inline T operator op(T a, int b) { return a op T(static_cast<float>(b)); }                      \
  __host__ __device__ inline T operator op(int a, T b) { return T(static_cast<float>(a)) op b; }                      \
  __host__ __device__ inline T operator op(T a, long b) { return a op T(static_cast<float>(b)); }                     \
  __host__ __device__ inline T operator op(long a, T b) { return T(static_cast<float>(a)) op b; }
#define WMMADIAG_C10_COMPARISON(T, op)                                                                                \
  __host__ __device__ inline bool operator op(const T &a, const T &b) {                                               \
    return static_cast<float>(a) op static_cast<float>(b);                                                            \
  }                                                                                                                   \
  WMMADIAG_C10_COMPARED(T, op, float)                                                                                 \
  WMMADIAG_C10_COMPARED(T, op, double)                                                                                \
  WMMADIAG_C10_COMPARED(T, op, int)
#define WMMADIAG_C10_COMPARED(T, op, U)                                                                               \
  __host__ __device__ inline bool operator op(const T &a, U b) { return static_cast<float>(a) op b; }                 \
  __host__ __device__ inline bool operator op(U a, const T &b) { return a op static_cast<float>(b); }
#define WMMADIAG_C10_ARITHMETIC(T)                                                                                    \
  WMMADIAG_C10_BINARY(T, +)                                                                                           \
  WMMADIAG_C10_BINARY(T, -)                                                                                           \
  WMMADIAG_C10_BINARY(T, *)                                                                                           \
  WMMADIAG_C10_BINARY(T, /)                                                                                           \
  WMMADIAG_C10_COMPARISON(T, <)                                                                                       \
  WMMADIAG_C10_COMPARISON(T, >)                                                                                       \
  WMMADIAG_C10_COMPARISON(T, <=)                                                                                      \
  WMMADIAG_C10_COMPARISON(T, >=)                                                                                      \
  WMMADIAG_C10_COMPARISON(T, ==)                                                                                      \
  WMMADIAG_C10_COMPARISON(T, !=)                                                                                      \
  __host__ __device__ inline T operator-(const T &a) { return -static_cast<float>(a); }
#endif
