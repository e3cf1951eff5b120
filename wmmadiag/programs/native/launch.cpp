// Launches: the arguments of a kernel's body are packed as the device takes them, and go to the emulator.
#include <dlfcn.h>
#include <execinfo.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "configured.hpp"
#include "ending.hpp"
#include "graph.hpp"

namespace wmmadiag {

namespace {

std::uint64_t executed = 0;
std::string printed;

std::map<std::uint64_t, KernelInfo>& kernels() {
    static auto* known = new std::map<std::uint64_t, KernelInfo>;
    return *known;
}
struct Allowed {
    std::uint64_t shared = 48 * 1024;
    bool wide = false;
};
// By the kernel, not by the address: a body is met by its return address, and by its own.
Allowed& allowed(const KernelInfo& kernel) {
    static auto* known = new std::map<std::int32_t, Allowed>;
    return (*known)[kernel.id];
}

// The kernel whose body holds an address, which is to be launched.
cudaError_t launched_at(const void* function, KernelInfo& kernel) {
    const auto error = kernel_at(function, kernel);
    if (error == cudaErrorInvalidDeviceFunction && function != nullptr) {
        Dl_info info{};
        const bool named = dladdr(function, &info) != 0 && info.dli_sname != nullptr;
        no_kernel({{}, {}, 0, nullptr, here().file, here().line, named ? info.dli_sname : "a function"});
    }
    return error;
}

std::int64_t registers_of(const KernelInfo& kernel) { return host().property(("registers:" + std::to_string(kernel.id)).c_str()); }

std::uint64_t& limit_of(const KernelInfo& kernel) { return allowed(kernel).shared; }

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
cudaError_t launchable(const KernelInfo& kernel, dim3 grid, dim3 block, std::size_t shared, LaunchWay way) {
    const auto property = [](const char* name) { return static_cast<std::uint64_t>(host().property(name)); };
    const auto threads = std::uint64_t{block.x} * block.y * block.z;
    const auto refused = [](cudaError_t error, const std::string& why, const std::string& hint) {
        report("launch", "refused", "error", why, hint);
        return failed(error);
    };
    const auto shape = [](dim3 d) { return std::to_string(d.x) + " × " + std::to_string(d.y) + " × " + std::to_string(d.z); };
    if (threads == 0 || grid.x == 0 || grid.y == 0 || grid.z == 0)
        return refused(cudaErrorInvalidConfiguration, "a launch of " + shape(grid) + " blocks of " + shape(block) + " threads: nothing is launched",
                       "every extent must be 1 or more");
    if (threads > property("maxThreadsPerBlock") || block.x > 1024 || block.y > 1024 || block.z > 64)
        return refused(cudaErrorInvalidConfiguration,
                       "a block of " + shape(block) + " = " + std::to_string(threads) + " threads; the device takes 1024, and 64 along z",
                       "launch smaller blocks");
    if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
        return refused(cudaErrorInvalidConfiguration, "a grid of " + shape(grid) + " blocks; y and z may be 65535 at most",
                       "put the long extent into x");
    if (kernel.max_threads != 0 && threads > static_cast<std::uint64_t>(kernel.max_threads))
        return refused(
            cudaErrorInvalidConfiguration,
            "a block of " + std::to_string(threads) + " threads; __launch_bounds__ of the kernel allow " + std::to_string(kernel.max_threads),
            "launch smaller blocks, or raise __launch_bounds__");
    if (shared > limit_of(kernel) || shared + kernel.static_shared > property("sharedMemPerBlockOptin"))
        return refused(cudaErrorInvalidValue,
                       std::to_string(shared) + " bytes of dynamic shared memory; the kernel may use " + std::to_string(limit_of(kernel)),
                       shared + kernel.static_shared > property("sharedMemPerBlockOptin")
                           ? "the device has " + std::to_string(property("sharedMemPerBlockOptin")) + " bytes for a block: use smaller tiles"
                           : "call cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) first");
    const auto cluster = way.in_cluster(kernel);
    const auto blocks_of = [](dim3 c) { return std::to_string(std::uint64_t{c.x} * c.y * c.z); };
    if (kernel.cluster != 0 && way.cluster != 0 && way.cluster != kernel.cluster)
        return refused(cudaErrorInvalidClusterSize,
                       "a cluster of " + blocks_of(cluster) + " blocks; the kernel was compiled for " + blocks_of(unpacked(kernel.cluster)),
                       "leave cudaLaunchAttributeClusterDimension out, or __cluster_dims__");
    if (const auto blocks = std::uint64_t{cluster.x} * cluster.y * cluster.z; blocks == 0 || blocks > (allowed(kernel).wide ? 16 : 8))
        return refused(cudaErrorInvalidClusterSize, "a cluster of " + blocks_of(cluster) + " blocks",
                       "a cluster has 8 blocks at most, or 16 after cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1)");
    if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0)
        return refused(cudaErrorInvalidClusterSize, "a grid of " + shape(grid) + " blocks in clusters of " + shape(cluster),
                       "make the grid a multiple of the cluster in each direction");
    if (way.cooperative) {
        const auto blocks = std::uint64_t{grid.x} * grid.y * grid.z;
        const auto fit = std::max<std::uint64_t>(property("maxThreadsPerMultiProcessor") / ((threads + 31) / 32 * 32), 1);
        const auto most = fit * property("multiProcessorCount");
        if (blocks > most)
            return refused(cudaErrorCooperativeLaunchTooLarge,
                           std::to_string(blocks) + " blocks in a cooperative launch; " + std::to_string(most) + " fit the device at once",
                           "ask cudaOccupancyMaxActiveBlocksPerMultiprocessor for the grid's size");
    }
    return cudaSuccess;
}

}  // namespace

