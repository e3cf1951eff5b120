#ifndef WMMADIAG_STDINT_H
#define WMMADIAG_STDINT_H
#include <cuda/std/cstdint>
namespace std {
/* As glibc has them for 64 bits. */
typedef signed char int_fast8_t;
typedef long int_fast16_t, int_fast32_t, int_fast64_t;
typedef unsigned char uint_fast8_t;
typedef unsigned long uint_fast16_t, uint_fast32_t, uint_fast64_t;
typedef int8_t int_least8_t;
typedef int16_t int_least16_t;
typedef int32_t int_least32_t;
typedef int64_t int_least64_t;
typedef uint8_t uint_least8_t;
typedef uint16_t uint_least16_t;
typedef uint32_t uint_least32_t;
typedef uint64_t uint_least64_t;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::intmax_t;
using ::intptr_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintmax_t;
using ::uintptr_t;
}
#endif
