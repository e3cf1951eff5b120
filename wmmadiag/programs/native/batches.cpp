// Copies and hints many at a time: one piece of work of their stream, whose parts nothing orders.
#include <vector>

#include "arrays.hpp"
#include "copies.hpp"
#include "ordering.hpp"

using namespace wmmadiag;

namespace {

// Which copies an attribute holds for: from each of these numbers on, the first of all.
bool covers(const std::size_t* begins, std::size_t ranges, std::size_t count) {
    if (count == 0 || ranges == 0 || ranges > count || begins == nullptr || begins[0] != 0) return false;
    for (std::size_t i = 1; i < ranges; ++i)
        if (begins[i] <= begins[i - 1]) return false;
    return begins[ranges - 1] < count;
}

// CUDA Runtime API: batches are taken by any stream but the legacy default one.
bool takes_batches(cudaStream_t stream) { return stream != nullptr && stream != cudaStreamLegacy; }

cudaError_t done_in(cudaStream_t stream, std::function<cudaError_t()> work) {
    if (const auto before = status(); before != cudaSuccess) return before;
    return submit(stream, std::move(work), cudaGraphNodeTypeMemcpy);
}

// An end of a copy of three dimensions, as `cudaMemcpy3DParms` has it.
void set_end(const cudaMemcpy3DOperand& from, const cudaExtent& extent, std::size_t element, cudaPitchedPtr& memory, cudaArray_t& array,
             cudaPos& at) {
    if (from.type == cudaMemcpyOperandTypeArray) {
        array = from.op.array.array;
        at = {from.op.array.offset.x, from.op.array.offset.y, from.op.array.offset.z};
        return;
    }
    const auto row = from.op.ptr.rowLength != 0 ? from.op.ptr.rowLength : extent.width;
    const auto rows_of_layer = from.op.ptr.layerHeight != 0 ? from.op.ptr.layerHeight : extent.height;
    memory = {from.op.ptr.ptr, row * element, row * element, rows_of_layer};
}

std::size_t element_of(const cudaMemcpy3DOperand& one) {
    const auto* array = one.type == cudaMemcpyOperandTypeArray ? array_at(one.op.array.array) : nullptr;
    return array != nullptr ? array->element : 1;
}

cudaMemcpy3DParms parameters_of(const cudaMemcpy3DBatchOp& op) {
    cudaMemcpy3DParms p{};
    const auto element = std::max(element_of(op.src), element_of(op.dst));
    const bool arrays = op.src.type == cudaMemcpyOperandTypeArray || op.dst.type == cudaMemcpyOperandTypeArray;
    set_end(op.src, op.extent, element, p.srcPtr, p.srcArray, p.srcPos);
    set_end(op.dst, op.extent, element, p.dstPtr, p.dstArray, p.dstPos);
    p.extent = {op.extent.width * (arrays ? 1 : element), op.extent.height, op.extent.depth};
    p.kind = cudaMemcpyDefault;
    return p;
}

// Pieces of managed memory, each taken by a function of its number.
template <class Each>
cudaError_t each_managed(void** pointers, const std::size_t* sizes, std::size_t count, const char* what, Each each) {
    if (pointers == nullptr || sizes == nullptr || count == 0) return failed(cudaErrorInvalidValue);
    for (std::size_t i = 0; i < count; ++i) {
        const auto* one = allocation_at(pointers[i]);
        if (device_bytes(pointers[i], sizes[i], Access::read, what) == nullptr || one == nullptr || one->kind != Kind::managed)
            return failed(cudaErrorInvalidValue);
        if (const auto error = each(i); error != cudaSuccess) return error;
    }
    return status();
}

cudaMemcpy3DParms between_devices(const cudaMemcpy3DPeerParms& p) {
    cudaMemcpy3DParms found{};
    found.srcArray = p.srcArray, found.srcPos = p.srcPos, found.srcPtr = p.srcPtr;
    found.dstArray = p.dstArray, found.dstPos = p.dstPos, found.dstPtr = p.dstPtr;
    found.extent = p.extent;
    found.kind = cudaMemcpyDefault;
    return found;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const std::size_t* sizes, std::size_t count,
                                 cudaMemcpyAttributes* attributes, std::size_t* begins, std::size_t ranges, cudaStream_t stream) {
    WMMADIAG_LOCKED;
    if (to == nullptr || from == nullptr || sizes == nullptr || attributes == nullptr || !covers(begins, ranges, count) || !takes_batches(stream))
        return failed(cudaErrorInvalidValue);
    for (std::size_t i = 0; i < ranges; ++i)
        if (attributes[i].srcAccessOrder < cudaMemcpySrcAccessOrderStream || attributes[i].srcAccessOrder > cudaMemcpySrcAccessOrderAny)
            return failed(cudaErrorInvalidValue);
    struct Copy {
        void* to;
        const void* from;
        std::size_t bytes;
    };
    std::vector<Copy> copies;
    for (std::size_t i = 0; i < count; ++i) copies.push_back({to[i], from[i], sizes[i]});
    return done_in(stream, [copies = std::move(copies)] {
        for (const auto& one : copies)
            if (const auto error = copy(one.to, one.from, one.bytes, cudaMemcpyDefault, "cudaMemcpyBatchAsync"); error != cudaSuccess) return error;
        return cudaSuccess;
    });
}
cudaError_t cudaMemcpy3DBatchAsync(std::size_t count, cudaMemcpy3DBatchOp* operations, unsigned long long flags, cudaStream_t stream) {
    WMMADIAG_LOCKED;
    if (count == 0 || operations == nullptr || flags != 0 || !takes_batches(stream)) return failed(cudaErrorInvalidValue);
    std::vector<cudaMemcpy3DParms> copies;
    for (std::size_t i = 0; i < count; ++i) copies.push_back(parameters_of(operations[i]));
    return done_in(stream, [copies = std::move(copies)] {
        for (const auto& one : copies)
            if (const auto error = copy3d(one, "cudaMemcpy3DBatchAsync"); error != cudaSuccess) return error;
        return cudaSuccess;
    });
}
cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* p) {
    if (p == nullptr || p->srcDevice != 0 || p->dstDevice != 0) return failed(cudaErrorInvalidValue);
    const auto found = between_devices(*p);
    return cudaMemcpy3D(&found);
}
cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
    if (p == nullptr || p->srcDevice != 0 || p->dstDevice != 0) return failed(cudaErrorInvalidValue);
    const auto found = between_devices(*p);
    return cudaMemcpy3DAsync(&found, stream);
}

