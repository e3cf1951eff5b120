// Values in memory that streams write and wait for: the driver's other way to order them.
#include <cuda.h>

#include <cstring>
#include <map>

#include "driver.hpp"
#include "graph.hpp"
#include "ordering.hpp"

using namespace wmmadiag;

namespace {

constexpr auto value_node = static_cast<cudaGraphNodeType>(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);

// What came before a stream wrote the value that an address holds.
struct Released {
    std::uint64_t value;
    Clock clock;
};
std::map<CUdeviceptr, Released>& released_values() {
    static auto* known = new std::map<CUdeviceptr, Released>;
    return *known;
}

cudaError_t write_value(CUdeviceptr at, std::uint64_t value, std::size_t bytes, const char* what) {
    auto* to = device_bytes(pointer(at), bytes, Access::write, what);
    if (to == nullptr) return failed(cudaErrorInvalidValue);
    called(what);
    touches(pointer(at), bytes, Touch::atomic);
    std::memcpy(to, &value, bytes);
    wrote(pointer(at), bytes);
    released_values()[at] = {value, comes_before()};
    return cudaSuccess;
}

bool satisfied(std::uint64_t held, std::uint64_t value, std::size_t bytes, unsigned how) {
    const auto whole = bytes == 8 ? ~std::uint64_t{0} : 0xffffffffu;
    switch (how & 3) {
        case CU_STREAM_WAIT_VALUE_GEQ: return ((held - value) & whole) <= whole >> 1;
        case CU_STREAM_WAIT_VALUE_EQ: return held == value;
        case CU_STREAM_WAIT_VALUE_AND: return (held & value) != 0;
        default: return (~(held | value) & whole) != 0;
    }
}

cudaError_t wait_for_value(CUdeviceptr at, std::uint64_t value, std::size_t bytes, unsigned how, const char* what) {
    const auto* from = device_bytes(pointer(at), bytes, Access::read, what);
    if (from == nullptr) return failed(cudaErrorInvalidValue);
    called(what);
    std::uint64_t held = 0;
    std::memcpy(&held, from, bytes);
    if (!satisfied(held, value, bytes, how)) {
        report("launch", "unsupported", "error", std::string(what) + ": the stream waits for a value that nothing submitted so far writes",
               "work runs here when it is submitted: submit what writes the value before what waits for it");
        return failed(cudaErrorNotSupported);
    }
    const auto known = released_values().find(at);
    // What another than a stream wrote, a kernel or the host, may come after all there was.
    comes_after(known != released_values().end() && known->second.value == held ? known->second.clock : submitted());
    touches(pointer(at), bytes, Touch::read);
    return cudaSuccess;
}

bool may_hold(CUdeviceptr at, std::size_t bytes) { return at % bytes == 0 && allocation_at(pointer(at)) != nullptr; }

CUresult values_in(CUstream stream, std::function<cudaError_t()> work) {
    if (const auto before = status(); before != cudaSuccess) return result(before);
    return result(submit(stream, std::move(work), value_node));
}

CUresult written_in(CUstream stream, CUdeviceptr at, std::uint64_t value, std::size_t bytes, unsigned flags, const char* what) {
    WMMADIAG_LOCKED;
    if (!may_hold(at, bytes) || (flags & ~CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) != 0) return CUDA_ERROR_INVALID_VALUE;
    return values_in(stream, [=] { return write_value(at, value, bytes, what); });
}
CUresult waited_in(CUstream stream, CUdeviceptr at, std::uint64_t value, std::size_t bytes, unsigned flags, const char* what) {
    WMMADIAG_LOCKED;
    if (!may_hold(at, bytes) || (flags & ~(3u | static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH))) != 0) return CUDA_ERROR_INVALID_VALUE;
    return values_in(stream, [=] { return wait_for_value(at, value, bytes, flags, what); });
}

}  // namespace

extern "C" {

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags) {
    return written_in(stream, at, value, 4, flags, "cuStreamWriteValue32");
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags) {
    return written_in(stream, at, value, 8, flags, "cuStreamWriteValue64");
}
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags) {
    return waited_in(stream, at, value, 4, flags, "cuStreamWaitValue32");
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags) {
    return waited_in(stream, at, value, 8, flags, "cuStreamWaitValue64");
}
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags) {
    WMMADIAG_LOCKED;
    if (count == 0 || operations == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i) {
        const auto &one = operations[i], *p = &operations[i];
        auto error = CUDA_SUCCESS;
        switch (one.operation) {
            case CU_STREAM_MEM_OP_WRITE_VALUE_32:
                error = cuStreamWriteValue32_v2(stream, p->writeValue.address, p->writeValue.value, p->writeValue.flags);
                break;
            case CU_STREAM_MEM_OP_WRITE_VALUE_64:
                error = cuStreamWriteValue64_v2(stream, p->writeValue.address, p->writeValue.value64, p->writeValue.flags);
                break;
            case CU_STREAM_MEM_OP_WAIT_VALUE_32:
                error = cuStreamWaitValue32_v2(stream, p->waitValue.address, p->waitValue.value, p->waitValue.flags);
                break;
            case CU_STREAM_MEM_OP_WAIT_VALUE_64:
                error = cuStreamWaitValue64_v2(stream, p->waitValue.address, p->waitValue.value64, p->waitValue.flags);
                break;
            case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
            case CU_STREAM_MEM_OP_BARRIER: break;  // work of a stream is done here once the next begins
            default:
                report("launch", "unsupported", "error", "cuStreamBatchMemOp: an operation of this kind is not emulated",
                       "take values that are written and waited for, flushes and barriers");
                return CUDA_ERROR_NOT_SUPPORTED;
        }
        if (error != CUDA_SUCCESS) return error;
    }
    return CUDA_SUCCESS;
}

}  // extern "C"
