// All memory of the device: what the parts of this library that look after it share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ordering.hpp"

namespace wmmadiag {

struct Memory {
    int file = -1;
    std::uint64_t next = 0, file_end = 0, used = 0;
    std::map<std::uint64_t, std::unique_ptr<Allocation>> live;
    std::map<std::uint64_t, Allocation*> views;  // live, by where this process works on them
    bool watching = false;
    bool noting = false;   // the launch that is running sets the bits of what it writes
    bool keeping = false;  // what launches change of memory that the host sees is told
    bool open = false;     // the host may touch what cudaMalloc gives
    std::vector<std::unique_ptr<Allocation>> freed;
};
Memory& memory();

// Bytes of the pages that hold so many.
constexpr std::uint64_t in_pages(std::uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }
// And of a bit of each, in whole words, of which the emulator may look at one more.
constexpr std::uint64_t in_pages_of_bits(std::uint64_t bytes) { return in_pages(bytes / 8 + 16); }

// Addresses for so many bytes, where nothing lies until `allocate_at`; 0: there are no more.
std::uint64_t reserve(std::uint64_t bytes);
// Memory at an address that was reserved.
void* allocate_at(std::uint64_t address, std::size_t bytes, Kind kind, const char* call);

// As the runtime's calls give and take it: with its errors, under the lock.
cudaError_t allocated(void** pointer, std::size_t bytes, Kind kind, const char* call);
cudaError_t freed(void* pointer, Kind kind);
// A pool has back what was allocated of it.
void returned(Pool& to, std::uint64_t bytes);

// Memory of the host's own that the device sees at the same address.
bool adopt(void* pointer, std::size_t bytes, Kind kind, const std::string& name);

}  // namespace wmmadiag
