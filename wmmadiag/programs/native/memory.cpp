// Device memory: every allocation stands alone between unmapped pages, at an address that is never used again. It is mapped twice, for
// the host where it must not look (PROT_NONE), and where this library and the emulator work on it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "host_access.hpp"
#include "ordering.hpp"

namespace wmmadiag {

namespace {

constexpr std::uint64_t arena = 0x2000'0000'0000, arena_size = 1ull << 42;  // far from the emulator's windows and from where mmap puts things
constexpr std::uint64_t page = 4096, guard = 1 << 20;
constexpr std::uint64_t most_changes = 4096;  // stretches of one allocation that one launch changed

struct Memory {
    int file = -1;
    std::uint64_t next = arena, file_end = 0, used = 0;
    std::map<std::uint64_t, std::unique_ptr<Allocation>> live;
    std::map<std::uint64_t, Allocation*> views;  // live, by where this process works on them
    bool watching = false;
    bool keeping = false;  // what launches change of memory that the host sees is told
    bool open = false;     // the host may touch what cudaMalloc gives
    std::vector<std::unique_ptr<Allocation>> freed;
};
Memory& memory() {
    static auto* one = new Memory;  // never destroyed: destructors of the program's own statics free memory
    return *one;
}

// Of bytes: equal for equal ones, and for others as good as never. Eight lanes, so that it runs at the speed of memory.
std::uint64_t digest(const std::byte* bytes, std::uint64_t size) {
    constexpr std::uint64_t odd = 0x9e37'79b9'7f4a'7c15;
    constexpr std::size_t lanes = 8, stride = lanes * sizeof(std::uint64_t);
    std::uint64_t state[lanes], last[lanes]{};
    for (std::size_t l = 0; l < lanes; ++l) state[l] = odd * (size + l + 1);
    const auto mix = [&](const void* from) {
        std::uint64_t words[lanes];
        std::memcpy(words, from, stride);
        for (std::size_t l = 0; l < lanes; ++l) {
            state[l] = (state[l] ^ words[l]) * odd;
            state[l] ^= state[l] >> 32;
        }
    };
    std::uint64_t at = 0;
    for (; at + stride <= size; at += stride) mix(bytes + at);
    if (at < size) std::memcpy(last, bytes + at, size - at);
    mix(last);
    std::uint64_t sum = 0;
    for (const auto one : state) {
        sum = (sum ^ one) * odd;
        sum ^= sum >> 29;
    }
    return sum == 0 ? 1 : sum;
}

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

}  // namespace

Allocation* allocation_at(const void* pointer) {
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    auto& live = memory().live;
    auto after = live.upper_bound(address);
    if (after == live.begin()) return nullptr;
    auto* one = std::prev(after)->second.get();
    return address - one->address < std::max<std::uint64_t>(one->size, 1) ? one : nullptr;
}

void* allocate(std::size_t bytes, Kind kind, const char* call) {
    auto& all = memory();
    const auto size = (std::max<std::uint64_t>(bytes, 1) + page - 1) / page * page;
    if (bytes == 0 || all.next + size + guard > arena + arena_size) return nullptr;
    if (kind == Kind::device && all.used + bytes > static_cast<std::uint64_t>(host().property("totalGlobalMem"))) return nullptr;
    if (all.file < 0) {
        all.file = memfd_create("wmmadiag", MFD_CLOEXEC);
        if (all.file < 0) return nullptr;
    }
    if (ftruncate(all.file, static_cast<off_t>(all.file_end + size)) != 0) return nullptr;
    const auto offset = static_cast<off_t>(all.file_end);
    void* view = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, all.file, offset);
    if (view == MAP_FAILED) return nullptr;
    const int open = kind == Kind::device || kind == Kind::symbol ? PROT_NONE : PROT_READ | PROT_WRITE;
    void* seen = mmap(reinterpret_cast<void*>(all.next), size, open, MAP_SHARED | MAP_FIXED_NOREPLACE, all.file, offset);
    if (seen == MAP_FAILED) {
        munmap(view, size);
        return nullptr;
    }
    auto one = std::make_unique<Allocation>();
    one->address = all.next;
    one->size = bytes;
    one->view = static_cast<std::byte*>(view);
    one->kind = kind;
    one->item = std::max<std::size_t>(here().item, 1);
    const auto word = first_word(here().text);
    one->name =
        (word.empty() ? "memory" : word) + ", " + call + (*here().file ? " at " + std::string(here().file) + ":" + std::to_string(here().line) : "");
    one->file = here().file;
    one->line = here().line;
    one->unwritten.push_back({0, bytes});
    if (kind == Kind::device) {
        all.used += bytes;
    } else {
        one->unwritten.clear();  // the host may write it unseen
    }
    all.file_end += size;
    all.next += size + guard;
    here().item = 1;
    auto* address = reinterpret_cast<void*>(one->address);
    all.views.emplace(reinterpret_cast<std::uint64_t>(view), one.get());
    all.live.emplace(one->address, std::move(one));
    return address;
}

