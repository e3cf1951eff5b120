// What runs in place of ld and st where nobody watches; see execute_memory_unwatched.cpp.
#pragma once

#include "program.hpp"

namespace wmmadiag {

Execute load_unwatched(const Inst& inst, const ProgramSource&);
Execute store_unwatched(const Inst& inst, const ProgramSource&);

}  // namespace wmmadiag
