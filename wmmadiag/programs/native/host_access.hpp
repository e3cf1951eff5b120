// Host code on pinned and managed memory that work still has to do with: nothing orders the two until the host has waited.
#pragma once

#include <cstddef>

namespace wmmadiag {

// Whether host code is held to what it has waited for.
bool guards_host_memory();
// Memory that work in flight writes or reads is closed to the host until it has waited; anew whenever work was submitted or waited for.
void guard_host_memory();
// Whether host code touched such memory: told if it is a race, and opened. `context`: of the signal.
bool host_touched(const void* address, bool write, void* context);
// A step over an access that was none has ended.
bool host_stepped(void* context);
// What a system call is about to read or write of the host's memory.
void host_passes(const void* address, std::size_t bytes, bool write);

}  // namespace wmmadiag