void known_by_handle(const void* handle, const KernelInfo& kernel) { kernels()[reinterpret_cast<std::uint64_t>(handle)] = kernel; }

cudaError_t kernel_at(const void* address, KernelInfo& to) {
    const auto key = reinterpret_cast<std::uint64_t>(address);
    const auto found = kernels().find(key);
    if (found != kernels().end()) {
        to = found->second;
        return cudaSuccess;
    }
    KernelInfo info;
    const auto error = static_cast<cudaError_t>(host().kernel(key, &info));
    if (error != cudaSuccess) return failed(error);
    kernels()[key] = to = info;
    return cudaSuccess;
}

cudaError_t prepared_launch(const KernelInfo& kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, LaunchWay way,
                            std::function<cudaError_t()>& work) {
    if (const auto before = status(); before != cudaSuccess) return before;
    if (const auto error = launchable(kernel, grid, block, shared, way); error != cudaSuccess) return error;
    std::vector<std::byte> packed(kernel.parameter_bytes);
    for (int i = 0; i < kernel.count; ++i) std::memcpy(packed.data() + kernel.offsets[i], arguments[i], kernel.sizes[i]);
    work = [=, parameters = std::move(packed)] {
        if (status() != cudaSuccess) return status();
        LaunchRecord record;
        record.kernel = kernel.id;
        const unsigned g[] = {grid.x, grid.y, grid.z}, b[] = {block.x, block.y, block.z};
        std::memcpy(record.grid, g, sizeof g);
        std::memcpy(record.block, b, sizeof b);
        record.shared = shared;
        record.parameters = parameters.data();
        record.parameter_bytes = parameters.size();
        record.file = here().file;
        record.line = here().line;
        record.cluster = way.cluster;
        record.stream = several_streams() ? 1 : 0;
        std::uint64_t count = 0;
        const auto error = static_cast<cudaError_t>(host().launch(&record, &count));
        executed += count;
        computed();
        if (error != cudaSuccess) fault(error);
        return cudaSuccess;  // the host learns of it when it waits
    };
    return cudaSuccess;
}

cudaError_t launch(const KernelInfo& kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, cudaStream_t stream, LaunchWay way) {
    std::function<cudaError_t()> work;
    if (const auto error = prepared_launch(kernel, grid, block, arguments, shared, way, work); error != cudaSuccess) return error;
    const auto error = submit(stream, std::move(work), cudaGraphNodeTypeKernel);
    if (auto* node = captured_node(stream); node != nullptr && error == cudaSuccess) describe(*node, kernel, grid, block, arguments, shared, way);
    return error;
}

