/* printf is built into the compiler. */
#ifndef WMMADIAG_STDIO_H
#define WMMADIAG_STDIO_H
#include <stddef.h>
struct FILE;
namespace std {
using ::printf;
}
#endif
