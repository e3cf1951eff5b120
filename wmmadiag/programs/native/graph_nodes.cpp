// Nodes of graphs by one call for all types; memory of a graph's own.
#include "copies.hpp"
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

cudaError_t not_for_nodes(const char* function, const char* why, const char* hint) {
    report("launch", "unsupported", "error", std::string(function) + ": " + why, hint);
    return failed(cudaErrorNotSupported);
}

cudaKernelNodeParams kernel_of(const cudaGraphNodeParams& p) {
    cudaKernelNodeParams kernel{};
    kernel.func = p.kernel.func;
    kernel.gridDim = p.kernel.gridDim;
    kernel.blockDim = p.kernel.blockDim;
    kernel.sharedMemBytes = p.kernel.sharedMemBytes;
    kernel.kernelParams = p.kernel.kernelParams;
    kernel.extra = p.kernel.extra;
    return kernel;
}
cudaMemsetParams fill_of(const cudaGraphNodeParams& p) {
    return {p.memset.dst, p.memset.pitch, p.memset.value, p.memset.elementSize, p.memset.width, p.memset.height};
}

cudaError_t set_node(const char* function, Node* node, const cudaGraphNodeParams* p) {
    if (node == nullptr || p == nullptr || node->type != p->type) return failed(cudaErrorInvalidValue);
    switch (p->type) {
        case cudaGraphNodeTypeKernel: return set_kernel(*node, kernel_of(*p));
        case cudaGraphNodeTypeMemcpy: return changed(node, p->memcpy.copyParams);
        case cudaGraphNodeTypeMemset: return changed(node, fill_of(*p));
        case cudaGraphNodeTypeHost: return changed(node, cudaHostNodeParams{p->host.fn, p->host.userData});
        case cudaGraphNodeTypeGraph: return changed(node, graph_of(p->graph.graph)->copy());
        default: return not_for_nodes(function, "a node of this type is not emulated", "take a kernel, a copy, a fill, a host function or a graph");
    }
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
    if (one->kernel.func == nullptr)
        return not_for_nodes("cudaGraphKernelNodeGetParams", "the node launches a kernel of a module, or is a library's",
                             "ask for nodes of the program's own kernels");
    *p = one->kernel;
    p->kernelParams = one->addresses.data();
    return status();
}
cudaError_t cudaGraphAddNode(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, const cudaGraphEdgeData*, std::size_t count,
                             cudaGraphNodeParams* p) {
    WMMADIAG_LOCKED;
    if (p == nullptr) return failed(cudaErrorInvalidValue);
    if (p->type == cudaGraphNodeTypeEmpty) return added(to, graph, after, count, p->type, {});
    Node checked;
    checked.type = p->type;
    if (const auto error = set_node("cudaGraphAddNode", &checked, p); error != cudaSuccess) return error;
    const auto error = added(to, graph, after, count, p->type, {});
    return error != cudaSuccess ? error : set_node("cudaGraphAddNode", node_of(*to), p);
}

}  // extern "C"
