#ifndef WMMADIAG_TORCH_H
#define WMMADIAG_TORCH_H
#include <c10/macros/Macros.h>
#include <c10/util/Half.h>
#include <c10/util/BFloat16.h>
namespace torch {
using namespace c10;
}
#endif
