// One bit per byte of a memory: set while its value means nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace wmmadiag {

class ShadowBits {
public:
    explicit ShadowBits(std::uint64_t bytes = 0) : bytes_(bytes), words_(bytes / 64 + 3) {}

    [[nodiscard]] std::uint64_t size() const { return bytes_; }
    [[nodiscard]] bool holds(std::uint64_t at, std::uint64_t bytes) const { return at <= bytes_ && bytes <= bytes_ - at; }

    void fill(bool value) { std::fill(words_.begin(), words_.end(), value ? ~std::uint64_t{0} : 0); }

    // The bits of at most 32 bytes, the first in bit 0.
    [[nodiscard]] std::uint32_t get(std::uint64_t at, unsigned bytes) const {
        std::uint64_t word;  // little endian: from the byte that holds the first bit
        std::memcpy(&word, reinterpret_cast<const std::byte*>(words_.data()) + at / 8, sizeof word);
        return static_cast<std::uint32_t>(word >> (at % 8) & ((std::uint64_t{1} << bytes) - 1));
    }
    void put(std::uint64_t at, unsigned bytes, std::uint32_t bits) {
        const auto word = at / 64, shift = at % 64;
        const auto mask = (std::uint64_t{1} << bytes) - 1;
        words_[word] = (words_[word] & ~(mask << shift)) | (std::uint64_t{bits} << shift);
        if (shift + bytes > 64) words_[word + 1] = (words_[word + 1] & ~(mask >> (64 - shift))) | (std::uint64_t{bits} >> (64 - shift));
    }
    // Whether any of `bytes` bytes at one of 32 addresses, none of which crosses a word of 64: a power of two, aligned.
    [[nodiscard]] bool any_aligned(const std::uint64_t* addresses, unsigned bytes) const {
        std::uint64_t found = 0;
        for (unsigned l = 0; l < 32; ++l) found |= words_[addresses[l] >> 6] >> (addresses[l] & 63);
        return (found & (~std::uint64_t{0} >> (64 - bytes))) != 0;
    }
    void clear_aligned(const std::uint64_t* addresses, unsigned bytes) {
        const auto mask = ~std::uint64_t{0} >> (64 - bytes);
        for (unsigned l = 0; l < 32; ++l) words_[addresses[l] >> 6] &= ~(mask << (addresses[l] & 63));
    }
    [[nodiscard]] bool any(std::uint64_t begin, std::uint64_t end) const {
        if (begin >= end) return false;
        const auto first = begin / 64, last = (end - 1) / 64;
        const auto head = ~std::uint64_t{0} << (begin % 64), tail = ~std::uint64_t{0} >> (63 - (end - 1) % 64);
        if (first == last) return (words_[first] & head & tail) != 0;
        std::uint64_t found = (words_[first] & head) | (words_[last] & tail);
        for (auto w = first + 1; w < last; ++w) found |= words_[w];
        return found != 0;
    }
    void clear(std::uint64_t begin, std::uint64_t end) {
        if (begin >= end) return;
        const auto first = begin / 64, last = (end - 1) / 64;
        const auto head = ~std::uint64_t{0} << (begin % 64), tail = ~std::uint64_t{0} >> (63 - (end - 1) % 64);
        if (first == last) {
            words_[first] &= ~(head & tail);
            return;
        }
        words_[first] &= ~head;
        for (auto w = first + 1; w < last; ++w) words_[w] = 0;
        words_[last] &= ~tail;
    }

private:
    std::uint64_t bytes_;
    std::vector<std::uint64_t> words_;
};

}  // namespace wmmadiag
