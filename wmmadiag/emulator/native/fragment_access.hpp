// wmma.load and wmma.store: whole fragments between registers and memory. For execute_tensor.cpp.
#pragma once

#include "warp.hpp"

namespace wmmadiag {

Flow load_fragment(Warp& warp, const Inst& inst, Mask active);
Flow store_fragment(Warp& warp, const Inst& inst, Mask active);
Execute load_fragment_unwatched(const Inst& inst, const ProgramSource& source);
Execute store_fragment_unwatched(const Inst& inst, const ProgramSource& source);

}  // namespace wmmadiag
