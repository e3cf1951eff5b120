/* malloc and free are built into the compiler. */
#ifndef WMMADIAG_STDLIB_H
#define WMMADIAG_STDLIB_H
#include <stddef.h>
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
namespace std {
using ::free;
using ::malloc;
}
#endif
