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
    written_ = true;
}

void Allocation::undo() {
    if (before_) std::memcpy(region.host, before_.get(), region.size);
    before_.reset();
    owner_.reset();
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
