#include "journal.hpp"

#include <algorithm>
#include <cstring>

namespace wmmadiag {

namespace {

constexpr std::uint64_t page_size = 4096;

}  // namespace

void Journal::before_write(const GlobalMemory& memory, std::uint64_t address, std::uint64_t bytes) {
    if (last_ != ~std::uint64_t{0} && address >= last_ && address - last_ + bytes <= page_size) return;
    const auto* allocation = memory.find(address);
    if (allocation == nullptr || !allocation->region.writable || bytes == 0) return;
    const auto& region = allocation->region;
    const auto offset = address - region.base;
    const auto end = std::min(offset + bytes, region.size);
    for (auto page = offset / page_size; page * page_size < end; ++page) {
        const auto first = page * page_size;
        const auto [found, fresh] = pages_.try_emplace(region.base + first);
        last_ = found->first;
        if (!fresh) continue;
        found->second.host = region.host + first;
        found->second.bytes.assign(region.host + first, region.host + std::min(first + page_size, region.size));
        bytes_ += page_size;
    }
}

void Journal::undo() {
    for (const auto& [address, page] : pages_) std::memcpy(page.host, page.bytes.data(), page.bytes.size());
    *this = {};
}

void Journal::append(Journal&& later) {
    pages_.merge(later.pages_);  // a page that is here already is older
    bytes_ = pages_.size() * page_size;
    last_ = ~std::uint64_t{0};
}

}  // namespace wmmadiag
