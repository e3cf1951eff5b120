// Memory of a graph's own, and what a node of a kernel launches.
#include "graph_calls.hpp"
#include "memory.hpp"

using namespace wmmadiag;

namespace {

// Memory that goes with the last graph that holds it.
std::shared_ptr<void> held_memory(void* memory) {
    return {memory, [](void* gone) {
                auto* one = allocation_at(gone);
                if (one == nullptr) return;
                one->of_graph = false;
                release(gone, Kind::device);
            }};
}

// Memory of a graph's own lives as long as it; what an earlier run left in it counts for nothing.
cudaError_t renewed(void* memory) {
    if (auto* one = allocation_at(memory)) one->begin_unwritten();
    return cudaSuccess;
}

}  // namespace

namespace wmmadiag {

cudaError_t allocate_in_graph(Capture& capture, cudaStream_t stream, void** pointer, std::size_t bytes) {
    *pointer = allocate(bytes, memory().open ? Kind::managed : Kind::device, "cudaMallocAsync");
    if (*pointer == nullptr) return failed(cudaErrorMemoryAllocation);
    void* made = *pointer;
    allocation_at(made)->of_graph = true;
    capture.graph->held.push_back(held_memory(made));
    return submit(stream, [made] { return renewed(made); }, cudaGraphNodeTypeMemAlloc);
}

cudaError_t free_in_graph(cudaStream_t stream, void* pointer) {
    return submit(
        stream,
        [pointer] {
            const auto* one = allocation_at(pointer);
            return one != nullptr && one->of_graph ? renewed(pointer) : release(pointer, Kind::device) ? cudaSuccess : failed(cudaErrorInvalidValue);
        },
        cudaGraphNodeTypeMemFree);
}

}  // namespace wmmadiag

extern "C" {

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* p) {
    WMMADIAG_LOCKED;
    auto* one = node_of(node);
    if (one == nullptr || p == nullptr || one->type != cudaGraphNodeTypeKernel) return failed(cudaErrorInvalidValue);
    if (one->kernel.func == nullptr) {
        report("launch", "unsupported", "error", "cudaGraphKernelNodeGetParams: the node launches a kernel of a module, or is a library's",
               "ask for nodes of the program's own kernels");
        return failed(cudaErrorNotSupported);
    }
    *p = one->kernel;
    p->kernelParams = one->addresses.data();
    return status();
}

}  // extern "C"
