// The runtime behind a program's host half, inside: memory, streams, launches. A library (cuBLAS, …) is one more file beside this one
// that implements its functions on `device_bytes`, `submit` and `report`; docs/programs.md says how.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace wmmadiag {

// One lock for all state: a program may call the runtime from several threads. Recursive: callbacks call it again.
std::recursive_mutex& lock();
#define WMMADIAG_LOCKED const std::lock_guard wmmadiag_guard(::wmmadiag::lock())

// The user's call that is being served.
struct Here {
    const char* file = "";
    int line = 0;
    const char* text = "";  // its arguments as written
    std::size_t item = 1;   // bytes of an element, of an allocation
};
Here& here();

// Errors. `failed` remembers one for cudaGetLastError and returns it; after a fault every call returns the fault's.
cudaError_t failed(cudaError_t error);
// What this call is to return: an earlier fault, now seen by the host (`waits`: the call waits for the device), else success.
cudaError_t status(bool waits = false);
void fault(cudaError_t error);  // a launch died: seen by the host when it waits

// Tells the user something, at the call being served. `level`: "error" or "warning".
void report(const char* check, const char* kind, const char* level, const std::string& message, const std::string& hint = "",
            const std::string& other = "");
// The same of host code that no call has named: at the line of the innermost frame that is the program's.
void report_from(void* const* frames, int count, const char* check, const char* kind, const char* level, const std::string& message,
                 const std::string& hint, const std::string& other);

// Memory.
enum class Kind : std::uint32_t { device, managed, pinned, symbol, freed };

struct Pool;  // pools.cpp
struct Allocation {
    std::uint64_t address = 0;  // as the device and, where it may look, the host see it
    std::uint64_t size = 0;
    std::byte* view = nullptr;  // the same bytes, always open
    Kind kind = Kind::device;
    std::string name;  // "d_a, cudaMalloc at gemm.cu:31"
    const char* file = "";
    int line = 0;
    const char* text = "";  // the arguments of the call that made it, as written
    std::size_t item = 1;
    std::uint64_t version = 1;                       // changes with its contents
    std::uint64_t unwritten = 0;                     // how many of its bytes nothing has written
    std::uint32_t touched = 0;                       // by the launch that is running: 1 read, 2 written
    std::uint64_t content = 0, content_version = 0;  // a digest of its bytes, and of which version; 0: none yet
    bool adopted = false;                            // the host's own memory: mapped once, and not by this library
    int filled = -1;                                 // the byte that all of it holds, and since which version; -1: not known
    std::uint64_t filled_version = 0;
    std::byte* before = nullptr;  // its bytes before the launch that is running wrote to it, of memory that the host sees
    bool read_mostly = false;     // what the program has advised, and where to it fetched it last
    int preferred = cudaInvalidDeviceId, accessed_by = cudaInvalidDeviceId, prefetched = cudaInvalidDeviceId;
    bool of_graph = false;  // made by a node of a graph: it lives as long as that
    Pool* pool = nullptr;   // it comes from
    bool raced = false;     // host code and work that it had not waited for met in it, and that was told

