// Nodes of graphs: what they do, asked and changed by their type; nodes of memory; objects of the program's that a graph keeps.
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

// What was kept of a node of that type.
template <class Params>
cudaError_t kept_of(cudaGraphNode_t node, cudaGraphNodeType type, Params Node::* member, Params* to) {
    if (node == nullptr || to == nullptr || node_of(node)->type != type) return failed(cudaErrorInvalidValue);
    *to = node_of(node)->*member;
    return status();
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
        case cudaGraphNodeTypeEventRecord: return changed(node, p->eventRecord.event);
        case cudaGraphNodeTypeWaitEvent: return changed(node, p->eventWait.event);
        default:
            return not_for_nodes(function, "a node of this type cannot be changed here",
                                 "take a kernel, a copy, a fill, a host function, an event or a graph");
    }
}

// Memory of a graph's own lives as long as it; what an earlier run left in it counts for nothing.
cudaError_t renewed(void* memory) {
    if (auto* one = allocation_at(memory)) one->begin_unwritten();
    return cudaSuccess;
}

struct UserObject {
    void* object;
    cudaHostFn_t destroy;
    unsigned references;
};
UserObject* object_of(cudaUserObject_t object) { return reinterpret_cast<UserObject*>(object); }
void released(UserObject* one, unsigned count) {
    one->references -= count < one->references ? count : one->references;
    if (one->references != 0) return;
    one->destroy(one->object);
    delete one;
}

}  // namespace

namespace wmmadiag {

cudaError_t allocate_in_graph(Capture& capture, cudaStream_t stream, void** pointer, std::size_t bytes) {
    *pointer = allocate(bytes, memory().open ? Kind::managed : Kind::device, "cudaMallocAsync");
    if (*pointer == nullptr) return failed(cudaErrorMemoryAllocation);
    void* made = *pointer;
    allocation_at(made)->of_graph = true;
    capture.graph->held.push_back(held_memory(made));
    const auto error = submit(stream, [made] { return renewed(made); }, cudaGraphNodeTypeMemAlloc);
    auto& known = captured_node(stream)->allocation;
    known.bytesize = bytes;
    known.dptr = made;
    return error;
}

cudaError_t free_in_graph(cudaStream_t stream, void* pointer) {
    const auto error = submit(
        stream,
        [pointer] {
            const auto* one = allocation_at(pointer);
            return one != nullptr && one->of_graph ? renewed(pointer) : release(pointer, Kind::device) ? cudaSuccess : failed(cudaErrorInvalidValue);
        },
        cudaGraphNodeTypeMemFree);
    captured_node(stream)->allocation.dptr = pointer;
    return error;
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
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* p) {
    WMMADIAG_LOCKED;
    return kept_of(node, cudaGraphNodeTypeMemcpy, &Node::copied, p);
}
cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* p) {
    WMMADIAG_LOCKED;
    return kept_of(node, cudaGraphNodeTypeMemset, &Node::filled, p);
}
cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* p) {
    WMMADIAG_LOCKED;
    return kept_of(node, cudaGraphNodeTypeHost, &Node::called, p);
}
cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* p) {
    WMMADIAG_LOCKED;
    return kept_of(node, cudaGraphNodeTypeMemAlloc, &Node::allocation, p);
}
cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* pointer) {
    WMMADIAG_LOCKED;
    cudaMemAllocNodeParams p{};
    const auto error = kept_of(node, cudaGraphNodeTypeMemFree, &Node::allocation, &p);
    if (error == cudaSuccess) *static_cast<void**>(pointer) = p.dptr;
    return error;
}
cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* to) {
    WMMADIAG_LOCKED;
    if (node == nullptr || node_of(node)->child == nullptr) return failed(cudaErrorInvalidValue);
    *to = handle_of(node_of(node)->child);
    return status();
}
cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node, cudaGraph_t child) {
    WMMADIAG_LOCKED;
    return changed(graph_of(graph)->copy_of(node_of(node)), graph_of(child)->copy());
}
cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                                                 cudaMemcpyKind kind) {
    WMMADIAG_LOCKED;
    return changed(node_of(node), [=] { return copy_to_symbol(symbol, from, bytes, offset, kind); });
}
cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                                   cudaMemcpyKind kind) {
    WMMADIAG_LOCKED;
    return changed(node_of(node), [=] { return copy_from_symbol(to, symbol, bytes, offset, kind); });
}
cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t graph, cudaGraphNode_t node, const void* symbol, const void* from,
                                                     std::size_t bytes, std::size_t offset, cudaMemcpyKind kind) {
    WMMADIAG_LOCKED;
    return changed(graph_of(graph)->copy_of(node_of(node)), [=] { return copy_to_symbol(symbol, from, bytes, offset, kind); });
}
cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t graph, cudaGraphNode_t node, void* to, const void* symbol, std::size_t bytes,
                                                       std::size_t offset, cudaMemcpyKind kind) {
    WMMADIAG_LOCKED;
    return changed(graph_of(graph)->copy_of(node_of(node)), [=] { return copy_from_symbol(to, symbol, bytes, offset, kind); });
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, const cudaGraphEdgeData*, std::size_t count,
                             cudaGraphNodeParams* p) {
    WMMADIAG_LOCKED;
    if (p == nullptr) return failed(cudaErrorInvalidValue);
    if (p->type == cudaGraphNodeTypeEmpty) return added(to, graph, after, count, p->type, {});
    if (p->type == cudaGraphNodeTypeMemAlloc) {
        cudaMemAllocNodeParams asked{};
        asked.bytesize = p->alloc.bytesize;
        const auto error = cudaGraphAddMemAllocNode(to, graph, after, count, &asked);
        p->alloc.dptr = asked.dptr;
        return error;
    }
    if (p->type == cudaGraphNodeTypeMemFree) return cudaGraphAddMemFreeNode(to, graph, after, count, p->free.dptr);
    Node checked;
    checked.type = p->type;
    if (const auto error = set_node("cudaGraphAddNode", &checked, p); error != cudaSuccess) return error;
    const auto error = added(to, graph, after, count, p->type, {});
    return error != cudaSuccess ? error : set_node("cudaGraphAddNode", node_of(*to), p);
}
cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* p) {
    WMMADIAG_LOCKED;
    return set_node("cudaGraphNodeSetParams", node_of(node), p);
}
cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node, cudaGraphNodeParams* p) {
    WMMADIAG_LOCKED;
    return set_node("cudaGraphExecNodeSetParams", graph_of(graph)->copy_of(node_of(node)), p);
}
cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count,
                                     cudaMemAllocNodeParams* p) {
    WMMADIAG_LOCKED;
    if (p == nullptr || p->bytesize == 0) return failed(cudaErrorInvalidValue);
    p->dptr = allocate(p->bytesize, memory().open ? Kind::managed : Kind::device, "a graph's allocation");
    if (p->dptr == nullptr) return failed(cudaErrorMemoryAllocation);
    void* made = p->dptr;
    allocation_at(made)->of_graph = true;
    graph_of(graph)->held.push_back(held_memory(made));
    const auto error = added(to, graph, after, count, cudaGraphNodeTypeMemAlloc, [made] { return renewed(made); });
    if (error == cudaSuccess) node_of(*to)->allocation = *p;
    return error;
}
cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count, void* memory) {
    WMMADIAG_LOCKED;
    if (allocation_at(memory) == nullptr) return failed(cudaErrorInvalidValue);
    const auto error = added(to, graph, after, count, cudaGraphNodeTypeMemFree, [memory] { return renewed(memory); });
    if (error == cudaSuccess) node_of(*to)->allocation.dptr = memory;
    return error;
}
cudaError_t cudaDeviceGraphMemTrim(int) { return status(); }
cudaError_t cudaDeviceSetGraphMemAttribute(int, cudaGraphMemAttributeType, void*) { return status(); }
cudaError_t cudaDeviceGetGraphMemAttribute(int, cudaGraphMemAttributeType, void* value) {
    WMMADIAG_LOCKED;
    std::uint64_t bytes = 0;
    for (const auto& [address, one] : memory().live) bytes += one->of_graph ? one->size : 0;
    *static_cast<std::uint64_t*>(value) = bytes;
    return status();
}

