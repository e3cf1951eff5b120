// Values of derived elements where they are multiplied, accumulated or stored, for comparison with a reference.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tag.hpp"

namespace wmmadiag::provenance {

// Where a value was seen; wmmadiag/provenance/samples.py reads it.
enum class Role : std::uint8_t { operand, accumulator, result, store, count };

// Laid out as the array that Python hands over.
struct Sample {
    std::uint32_t pc, group;  // group: the event, in order of execution
    Tag tag;
    std::uint64_t bits;   // of a double where width is 0, else raw
    std::uint32_t where;  // role in bits 0-7, width in bytes in bits 8-15
    std::uint32_t block;
};
static_assert(sizeof(Sample) == 32);

// Keeps samples while there is room, and at most `most` of one instruction and role.
class Samples {
public:
    Samples() = default;
    Samples(Sample* to, std::uint64_t capacity, std::uint64_t most, std::size_t instructions)
        : to_(to), capacity_(to == nullptr ? 0 : capacity), most_(most), counts_(to == nullptr ? 0 : instructions) {}

    // Whether an instruction may still leave samples; asked once per event.
    [[nodiscard]] bool wants(std::uint32_t pc, Role role) {
        if (counts_.empty()) return false;
        if (size_ < capacity_ && counts_[pc][static_cast<unsigned>(role)] < most_) return true;
        full_ = true;
        return false;
    }
    void next_event() { ++group_; }
    void add(std::uint32_t pc, std::uint32_t block, Role role, unsigned width, Tag tag, std::uint64_t bits) {
        if (size_ >= capacity_) return;
        ++counts_[pc][static_cast<unsigned>(role)];
        to_[size_++] = {pc, group_, tag, bits, static_cast<std::uint32_t>(role) | width << 8, block};
    }
    [[nodiscard]] std::uint64_t size() const { return size_; }
    [[nodiscard]] bool full() const { return full_; }  // some were left out

private:
    Sample* to_ = nullptr;
    std::uint64_t capacity_ = 0, most_ = 0, size_ = 0;
    std::uint32_t group_ = 0;
    bool full_ = false;
    std::vector<std::array<std::uint64_t, static_cast<unsigned>(Role::count)>> counts_;
};

}  // namespace wmmadiag::provenance
