// A kernel's call, named for the host half.
#pragma once

#include <ATen/cuda/Atomic.cuh>

namespace at::native {
template <class T, class I>
void fastAtomicAdd(T* tensor, I index, const I size, T value, bool fast);
}  // namespace at::native