cudaError_t allow_shared(const KernelInfo& kernel, std::int64_t bytes) {
    if (bytes < 0 || bytes + static_cast<std::int64_t>(kernel.static_shared) > host().property("sharedMemPerBlockOptin"))
        return failed(cudaErrorInvalidValue);
    limit_of(kernel) = static_cast<std::uint64_t>(bytes);
    return status();
}

void allow_wide(const KernelInfo& kernel, bool wide) { allowed(kernel).wide = wide; }

cudaFuncAttributes attributes_of(const KernelInfo& kernel) {
    cudaFuncAttributes found{};
    found.sharedSizeBytes = kernel.static_shared;
    found.constSizeBytes = kernel.constant_bytes;
    found.localSizeBytes = kernel.local_bytes;
    found.maxThreadsPerBlock = kernel.max_threads != 0 ? kernel.max_threads : 1024;
    found.numRegs = static_cast<int>(registers_of(kernel));
    found.ptxVersion = found.binaryVersion = static_cast<int>(host().property("major") * 10 + host().property("minor"));
    found.maxDynamicSharedSizeBytes = static_cast<int>(limit_of(kernel));
    found.clusterDimMustBeSet = kernel.cluster != 0 ? 1 : 0;
    const auto cluster = unpacked(kernel.cluster);
    found.requiredClusterWidth = static_cast<int>(cluster.x);
    found.requiredClusterHeight = static_cast<int>(cluster.y);
    found.requiredClusterDepth = static_cast<int>(cluster.z);
    found.nonPortableClusterSizeAllowed = allowed(kernel).wide ? 1 : 0;
    return found;
}

// CUDA occupancy calculator: what the limits of a multiprocessor allow.
int blocks_at_once(const KernelInfo& kernel, int threads, std::size_t shared) {
    const auto warps = (threads + 31) / 32;
    auto most = std::min(host().property("maxBlocksPerMultiProcessor"), host().property("maxThreadsPerMultiProcessor") / 32 / warps);
    const auto each = static_cast<std::int64_t>(kernel.static_shared + shared) + host().property("reservedSharedMemPerBlock");
    if (each > 0) most = std::min(most, host().property("sharedMemPerMultiprocessor") / each);
    if (const auto registers = registers_of(kernel); registers > 0) {
        const auto of_warp = (registers * 32 + 255) / 256 * 256;  // allocated by 256 registers a warp
        most = std::min(most, host().property("regsPerMultiprocessor") / of_warp / warps);
    }
    if (threads > (kernel.max_threads != 0 ? kernel.max_threads : 1024)) most = 0;
    return static_cast<int>(most);
}

std::uint64_t instructions() { return executed; }

void flush_output() {
    if (printed.empty()) return;
    std::fwrite(printed.data(), 1, printed.size(), stdout);
    printed.clear();
}

}  // namespace wmmadiag

using namespace wmmadiag;