// Priorities and windows of the cache are wishes without effect on results.
cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute, const cudaLaunchAttributeValue* value) {
    WMMADIAG_LOCKED;
    if (node == nullptr || value == nullptr || node_of(node)->type != cudaGraphNodeTypeKernel) return failed(cudaErrorInvalidValue);
    const auto cluster = value->clusterDim;
    if (attribute == cudaLaunchAttributeClusterDimension && cluster.x * cluster.y * cluster.z > 1)
        return not_for_nodes("cudaGraphKernelNodeSetAttribute", "a node cannot be given a cluster here",
                             "capture the kernel from cudaLaunchKernelEx");
    if (attribute == cudaLaunchAttributeCooperative && value->cooperative != 0)
        return not_for_nodes("cudaGraphKernelNodeSetAttribute", "a node cannot be made a cooperative launch here",
                             "capture the kernel from cudaLaunchCooperativeKernel");
    node_of(node)->wishes[attribute] = *value;
    return status();
}
cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute, cudaLaunchAttributeValue* value) {
    WMMADIAG_LOCKED;
    if (node == nullptr || value == nullptr || node_of(node)->type != cudaGraphNodeTypeKernel) return failed(cudaErrorInvalidValue);
    const auto& wishes = node_of(node)->wishes;
    const auto known = wishes.find(attribute);
    *value = known != wishes.end() ? known->second : cudaLaunchAttributeValue{};
    return status();
}
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t from, cudaGraphNode_t to) {
    WMMADIAG_LOCKED;
    if (from == nullptr || to == nullptr) return failed(cudaErrorInvalidValue);
    node_of(to)->wishes = node_of(from)->wishes;
    return status();
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t* to, void* object, cudaHostFn_t destroy, unsigned references, unsigned) {
    if (to == nullptr || destroy == nullptr || references == 0) return failed(cudaErrorInvalidValue);
    *to = reinterpret_cast<cudaUserObject_t>(new UserObject{object, destroy, references});
    return status();
}
cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
    WMMADIAG_LOCKED;
    object_of(object)->references += count;
    return status();
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
    WMMADIAG_LOCKED;
    released(object_of(object), count);
    return status();
}
// A graph's references are given back with it and all copies of it.
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags) {
    WMMADIAG_LOCKED;
    auto* one = object_of(object);
    if (flags != cudaGraphUserObjectMove) one->references += count;
    graph_of(graph)->held.push_back(std::shared_ptr<void>(one, [count](void* held) { released(static_cast<UserObject*>(held), count); }));
    return status();
}
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned) {
    WMMADIAG_LOCKED;
    auto& held = graph_of(graph)->held;
    for (auto one = held.begin(); one != held.end(); ++one)
        if (one->get() == static_cast<void*>(object_of(object))) {
            held.erase(one);
            return status();
        }
    return failed(cudaErrorInvalidValue);
}

}  // extern "C"
