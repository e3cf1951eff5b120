// Device memory: every allocation stands alone between unmapped pages, at an address that is never used again. It is mapped twice, for
// the host where it must not look (PROT_NONE), and where this library and the emulator work on it.
#include "memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "ending.hpp"

namespace wmmadiag {

namespace {

constexpr std::uint64_t arena = 0x2000'0000'0000, arena_size = 1ull << 42;  // far from the emulator's windows and from where mmap puts things
constexpr std::uint64_t guard = 1 << 20;

std::string first_word(const char* text) {
    std::string word(text);
    int depth = 0;
    for (std::size_t i = 0; i < word.size(); ++i) {
        if (word[i] == '>' && i > 0 && word[i - 1] == '-') continue;  // b->x
        depth += (word[i] == '(' || word[i] == '<' || word[i] == '[') - (word[i] == ')' || word[i] == '>' || word[i] == ']');
        if (word[i] == ',' && depth == 0) {
            word.resize(i);
            break;
        }
    }
    const auto close = word.rfind(')');  // (void**)&d_a
    if (!word.empty() && word[0] == '(' && close != std::string::npos && close + 1 < word.size()) word.erase(0, close + 1);
    const auto begin = word.find_first_not_of(" &");
    return begin == std::string::npos ? "" : word.substr(begin);
}

// f(word, bits) for all bits [begin, end) in words of 64.
template <class F>
void each_word(std::uint64_t begin, std::uint64_t end, F&& f) {
    while (begin < end) {
        const auto first = begin % 64, count = std::min(64 - first, end - begin);
        f(begin / 64, ~std::uint64_t{0} >> (64 - count) << first);
        begin += count;
    }
}

}  // namespace

Memory& memory() {
    static auto* one = [] {
        auto* made = new Memory;  // never destroyed: destructors of the program's own statics free memory
        made->next = arena;
        return made;
    }();
    return *one;
}

Allocation* allocation_at(const void* pointer) {
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    auto& live = memory().live;
    auto after = live.upper_bound(address);
    if (after == live.begin()) return nullptr;
    auto* one = std::prev(after)->second.get();
    return address - one->address < std::max<std::uint64_t>(one->size, 1) ? one : nullptr;
}

std::uint64_t reserve(std::uint64_t bytes) {
    auto& all = memory();
    constexpr std::uint64_t aligned = 2 << 20;
    const auto begin = (all.next + aligned - 1) / aligned * aligned;
    if (begin + bytes + guard > arena + arena_size) return 0;
    all.next = begin + in_pages(bytes) + guard;
    return begin;
}

void* allocate(std::size_t bytes, Kind kind, const char* call) {
    auto& all = memory();
    const auto address = all.next, size = in_pages(std::max<std::uint64_t>(bytes, 1));
    if (bytes == 0 || address + size + guard > arena + arena_size) return nullptr;
    void* made = allocate_at(address, bytes, kind, call);
    if (made != nullptr) all.next = address + size + guard;
    return made;
}

void* allocate_at(std::uint64_t at, std::size_t bytes, Kind kind, const char* call) {
    auto& all = memory();
    const auto size = in_pages(bytes), all_size = size + in_pages_of_bits(bytes);
    if (kind == Kind::device && all.used + bytes > static_cast<std::uint64_t>(host().property("totalGlobalMem"))) return nullptr;
    if (all.file < 0) {
        all.file = memfd_create("wmmadiag", MFD_CLOEXEC);
        if (all.file < 0) return nullptr;
    }
    if (ftruncate(all.file, static_cast<off_t>(all.file_end + all_size)) != 0) return nullptr;
    const auto offset = static_cast<off_t>(all.file_end);
    void* view = mmap(nullptr, all_size, PROT_READ | PROT_WRITE, MAP_SHARED, all.file, offset);
    if (view == MAP_FAILED) return nullptr;
    const int open = kind == Kind::device || kind == Kind::symbol ? PROT_NONE : PROT_READ | PROT_WRITE;
    void* seen = mmap(reinterpret_cast<void*>(at), size, open, MAP_SHARED | (at < all.next ? MAP_FIXED : MAP_FIXED_NOREPLACE), all.file, offset);
    if (seen == MAP_FAILED) {
        munmap(view, all_size);
        return nullptr;
    }
    auto one = std::make_unique<Allocation>();
    one->address = at;
    one->size = bytes;
    one->view = static_cast<std::byte*>(view);
    one->kind = kind;
    one->item = std::max<std::size_t>(here().item, 1);
    const auto word = first_word(here().text);
    one->name =
        (word.empty() ? "memory" : word) + ", " + call + (*here().file ? " at " + std::string(here().file) + ":" + std::to_string(here().line) : "");
    one->file = here().file;
    one->line = here().line;
    one->text = here().text;
    if (kind == Kind::device) {  // any other the host may write unseen
        all.used += bytes;
        one->unwritten = bytes;
    } else if (kind != Kind::symbol) {
        open_to_host();
    }
    went_on();
    all.file_end += all_size;
    here().item = 1;
    auto* address = reinterpret_cast<void*>(one->address);
    all.views.emplace(reinterpret_cast<std::uint64_t>(view), one.get());
    all.live.emplace(one->address, std::move(one));
    return address;
}

bool adopt(void* pointer, std::size_t bytes, Kind kind, const std::string& name) {
    auto& all = memory();
    if (bytes == 0 || pointer == nullptr || allocation_at(pointer) != nullptr) return false;
    auto one = std::make_unique<Allocation>();
    one->address = reinterpret_cast<std::uint64_t>(pointer);
    one->size = bytes;
    one->view = static_cast<std::byte*>(pointer);
    one->kind = kind;
    one->name = name;
    one->adopted = true;
    open_to_host();
    all.views.emplace(one->address, one.get());
    all.live.emplace(one->address, std::move(one));
    return true;
}

bool release(void* pointer, Kind kind) {
    auto& all = memory();
    auto found = all.live.find(reinterpret_cast<std::uint64_t>(pointer));
    const auto name = first_word(here().text);
    if (found == all.live.end()) {
        const auto address = reinterpret_cast<std::uint64_t>(pointer);
        for (auto one = all.freed.rbegin(); one != all.freed.rend(); ++one)
            if ((*one)->address == address) {
                report("memory", "double-free", "error", name + " was freed already: " + (*one)->name,
                       "free it once, and set the pointer to nullptr");
                return false;
            }
        report("memory", "bad-free", "error", name + " is not the start of an allocation", "free the pointer that the allocation returned");
        return false;
    }
    auto* one = found->second.get();
    const bool pinned = one->kind == Kind::pinned;
    if (one->adopted || pinned != (kind == Kind::pinned)) {
        report("memory", "wrong-free", "error", name + " is " + (pinned ? "pinned host" : "device") + " memory: " + one->name,
               pinned ? "free it with cudaFreeHost" : "free it with cudaFree");
        return false;
    }
    const auto size = in_pages(one->size), all_size = size + in_pages_of_bits(one->size);
    all.views.erase(reinterpret_cast<std::uint64_t>(one->view));
    madvise(one->view, all_size, MADV_REMOVE);  // the pages go back, the address does not
    munmap(one->view, all_size);
    mmap(reinterpret_cast<void*>(one->address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (one->kind == Kind::device) all.used -= one->size;
    if (one->pool != nullptr) returned(*one->pool, one->size);
    one->kind = Kind::freed;
    one->view = nullptr;
    one->name += " (freed" + (*here().file ? " at " + std::string(here().file) + ":" + std::to_string(here().line) : std::string()) + ")";
    all.freed.push_back(std::move(found->second));
    all.live.erase(found);
    return true;
}

void wrote(const void* pointer, std::size_t bytes) {
    auto* one = allocation_at(pointer);
    if (one == nullptr || bytes == 0) return;
    ++one->version;
    const auto begin = reinterpret_cast<std::uint64_t>(pointer) - one->address, end = std::min(begin + bytes, one->size);
    if (one->unwritten == 0) return;
    if (begin == 0 && end == one->size) {
        one->unwritten = 0;
        return;
    }
    each_word(begin, end, [&](std::uint64_t word, std::uint64_t bits) {
        one->unwritten -= static_cast<unsigned>(std::popcount(bits & ~one->written()[word]));
        one->written()[word] |= bits;
    });
}

void wrote_copy(const void* to, const void* from, std::size_t bytes) {
    wrote(to, bytes);
    const auto* source = allocation_at(from);
    auto* target = allocation_at(to);
    if (source == nullptr || target == nullptr || source->unwritten == 0 || target->kind != Kind::device || bytes == 0) return;
    const auto begin = reinterpret_cast<std::uint64_t>(from) - source->address, shift = reinterpret_cast<std::uint64_t>(to) - target->address - begin;
    std::pair<std::uint64_t, std::uint64_t> hole{begin, begin};
    while ((hole = source->first_unwritten(hole.second, begin + bytes)).first < begin + bytes) {
        if (target->unwritten == 0) each_word(0, target->size, [&](std::uint64_t word, std::uint64_t bits) { target->written()[word] = bits; });
        each_word(hole.first + shift, hole.second + shift, [&](std::uint64_t word, std::uint64_t bits) {
            target->unwritten += static_cast<unsigned>(std::popcount(bits & target->written()[word]));
            target->written()[word] &= ~bits;
        });
    }
}

std::uint64_t* Allocation::written() const { return reinterpret_cast<std::uint64_t*>(view + in_pages(size)); }

std::pair<std::uint64_t, std::uint64_t> Allocation::first_unwritten(std::uint64_t from, std::uint64_t to) const {
    if (unwritten == 0) return {to, to};
    // The first byte from one on whose bit is (not) set.
    const auto next = [&](std::uint64_t at, std::uint64_t turned) {
        while (at < to) {
            const auto rest = (written()[at / 64] ^ turned) >> at % 64;
            if (rest != 0) return std::min(at + static_cast<unsigned>(std::countr_zero(rest)), to);
            at = at / 64 * 64 + 64;
        }
        return to;
    };
    const auto begin = next(from, ~std::uint64_t{0});
    return {begin, next(begin, 0)};
}

void Allocation::begin_unwritten() {
    if (kind != Kind::device) return;
    ++version;
    madvise(written(), in_pages_of_bits(size), MADV_REMOVE);
    unwritten = size;
}

void Allocation::count_unwritten() {
    std::uint64_t there = 0;
    each_word(0, size, [&](std::uint64_t word, std::uint64_t bits) { there += static_cast<unsigned>(std::popcount(bits & written()[word])); });
    unwritten = size - there;
    if (unwritten == 0) madvise(written(), in_pages_of_bits(size), MADV_REMOVE);
}

bool memory_is_open() { return memory().open; }

bool device_address(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer) - arena < arena_size; }

std::byte* device_bytes(const void* pointer, std::size_t bytes, Access access, const char* what) {
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    const auto verb = access == Access::read ? " reads " : " writes ";
    if (auto* one = allocation_at(pointer)) {
        const auto offset = address - one->address;
        if (bytes <= one->size - offset) return one->view + offset;
        report("memory", "out-of-bounds", "error",
               what + std::string(verb) + std::to_string(bytes) + " bytes" + (offset != 0 ? " from byte " + std::to_string(offset) : "") + " of " +
                   one->name + ", which has " + std::to_string(one->size),
               "compare the number of bytes with that of the allocation");
        return nullptr;
    }
    if (device_address(pointer)) {
        std::string near = "that is no allocation";
        for (auto one = memory().freed.rbegin(); one != memory().freed.rend(); ++one)
            if (address - (*one)->address < (*one)->size) near = "of " + (*one)->name;
        report("memory", "no-allocation", "error", what + std::string(verb) + "device memory " + near,
               "the pointer must be inside a live allocation");
        return nullptr;
    }
    if (access == Access::write) shown();
    return reinterpret_cast<std::byte*>(const_cast<void*>(pointer));
}

}  // namespace wmmadiag

using namespace wmmadiag;

extern "C" {

// For the process around this library.
struct WmmadiagRow {
    std::uint64_t address, size, view, version, item, written;
    const char* name;
    std::uint64_t kind;
};
// All live memory in the order of its addresses, then what was freed last; returns how many rows there are.
std::uint64_t wmmadiag_memory(WmmadiagRow* rows, std::uint64_t most) {
    std::uint64_t count = 0;
    const auto add = [&](const Allocation& one) {
        if (count++ >= most) return;
        rows[count - 1] = {one.address,
                           one.size,
                           reinterpret_cast<std::uint64_t>(one.view),
                           one.version,
                           one.item,
                           one.unwritten != 0 ? reinterpret_cast<std::uint64_t>(one.written()) : 0,
                           one.name.c_str(),
                           static_cast<std::uint64_t>(one.kind)};
    };
    for (const auto& [address, one] : memory().live) add(*one);
    const auto& freed = memory().freed;
    for (std::size_t i = freed.size() > 64 ? freed.size() - 64 : 0; i < freed.size(); ++i) add(*freed[i]);
    return count;
}
// Where this process has the bytes of a device address.
std::uint64_t wmmadiag_view(std::uint64_t address) {
    auto* one = allocation_at(reinterpret_cast<const void*>(address));
    if (one != nullptr) ++one->version;
    return one != nullptr ? reinterpret_cast<std::uint64_t>(one->view) + (address - one->address) : 0;
}
// Storage of a variable of the device, with the contents of the host's shadow of it; of a managed one the shadow itself.
std::uint64_t wmmadiag_variable(const char* name, std::uint64_t size, std::uint64_t shadow, int managed) {
    WMMADIAG_LOCKED;
    if (managed != 0) return adopt(reinterpret_cast<void*>(shadow), size, Kind::managed, std::string(name) + ", a managed variable") ? shadow : 0;
    const Here before = here();
    here() = {"", 0, name, 1};
    auto* pointer = allocate(size, Kind::symbol, "a variable of the device");
    here() = before;
    if (pointer != nullptr) std::memcpy(allocation_at(pointer)->view, reinterpret_cast<const void*>(shadow), size);
    return reinterpret_cast<std::uint64_t>(pointer);
}

}  // extern "C"
