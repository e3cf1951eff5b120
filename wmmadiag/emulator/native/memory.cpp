#include "memory.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

namespace wmmadiag {

void Allocation::track() {
    read_ = false;
    written_ = false;
    before_.reset();
    owner_.reset();
    if (!region.writable) return;
    owner_.reset(static_cast<std::uint32_t*>(std::calloc(region.size / granule + 1, sizeof(std::uint32_t))));
    if (owner_ == nullptr) throw std::bad_alloc();
}

void Allocation::remember() {
    const std::lock_guard lock(mutex_);
    if (written_) return;
    before_ = std::make_unique<std::byte[]>(region.size);
    std::memcpy(before_.get(), region.host, region.size);
    if (initialised != nullptr) bits_before_.assign(initialised, initialised + words());
    written_ = true;
}

void Allocation::undo() {
    if (before_) std::memcpy(region.host, before_.get(), region.size);
    std::copy(bits_before_.begin(), bits_before_.end(), initialised);
    bits_before_.clear();
    before_.reset();
    owner_.reset();
}

void Allocation::begins_unwritten(std::uint64_t offset, std::uint64_t bytes, std::uint64_t* kept) {
    if (kept != nullptr) {
        initialised = kept;
        return;
    }
    if (own_bits_.empty()) own_bits_.assign(words(), ~std::uint64_t{0});
    initialised = own_bits_.data();
    for (auto at = offset; at < offset + bytes; ++at) {
        if (at % 64 != 0 || at + 64 > offset + bytes) {
            initialised[at / 64] &= ~(std::uint64_t{1} << at % 64);
            continue;
        }
        initialised[at / 64] = 0;
        at += 63;
    }
}

bool Allocation::all_initialised(std::uint64_t begin, std::uint64_t end) const {
    std::uint64_t missing = 0;
    for (auto at = begin; at < end;) {
        const auto first = at % 64, count = std::min(64 - first, end - at);
        missing |= ~initialised[at / 64] & ~std::uint64_t{0} >> (64 - count) << first;
        at += count;
    }
    return missing == 0;
}

std::uint32_t Allocation::uninitialised(std::uint64_t offset, unsigned bytes) const {
    const auto first = offset % 64;
    auto bits = initialised[offset / 64] >> first;
    if (first + bytes > 64) bits |= initialised[offset / 64 + 1] << (64 - first);
    return static_cast<std::uint32_t>(~bits & ((std::uint64_t{1} << bytes) - 1));
}

GlobalMemory::GlobalMemory(std::vector<Region> regions) {
    std::sort(regions.begin(), regions.end(), [](const Region& a, const Region& b) { return a.base < b.base; });
    std::uint64_t end = 0;
    for (const auto& region : regions) {
        if (region.base < end || region.base + region.size < region.base) throw std::invalid_argument("allocations overlap");
        end = region.base + region.size;
        allocations_.push_back(std::make_unique<Allocation>(region));
        bases_.push_back(region.base);
    }
}

Allocation* GlobalMemory::find(std::uint64_t address) const {
    const auto after = std::upper_bound(bases_.begin(), bases_.end(), address);
    if (after == bases_.begin()) return nullptr;
    auto* allocation = allocations_[static_cast<std::size_t>(after - bases_.begin()) - 1].get();
    return allocation->region.holds(address, 1) ? allocation : nullptr;
}

void GlobalMemory::track() {
    for (auto& allocation : allocations_) allocation->track();
}

void GlobalMemory::undo() {
    for (auto& allocation : allocations_) allocation->undo();
}

bool GlobalMemory::order_mattered() const {
    return std::any_of(allocations_.begin(), allocations_.end(), [](const auto& allocation) { return allocation->read_and_written(); });
}

}  // namespace wmmadiag
