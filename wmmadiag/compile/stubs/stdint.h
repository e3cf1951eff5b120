#ifndef WMMADIAG_STDINT_H
#define WMMADIAG_STDINT_H
#include <cuda/std/cstdint>
namespace std {
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
