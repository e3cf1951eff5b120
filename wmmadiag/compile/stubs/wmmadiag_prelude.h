/* Read before every source: what nvcc's own implicit #include of cuda_runtime.h brings in. */
#ifndef WMMADIAG_PRELUDE_H
#define WMMADIAG_PRELUDE_H
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>
#include <limits.h>
#include <math.h>
namespace std {}
#endif