// Where managed memory lies is no difference here; what was asked for is kept, as of single calls.
cudaError_t cudaMemPrefetchBatchAsync(void** pointers, std::size_t* sizes, std::size_t count, cudaMemLocation* places, std::size_t* begins,
                                      std::size_t ranges, unsigned long long flags, cudaStream_t stream) {
    WMMADIAG_LOCKED;
    if (places == nullptr || flags != 0 || !covers(begins, ranges, count) || !takes_batches(stream)) return failed(cudaErrorInvalidValue);
    std::size_t range = 0;
    return each_managed(pointers, sizes, count, "cudaMemPrefetchBatchAsync", [&](std::size_t i) {
        while (range + 1 < ranges && begins[range + 1] <= i) ++range;
        return cudaMemPrefetchAsync(pointers[i], sizes[i], places[range], 0, stream);
    });
}
// Managed memory, whose bytes the host may write unseen: that they mean nothing until somebody does is not followed.
cudaError_t cudaMemDiscardBatchAsync(void** pointers, std::size_t* sizes, std::size_t count, unsigned long long flags, cudaStream_t stream) {
    WMMADIAG_LOCKED;
    if (flags != 0 || !takes_batches(stream)) return failed(cudaErrorInvalidValue);
    return each_managed(pointers, sizes, count, "cudaMemDiscardBatchAsync", [](std::size_t) { return cudaSuccess; });
}
cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void** pointers, std::size_t* sizes, std::size_t count, cudaMemLocation* places, std::size_t* begins,
                                                std::size_t ranges, unsigned long long flags, cudaStream_t stream) {
    return cudaMemPrefetchBatchAsync(pointers, sizes, count, places, begins, ranges, flags, stream);
}

}  // extern "C"