    // A bit of each byte that something has written, behind its pages; they count while some are unwritten.
    [[nodiscard]] std::uint64_t* written() const;
    // The first stretch of [from, to) that nothing has written; {to, to}: there is none.
    [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> first_unwritten(std::uint64_t from, std::uint64_t to) const;
    void begin_unwritten();  // nothing has written any of it
    void count_unwritten();  // after a launch has set bits
};

// The allocation that holds an address, or nullptr.
Allocation* allocation_at(const void* pointer);
void* allocate(std::size_t bytes, Kind kind, const char* call);
bool release(void* pointer, Kind kind);
void wrote(const void* pointer, std::size_t bytes);
// Bytes were copied: what of the source means nothing means nothing there.
void wrote_copy(const void* to, const void* from, std::size_t bytes);

// Whether a launch touched its memory for the first time at this address: noted, and opened.
bool opened(const void* address, bool write);

// Whether the host may touch what cudaMalloc gives.
bool memory_is_open();

// Host address of device, managed, pinned or plain host memory that a call reads or writes; nullptr, after a report, where the
// stretch leaves its allocation or is no memory of the device's. `what` names the call: "cudaMemcpy".
enum class Access { read, write };
std::byte* device_bytes(const void* pointer, std::size_t bytes, Access access, const char* what);

// Whether an address is one that this library gives to memory, live or not.
bool device_address(const void* pointer);

// Runs work in a stream's order: at once (that is a legal order), or when the graph that is being captured is launched.
cudaError_t submit(cudaStream_t stream, std::function<cudaError_t()> work, cudaGraphNodeType type = cudaGraphNodeTypeKernel);
// The host has waited: for all of the device, or for the default stream alone.
void waited(bool all = true);
void waited_for(cudaStream_t stream);
bool several_streams();        // the program has made one
std::uint64_t instructions();  // warp instructions emulated so far, the clock of events
void flush_output();           // what device printf wrote, once the host has waited for it

// The device half.
struct KernelInfo {
    std::int32_t id = 0, count = 0, max_threads = 0;
    std::uint32_t cluster = 0;  // that it was compiled for, as `LaunchWay` has it
    std::uint64_t parameter_bytes = 0, static_shared = 0, local_bytes = 0, constant_bytes = 0;
    const std::uint32_t* offsets = nullptr;
    const std::uint32_t* sizes = nullptr;
    std::uint64_t body = 0;  // where the host's function of it begins; 0: of a module
    const char* name = "";   // mangled
};
inline dim3 unpacked(std::uint32_t cluster) { return {cluster & 255, cluster >> 8 & 255, cluster >> 16}; }
// How, besides: `cluster` has x + 256 y + 65536 z of a cluster of blocks, 0: as the kernel was compiled.
struct LaunchWay {
    bool cooperative = false;
    std::uint32_t cluster = 0;
    LaunchWay(bool cooperative = false) : cooperative(cooperative) {}  // NOLINT: the one that most launches need
    [[nodiscard]] dim3 in_cluster(const KernelInfo& kernel) const {
        const auto packed = cluster != 0 ? cluster : kernel.cluster;
        return packed == 0 ? dim3(1, 1, 1) : unpacked(packed);
    }
};
// What launch attributes of the runtime or the driver say (their names differ, their numbers do not).
template <class Config>
LaunchWay way_of(const Config& config) {
    LaunchWay way;
    for (unsigned i = 0; i < config.numAttrs; ++i) {
        cudaLaunchAttribute one;
        static_assert(sizeof one == sizeof config.attrs[i]);
        std::memcpy(&one, &config.attrs[i], sizeof one);
        const auto c = one.val.clusterDim;
        if (one.id == cudaLaunchAttributeCooperative) way.cooperative = one.val.cooperative != 0;
        if (one.id == cudaLaunchAttributeClusterDimension) way.cluster = c.x | c.y << 8 | c.z << 16;
    }
    return way;
}
// Launches a kernel; `arguments`: the addresses of its arguments.
cudaError_t launch(const KernelInfo& kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, cudaStream_t stream, LaunchWay way);
// The same as a piece of work that is yet to run; an error where the chip would refuse it.
cudaError_t prepared_launch(const KernelInfo& kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, LaunchWay way,
                            std::function<cudaError_t()>& work);
// Another address that stands for a kernel: the handle that the driver gives of it.
void known_by_handle(const void* handle, const KernelInfo& kernel);
// The kernel whose body holds an address.
cudaError_t kernel_at(const void* address, KernelInfo& to);
// cudaFuncAttributeMaxDynamicSharedMemorySize.
cudaError_t allow_shared(const KernelInfo& kernel, std::int64_t bytes);
// cudaFuncAttributeNonPortableClusterSizeAllowed: clusters of more than 8 blocks.
void allow_wide(const KernelInfo& kernel, bool allowed);
cudaFuncAttributes attributes_of(const KernelInfo& kernel);
// How many blocks of so many threads fit a multiprocessor.
int blocks_at_once(const KernelInfo& kernel, int threads, std::size_t shared);
struct LaunchRecord {
    std::int32_t kernel = 0;
    std::uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
    std::uint64_t shared = 0;
    const void* parameters = nullptr;
    std::uint64_t parameter_bytes = 0;
    const char* file = "";
    std::int32_t line = 0;
    std::uint32_t cluster = 0;  // as `LaunchWay` has it
    std::uint64_t stream = 0;   // whether there are several: then what it touches is to be told (`wmmadiag_touches`)
};
}  // namespace wmmadiag

extern "C" {
// What the process around this library provides.
struct WmmadiagHost {
    int (*kernel)(std::uint64_t address, wmmadiag::KernelInfo* info);                  // of a kernel's body; nonzero: a cudaError_t
    int (*launch)(const wmmadiag::LaunchRecord* launch, std::uint64_t* instructions);  // nonzero: the fault's cudaError_t
    int (*symbol)(std::uint64_t address, std::uint64_t* device, std::uint64_t* size);
    int (*module)(const char* ptx);  // a number for it, 0: it cannot be loaded
    int (*function)(int module, const char* name, wmmadiag::KernelInfo* info);
    int (*global)(int module, const char* name, std::uint64_t* device, std::uint64_t* size);
    std::int64_t (*property)(const char* name);  // of the device, as tables have it
    void (*finished)();                          // the program ends by itself
    int (*unsupported)(const char* why);         // the program cannot go on: what it does is not offered
    int findings;                                // descriptor that takes one JSON object a line
};
void wmmadiag_begin(const WmmadiagHost* host);
void wmmadiag_at(const char* file, int line, const char* text);
}

namespace wmmadiag {
const WmmadiagHost& host();
}