// Memory of the host's own that the device sees at the same address.
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
    const auto size = (one->size + page - 1) / page * page;
    all.views.erase(reinterpret_cast<std::uint64_t>(one->view));
    madvise(one->view, size, MADV_REMOVE);  // the pages go back, the address does not
    munmap(one->view, size);
    mmap(reinterpret_cast<void*>(one->address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (one->kind == Kind::device) all.used -= one->size;
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
    std::vector<std::pair<std::uint64_t, std::uint64_t>> left;
    for (const auto& [from, to] : one->unwritten) {
        if (from < begin) left.push_back({from, std::min(to, begin)});
        if (to > end) left.push_back({std::max(from, end), to});
    }
    one->unwritten = std::move(left);
}

// What memory holds that the host sees, before a launch writes to it.
void keep_before(Allocation& one, std::uint64_t size) {
    if (!memory().keeping || one.raced || (one.kind != Kind::managed && one.kind != Kind::pinned)) return;
    void* kept = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (kept == MAP_FAILED) return;
    mprotect(one.view, size, PROT_READ);
    std::memcpy(kept, one.view, one.size);
    one.before = static_cast<std::byte*>(kept);
}

// The elements in which two contents of an allocation differ: a launch has written at least these.
void tell_changes(const Allocation& one, const std::byte* left, const std::byte* right) {
    const auto item = std::max<std::uint64_t>(one.item, 1), stride = 256 * item, none = one.size;
    auto begin = none;
    std::uint64_t told = 0;
    const auto end_at = [&](std::uint64_t at) {
        if (begin != none) changes(one.address + begin, one.address + at), ++told;
        begin = none;
    };
    for (std::uint64_t base = 0; base < one.size && told < most_changes; base += stride) {
        const auto last = std::min(base + stride, one.size);
        if (std::memcmp(left + base, right + base, last - base) == 0) {
            end_at(base);
            continue;
        }
        for (auto at = base; at < last; at += item) {
            const bool same = std::memcmp(left + at, right + at, std::min(item, last - at)) == 0;
            if (same) end_at(at);
            else if (begin == none) begin = at;
        }
    }
    end_at(one.size);
}

bool opened(const void* pointer, bool write) {
    auto& all = memory();
    if (!all.watching) return false;
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    auto after = all.views.upper_bound(address);
    if (after == all.views.begin()) return false;
    auto* one = std::prev(after)->second;
    const auto size = (one->size + page - 1) / page * page;
    if (one->adopted || address - reinterpret_cast<std::uint64_t>(one->view) >= size) return false;
    // Several of the emulator's threads may come here at once.
    static std::atomic_flag busy = ATOMIC_FLAG_INIT;
    while (busy.test_and_set(std::memory_order_acquire)) {
    }
    if (write && (one->touched & 2) == 0) {
        one->touched |= 2;
        keep_before(*one, size);
        mprotect(one->view, size, PROT_READ | PROT_WRITE);
    } else if (!write && one->touched == 0) {
        one->touched |= 1;
        mprotect(one->view, size, PROT_READ);
    }
    busy.clear(std::memory_order_release);
    return true;
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
    return reinterpret_cast<std::byte*>(const_cast<void*>(pointer));
}

}  // namespace wmmadiag

