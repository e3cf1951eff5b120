// The device runtime's part for kernels that launch kernels, linked into a program that has some: what they launch is written down, and
// launched in that order once the grid is done (programs/nested.py). That is a legal order: no grid can wait for those that it launched.
#include <stdint.h>

namespace {

constexpr unsigned most = 2048;  // cudaLimitDevRuntimePendingLaunchCount
constexpr int no_memory = 2, too_many = 69, invalid_configuration = 9, invalid_value = 1;

struct Launch {
    unsigned long long kernel;
    unsigned grid[3], block[3];
    unsigned shared, turn;  // turn: which of all it is, from 1; 0: not launched
    unsigned long long stream;
    unsigned long long unused[10];
    unsigned char parameters[4096];
};
static_assert(sizeof(Launch) == 4224);

struct Three {
    unsigned x, y, z;
};

}  // namespace

// Given its place by the process around the program: how many were begun and launched, the last error, and what.
struct Launches {
    unsigned begun, turns, streams;
    int error;
    unsigned long long unused[14];
    Launch all[most];
};
extern __device__ Launches wmmadiag_launches;

namespace {
__device__ int refused(int error) {
    atomicExch(&wmmadiag_launches.error, error);
    return error;
}
__device__ Three blocks_of(unsigned long long bytes) { return {bytes < 65536 ? static_cast<unsigned>(bytes + 255) / 256 : 256, 1, 1}; }
}  // namespace

extern "C" {

// What copies and fills of kernels are: launches of these, by numbers of their own.
__global__ void wmmadiag_copied(char* to, const char* from, unsigned long long bytes) {
    for (auto i = blockIdx.x * 256ull + threadIdx.x; i < bytes; i += gridDim.x * 256ull) to[i] = from[i];
}
__global__ void wmmadiag_filled(char* to, int value, unsigned long long bytes) {
    for (auto i = blockIdx.x * 256ull + threadIdx.x; i < bytes; i += gridDim.x * 256ull) to[i] = static_cast<char>(value);
}

__device__ void* wmmadiag_GetParameterBufferV2(void* kernel, Three grid, Three block, unsigned shared) {
    const unsigned number = atomicAdd(&wmmadiag_launches.begun, 1u);
    if (number >= most) {
        refused(too_many);
        return nullptr;
    }
    Launch& one = wmmadiag_launches.all[number];
    one.kernel = reinterpret_cast<unsigned long long>(kernel);
    one.grid[0] = grid.x, one.grid[1] = grid.y, one.grid[2] = grid.z;
    one.block[0] = block.x, one.block[1] = block.y, one.block[2] = block.z;
    one.shared = shared;
    one.turn = 0;
    return one.parameters;
}
__device__ int wmmadiag_LaunchDeviceV2(void* parameters, unsigned long long stream) {
    if (parameters == nullptr) return too_many;
    Launch& one = *reinterpret_cast<Launch*>(static_cast<unsigned char*>(parameters) - 128);
    const auto threads = static_cast<unsigned long long>(one.block[0]) * one.block[1] * one.block[2];
    const auto blocks = static_cast<unsigned long long>(one.grid[0]) * one.grid[1] * one.grid[2];
    if (threads == 0 || threads > 1024 || blocks == 0) return refused(invalid_configuration);
    one.stream = stream;
    one.turn = 1 + atomicAdd(&wmmadiag_launches.turns, 1u);
    return 0;
}
__device__ int wmmadiag_GetLastError() { return atomicExch(&wmmadiag_launches.error, 0); }
__device__ int wmmadiag_PeekAtLastError() { return atomicAdd(&wmmadiag_launches.error, 0); }
__device__ int wmmadiag_StreamCreateWithFlags(unsigned long long* stream, unsigned) {
    if (stream == nullptr) return refused(invalid_value);
    *stream = 256 + atomicAdd(&wmmadiag_launches.streams, 1u);
    return 0;
}
// All that was launched runs in the order of the launches: whatever waits for what, it has been done.
__device__ int wmmadiag_StreamDestroy(unsigned long long) { return 0; }
__device__ int wmmadiag_StreamWaitEvent(unsigned long long, unsigned long long, unsigned) { return 0; }
__device__ int wmmadiag_EventCreateWithFlags(unsigned long long* event, unsigned flags) { return wmmadiag_StreamCreateWithFlags(event, flags); }
__device__ int wmmadiag_EventRecord(unsigned long long, unsigned long long) { return 0; }
__device__ int wmmadiag_EventDestroy(unsigned long long) { return 0; }
__device__ int wmmadiag_MemcpyAsync(void* to, const void* from, unsigned long long bytes, int, unsigned long long stream) {
    if (bytes == 0) return 0;
    auto* given = static_cast<unsigned long long*>(wmmadiag_GetParameterBufferV2(reinterpret_cast<void*>(1), blocks_of(bytes), Three{256, 1, 1}, 0));
    if (given == nullptr) return too_many;
    given[0] = reinterpret_cast<unsigned long long>(to);
    given[1] = reinterpret_cast<unsigned long long>(from);
    given[2] = bytes;
    return wmmadiag_LaunchDeviceV2(given, stream);
}
__device__ int wmmadiag_MemsetAsync(void* to, int value, unsigned long long bytes, unsigned long long stream) {
    if (bytes == 0) return 0;
    auto* given = static_cast<unsigned long long*>(wmmadiag_GetParameterBufferV2(reinterpret_cast<void*>(2), blocks_of(bytes), Three{256, 1, 1}, 0));
    if (given == nullptr) return too_many;
    given[0] = reinterpret_cast<unsigned long long>(to);
    given[1] = static_cast<unsigned>(value);
    given[2] = bytes;
    return wmmadiag_LaunchDeviceV2(given, stream);
}
__device__ int wmmadiag_Malloc(void** to, unsigned long long bytes) { return (*to = malloc(bytes)) != nullptr ? 0 : refused(no_memory); }
__device__ int wmmadiag_Free(void* memory) {
    free(memory);
    return 0;
}
__device__ int wmmadiag_GetDevice(int* device) { return *device = 0; }
__device__ int wmmadiag_GetDeviceCount(int* count) { return *count = 1, 0; }

}  // extern "C"
