// What global memory held before it was written, page by page, so that a debugger can go back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "memory.hpp"

namespace wmmadiag {

class Journal {
public:
    // Keeps the pages of [address, address + bytes) as they are now, unless kept already. What lies outside of writable memory is nobody's.
    void before_write(const GlobalMemory& memory, std::uint64_t address, std::uint64_t bytes);
    // Puts everything back and forgets it.
    void undo();
    // Takes over the pages of a journal that began when this one ended.
    void append(Journal&& later);

    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

private:
    struct Page {
        std::byte* host;
        std::vector<std::byte> bytes;
    };

    std::unordered_map<std::uint64_t, Page> pages_;  // by device address
    std::uint64_t last_ = ~std::uint64_t{0};         // kept most recently: the next write is likely there, too
    std::uint64_t bytes_ = 0;
};

}  // namespace wmmadiag