using namespace wmmadiag;

namespace {

cudaError_t allocated(void** pointer, std::size_t bytes, Kind kind, const char* call) {
    WMMADIAG_LOCKED;
    if (const auto before = status(); before != cudaSuccess) return before;
    if (pointer == nullptr) return failed(cudaErrorInvalidValue);
    *pointer = bytes == 0 ? nullptr : allocate(bytes, kind == Kind::device && memory().open ? Kind::managed : kind, call);
    return *pointer == nullptr && bytes != 0 ? failed(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t freed(void* pointer, Kind kind) {
    WMMADIAG_LOCKED;
    const auto before = status(true);
    if (pointer == nullptr) return before;
    const bool done = release(pointer, kind);
    if (before != cudaSuccess) return before;
    return done ? cudaSuccess : failed(cudaErrorInvalidValue);
}

}  // namespace

extern "C" {

// For the process around this library.
struct WmmadiagRow {
    std::uint64_t address, size, view, version, item, fresh_from, fresh_to;
    const char* name;
    std::uint64_t kind;
};
// All live memory in the order of its addresses, then what was freed last; returns how many rows there are.
std::uint64_t wmmadiag_memory(WmmadiagRow* rows, std::uint64_t most) {
    std::uint64_t count = 0;
    const auto add = [&](const Allocation& one) {
        if (count++ >= most) return;
        const bool fresh = !one.unwritten.empty();
        rows[count - 1] = {one.address,
                           one.size,
                           reinterpret_cast<std::uint64_t>(one.view),
                           one.version,
                           one.item,
                           fresh ? one.unwritten.front().first : 0,
                           fresh ? one.unwritten.front().second : 0,
                           one.name.c_str(),
                           static_cast<std::uint64_t>(one.kind)};
    };
    for (const auto& [address, one] : memory().live) add(*one);
    const auto& freed = memory().freed;
    for (std::size_t i = freed.size() > 64 ? freed.size() - 64 : 0; i < freed.size(); ++i) add(*freed[i]);
    return count;
}
// Whether what the next launch changes of memory that the host sees is to be told.
void wmmadiag_keep(int on) { memory().keeping = on != 0 && guards_host_memory(); }
// A launch begins: its first access to each allocation is noted.
void wmmadiag_watch() {
    auto& all = memory();
    for (const auto& [view, one] : all.views) {
        one->touched = one->adopted ? 3 : 0;
        if (!one->adopted) mprotect(one->view, (one->size + page - 1) / page * page, PROT_NONE);
    }
    all.watching = true;
}
struct WmmadiagTouched {
    std::uint64_t address, touched;
};
// It has ended: what it touched.
std::uint64_t wmmadiag_watched(WmmadiagTouched* rows, std::uint64_t most) {
    auto& all = memory();
    all.watching = false;
    std::uint64_t count = 0;
    for (const auto& [view, one] : all.views) {
        if (!one->adopted) mprotect(one->view, (one->size + page - 1) / page * page, PROT_READ | PROT_WRITE);
        if (one->before != nullptr) {
            tell_changes(*one, one->before, one->view);
            munmap(std::exchange(one->before, nullptr), (one->size + page - 1) / page * page);
        }
        if ((one->touched & 2) != 0) {
            ++one->version;
            one->unwritten.clear();
        }
        if (one->touched != 0 && count++ < most) rows[count - 1] = {one->address, one->touched};
    }
    return count;
}
// A digest of what the allocation at an address holds, its size included; 0: there is none.
std::uint64_t wmmadiag_content(std::uint64_t address) {
    auto* one = allocation_at(reinterpret_cast<const void*>(address));
    if (one == nullptr) return 0;
    // What the host may write unseen has no version to go by.
    const bool unseen = one->adopted || one->kind == Kind::managed || one->kind == Kind::pinned;
    if (unseen || one->content == 0 || one->content_version != one->version) {
        one->content = digest(one->view, one->size);
        one->content_version = one->version;
    }
    return one->content;
}
// What a launch left in an allocation is put there again.
void wmmadiag_restore(std::uint64_t address, const std::byte* bytes, std::uint64_t content) {
    auto* one = allocation_at(reinterpret_cast<const void*>(address));
    if (memory().keeping && (one->kind == Kind::managed || one->kind == Kind::pinned)) tell_changes(*one, one->view, bytes);
    std::memcpy(one->view, bytes, one->size);
    one->unwritten.clear();
    one->content = content;
    one->content_version = ++one->version;
}
// Tells of memory that the program never gave back, once for each call that made some.
void wmmadiag_leaks() {
    WMMADIAG_LOCKED;
    struct Made {
        std::string name;
        std::uint64_t count = 0, bytes = 0;
    };
    std::map<std::pair<std::string, int>, Made> calls;
    for (const auto& [address, one] : memory().live) {
        if (one->adopted || one->kind == Kind::symbol) continue;
        auto& made = calls[{one->file, one->line}];
        made.name = one->name;
        ++made.count;
        made.bytes += one->size;
    }
    for (const auto& [place, made] : calls) {
        here() = {place.first.c_str(), place.second, "", 1};
        report("memory", "leak", "warning",
               made.name + " is never freed: " + std::to_string(made.count) + (made.count == 1 ? " allocation, " : " allocations, ") +
                   std::to_string(made.bytes) + " bytes",
               "free it (cudaFree, cudaFreeHost) before the program ends");
    }
    here() = {};
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

// For a program whose host code works on the device's memory: Thrust's algorithms.
void wmmadiag_open_memory() { memory().open = true; }

void wmmadiag_item(std::size_t bytes) { here().item = bytes; }

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) { return allocated(pointer, bytes, Kind::device, "cudaMalloc"); }
cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned) {
    if (bytes == 0) return failed(cudaErrorInvalidValue);
    return allocated(pointer, bytes, Kind::managed, "cudaMallocManaged");
}
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) { return allocated(pointer, bytes, Kind::pinned, "cudaMallocHost"); }
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) { return allocated(pointer, bytes, Kind::pinned, "cudaHostAlloc"); }
cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width, std::size_t height) {
    *pitch = (width + 511) / 512 * 512;
    return allocated(pointer, *pitch * height, Kind::device, "cudaMallocPitch");
}
cudaError_t cudaMalloc3D(cudaPitchedPtr* to, cudaExtent extent) {
    const auto pitch = (extent.width + 511) / 512 * 512;
    *to = {nullptr, pitch, extent.width, extent.height};
    return allocated(&to->ptr, pitch * extent.height * extent.depth, Kind::device, "cudaMalloc3D");
}
cudaError_t cudaFree(void* pointer) {
    flush_output();
    waited();
    return freed(pointer, Kind::device);
}
cudaError_t cudaFreeHost(void* pointer) { return freed(pointer, Kind::pinned); }
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
    WMMADIAG_LOCKED;
    *device = host;
    return allocation_at(host) != nullptr ? cudaSuccess : failed(cudaErrorInvalidValue);
}
cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
    WMMADIAG_LOCKED;
    if (const auto before = status(); before != cudaSuccess) return before;
    return adopt(pointer, bytes, Kind::pinned, "registered host memory") ? cudaSuccess : failed(cudaErrorInvalidValue);
}
cudaError_t cudaHostUnregister(void* pointer) {
    WMMADIAG_LOCKED;
    auto& all = memory();
    const auto found = all.live.find(reinterpret_cast<std::uint64_t>(pointer));
    if (found == all.live.end() || !found->second->adopted) return failed(cudaErrorInvalidValue);
    all.views.erase(found->first);
    all.live.erase(found);
    return status(true);
}
cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
    WMMADIAG_LOCKED;
    *flags = cudaHostAllocMapped;
    return allocation_at(pointer) != nullptr ? cudaSuccess : failed(cudaErrorInvalidValue);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    WMMADIAG_LOCKED;
    *total = static_cast<std::size_t>(host().property("totalGlobalMem"));
    *free = *total - memory().used;
    return status();
}

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t) { return allocated(pointer, bytes, Kind::device, "cudaMallocAsync"); }
cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, cudaMemPool_t, cudaStream_t) {
    return allocated(pointer, bytes, Kind::device, "cudaMallocFromPoolAsync");
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return freed(pointer, Kind::device); }
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
    *pool = reinterpret_cast<cudaMemPool_t>(&memory());
    return cudaSuccess;
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }
cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t) { return cudaSuccess; }
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) { return cudaDeviceGetDefaultMemPool(pool, 0); }
cudaError_t cudaMemPoolDestroy(cudaMemPool_t) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }  // freed memory goes back at once whatever it says
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void* value) {
    WMMADIAG_LOCKED;
    const bool used = attribute >= cudaMemPoolAttrReservedMemCurrent && attribute <= cudaMemPoolAttrUsedMemHigh;
    if (used) *static_cast<std::uint64_t*>(value) = memory().used;
    else if (attribute == cudaMemPoolAttrReleaseThreshold) *static_cast<std::uint64_t*>(value) = 0;
    else *static_cast<int*>(value) = 1;
    return status();
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, std::size_t) { return status(); }  // there is one device
cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t, cudaMemLocation*) {
    *flags = cudaMemAccessFlagsProtReadWrite;
    return status();
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return cudaSuccess; }

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* to, const void* pointer) {
    WMMADIAG_LOCKED;
    *to = {};
    to->type = cudaMemoryTypeUnregistered;
    to->device = -2;
    to->hostPointer = const_cast<void*>(pointer);
    const auto* one = allocation_at(pointer);
    if (one == nullptr) return cudaSuccess;
    to->device = 0;
    to->devicePointer = const_cast<void*>(pointer);
    to->type = one->kind == Kind::managed ? cudaMemoryTypeManaged : one->kind == Kind::pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    if (to->type == cudaMemoryTypeDevice) to->hostPointer = nullptr;
    return cudaSuccess;
}
cudaError_t cudaMemPrefetchAsync(const void* pointer, std::size_t bytes, cudaMemLocation, unsigned, cudaStream_t) {
    WMMADIAG_LOCKED;  // where managed memory lies is no difference here; that it is such memory is
    return device_bytes(pointer, bytes, Access::read, "cudaMemPrefetchAsync") != nullptr && allocation_at(pointer) != nullptr
               ? status()
               : failed(cudaErrorInvalidValue);
}
cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void* pointer, std::size_t, unsigned) {
    WMMADIAG_LOCKED;  // the host may look at managed memory at any time here
    const auto* one = allocation_at(pointer);
    return one != nullptr && one->kind == Kind::managed ? status() : failed(cudaErrorInvalidValue);
}
cudaError_t cudaMemAdvise(const void* pointer, std::size_t bytes, cudaMemoryAdvise, cudaMemLocation) {
    WMMADIAG_LOCKED;
    return device_bytes(pointer, bytes, Access::read, "cudaMemAdvise") != nullptr && allocation_at(pointer) != nullptr
               ? status()
               : failed(cudaErrorInvalidValue);
}

}  // extern "C"
