/* memcpy and memset are built into the compiler. */
#ifndef WMMADIAG_STRING_H
#define WMMADIAG_STRING_H
#include <stddef.h>
namespace std {
using ::memcpy;
using ::memset;
}
#endif