extern "C" {

void wmmadiag_printed(const char* text, std::uint64_t bytes) { printed.append(text, bytes); }

void wmmadiag_stub(void** arguments) {
    auto* how = awaited();
    static const Configured none{{}, {}, 0, nullptr, "", 0, "a function", true, nullptr};
    WMMADIAG_LOCKED;
    KernelInfo kernel;
    if (kernel_at(__builtin_return_address(0), kernel) != cudaSuccess) return no_kernel(how != nullptr ? *how : none);
    if (how == nullptr) {
        void* frames[16];
        const int count = backtrace(frames, 16);
        static std::set<std::vector<void*>> told;  // once for each way there: a benchmark calls it a thousand times
        if (told.insert({frames, frames + count}).second) {
            report_from(frames, count, "launch", "called", "error", "a kernel is called as a function is: nothing is launched",
                        "say how: kernel<<<grid, block>>>(…)", "");
        }
        failed(cudaErrorMissingConfiguration);
        return;
    }
    how->taken = true;
    wmmadiag_at(how->file, how->line, "");  // its arguments may have called the runtime
    launch(kernel, how->grid, how->block, arguments, how->shared, how->stream, false);
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared, cudaStream_t stream) {
    WMMADIAG_LOCKED;
    KernelInfo kernel;
    if (const auto error = launched_at(function, kernel); error != cudaSuccess) return error;
    return launch(kernel, grid, block, arguments, shared, stream, false);
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared, cudaStream_t stream) {
    WMMADIAG_LOCKED;
    KernelInfo kernel;
    if (const auto error = launched_at(function, kernel); error != cudaSuccess) return error;
    return launch(kernel, grid, block, arguments, shared, stream, true);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
    WMMADIAG_LOCKED;
    KernelInfo kernel;
    if (const auto error = launched_at(function, kernel); error != cudaSuccess) return error;
    return launch(kernel, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream, way_of(*config));
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
    WMMADIAG_LOCKED;
    KernelInfo kernel;
    if (const auto error = kernel_at(function, kernel); error != cudaSuccess) return error;
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        return allow_shared(kernel, value);
    } else if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) {
        allow_wide(kernel, value != 0);
    } else if (attribute != cudaFuncAttributePreferredSharedMemoryCarveout && attribute != cudaFuncAttributeClusterSchedulingPolicyPreference) {
        return failed(cudaErrorNotSupported);
    }
    return status();
}
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return status(); }  // a preference, without effect on results
cudaError_t cudaFuncSetSharedMemConfig(const void*, cudaSharedMemConfig) { return status(); }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, const void* function) {
    WMMADIAG_LOCKED;
    KernelInfo kernel;
    if (const auto error = kernel_at(function, kernel); error != cudaSuccess) return error;
    *to = attributes_of(kernel);
    return status();
}
cudaError_t cudaFuncGetName(const char** name, const void* function) {
    WMMADIAG_LOCKED;
    KernelInfo kernel;
    if (name == nullptr) return failed(cudaErrorInvalidValue);
    if (const auto error = kernel_at(function, kernel); error != cudaSuccess) return error;
    *name = kernel.name;
    return status();
}
cudaError_t cudaFuncGetParamInfo(const void* function, std::size_t index, std::size_t* offset, std::size_t* size) {
    WMMADIAG_LOCKED;
    KernelInfo kernel;
    if (const auto error = kernel_at(function, kernel); error != cudaSuccess) return error;
    if (index >= static_cast<std::size_t>(kernel.count) || offset == nullptr) return failed(cudaErrorInvalidValue);
    *offset = kernel.offsets[index];
    if (size != nullptr) *size = kernel.sizes[index];
    return status();
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads, std::size_t shared, unsigned) {
    WMMADIAG_LOCKED;
    KernelInfo kernel;
    if (const auto error = kernel_at(function, kernel); error != cudaSuccess) return error;
    if (threads < 1) return failed(cudaErrorInvalidValue);
    *blocks = blocks_at_once(kernel, threads, shared);
    return status();
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads, std::size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function, const cudaLaunchConfig_t* config) {
    WMMADIAG_LOCKED;
    KernelInfo kernel;
    if (const auto error = kernel_at(function, kernel); error != cudaSuccess) return error;
    const auto in = way_of(*config).in_cluster(kernel), block = config->blockDim;
    const auto at_once = blocks_at_once(kernel, static_cast<int>(block.x * block.y * block.z), config->dynamicSmemBytes);
    *clusters = static_cast<int>(host().property("multiProcessorCount") * at_once / std::max(in.x * in.y * in.z, 1u));
    return status();
}
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, const void*, const cudaLaunchConfig_t*) {
    *blocks = 8;
    return status();
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* function, int blocks, int) {
    WMMADIAG_LOCKED;
    KernelInfo kernel;
    if (const auto error = kernel_at(function, kernel); error != cudaSuccess) return error;
    if (blocks < 1) return failed(cudaErrorInvalidValue);
    const auto each = host().property("sharedMemPerMultiprocessor") / blocks - host().property("reservedSharedMemPerBlock");
    const auto most = std::min(each, host().property("sharedMemPerBlockOptin")) - static_cast<std::int64_t>(kernel.static_shared);
    *bytes = static_cast<std::size_t>(std::max<std::int64_t>(most, 0));
    return status();
}

}  // extern "C"
