// wmma.load and wmma.store: whole fragments between registers and memory. For execute_tensor.cpp.
#pragma once

#include "warp.hpp"

namespace wmmadiag {

Flow load_fragment(Warp& warp, const Inst& inst, Mask active);
Flow store_fragment(Warp& warp, const Inst& inst, Mask active);

}  // namespace wmmadiag
