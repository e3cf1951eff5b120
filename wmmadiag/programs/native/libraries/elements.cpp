#include "elements.hpp"

#include <algorithm>
#include <string>

#include "ordering.hpp"

namespace wmmadiag::libraries {

namespace {

// Lines at either end of an array whose place is told to the check of streams: what lies between touches the same arrays.
constexpr size_t most_told = 512;

void told(const Lines& lines, Touch touch) {
    const size_t size = element_size(lines.type);
    if (lines.pitch == lines.length || lines.lines == 1) return touches(lines.data, lines.bytes(), touch);
    for (size_t line = 0; line < lines.lines; ++line)
        if (line < most_told || line + most_told >= lines.lines)
            touches(static_cast<const char*>(lines.data) + line * lines.pitch * size, lines.length * size, touch);
}

}  // namespace

std::byte* reach(const char* what, const Lines& lines, Access access) {
    std::byte* at = lines.data == nullptr ? nullptr : device_bytes(lines.data, lines.bytes(), access, what);
    const bool null = lines.data == nullptr;
    if (null || (at != nullptr && allocation_at(lines.data) == nullptr)) {
        report("memory", null ? "null-pointer" : "host-pointer", "error",
               std::string(what) + (access == Access::read ? " reads " : " writes ") +
                   (null ? "a null pointer" : "memory of the host where it takes the device's"),
               null ? "allocate the array first" : "pass the pointer that cudaMalloc gave");
        at = nullptr;
    }
    if (at == nullptr) throw cudaErrorIllegalAddress;
    called(what);
    told(lines, access == Access::read ? Touch::read : Touch::write);
    return at;
}

void expect_written(const char* what, const Lines& lines) {
    const Allocation* one = allocation_at(lines.data);
    if (one == nullptr || one->unwritten == 0) return;
    const size_t size = element_size(lines.type), length = lines.length * size;
    const std::uint64_t first = reinterpret_cast<std::uint64_t>(lines.data) - one->address;
    for (size_t line = 0; line < lines.lines; ++line) {
        const std::uint64_t begin = first + line * lines.pitch * size;
        const auto [low, high] = one->first_unwritten(begin, begin + length);
        if (low >= high) continue;
        report("uninitialised", "library-read", "error",
               std::string(what) + " reads " + one->name + ", where nothing has written byte " + std::to_string(low) +
                   (high - low > 1 ? " to " + std::to_string(high - 1) : ""),
               "copy or compute the array before the call, or pass its true sizes");
        return;
    }
}

void mark_written(const Lines& lines) {
    const size_t size = element_size(lines.type);
    if (lines.pitch == lines.length) return wrote(lines.data, lines.bytes());
    for (size_t line = 0; line < lines.lines; ++line) wrote(static_cast<const char*>(lines.data) + line * lines.pitch * size, lines.length * size);
}

}  // namespace wmmadiag::libraries
