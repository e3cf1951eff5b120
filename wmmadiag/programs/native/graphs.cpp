// Graphs: built node by node, copied, instantiated, updated and launched. streams.cpp captures them.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "copies.hpp"
#include "graph_calls.hpp"

using namespace wmmadiag;

namespace {

// A node of the program's with what it is to do.
template <class What>
cudaError_t added_with(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count, cudaGraphNodeType type,
                       const What& what) {
    const auto error = added(to, graph, after, count, type, {});
    return error != cudaSuccess ? error : changed(node_of(*to), what);
}

// Some nodes for the program: how many where `to` is null, else the first `*count` of them.
cudaError_t listed(const std::vector<const Node*>& nodes, cudaGraphNode_t* to, std::size_t* count) {
    if (to != nullptr)
        for (std::size_t i = 0; i < *count; ++i) to[i] = i < nodes.size() ? handle_of(nodes[i]) : nullptr;
    *count = to != nullptr ? std::min(*count, nodes.size()) : nodes.size();
    return status();
}

}  // namespace

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
    WMMADIAG_LOCKED;
    *graph = handle_of(std::make_shared<Graph>());
    return status();
}
cudaError_t cudaGraphClone(cudaGraph_t* to, cudaGraph_t graph) {
    WMMADIAG_LOCKED;
    *to = handle_of(graph_of(graph)->copy());
    return status();
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count,
                                   const cudaKernelNodeParams* p) {
    WMMADIAG_LOCKED;
    Node checked;
    if (const auto error = set_kernel(checked, *p); error != cudaSuccess) return error;
    if (const auto error = added(to, graph, after, count, cudaGraphNodeTypeKernel, {}); error != cudaSuccess) return error;
    return set_kernel(*node_of(*to), *p);
}
cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count,
                                   const cudaMemcpy3DParms* p) {
    WMMADIAG_LOCKED;
    return added_with(to, graph, after, count, cudaGraphNodeTypeMemcpy, *p);
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count, void* target,
                                     const void* source, std::size_t bytes, cudaMemcpyKind kind) {
    WMMADIAG_LOCKED;
    return added_with(to, graph, after, count, cudaGraphNodeTypeMemcpy, rows(target, bytes, source, bytes, bytes, 1, kind));
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count,
                                   const cudaMemsetParams* p) {
    WMMADIAG_LOCKED;
    return added_with(to, graph, after, count, cudaGraphNodeTypeMemset, *p);
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count,
                                 const cudaHostNodeParams* p) {
    WMMADIAG_LOCKED;
    return added_with(to, graph, after, count, cudaGraphNodeTypeHost, *p);
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count) {
    WMMADIAG_LOCKED;
    return added(to, graph, after, count, cudaGraphNodeTypeEmpty, {});
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count, cudaGraph_t child) {
    WMMADIAG_LOCKED;
    return added_with(to, graph, after, count, cudaGraphNodeTypeGraph, graph_of(child)->copy());
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
    WMMADIAG_LOCKED;
    std::vector<const Node*> all;
    for (const auto& one : graph_of(graph)->nodes) all.push_back(one.get());
    return listed(all, nodes, count);
}
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
    WMMADIAG_LOCKED;
    std::vector<const Node*> roots;
    for (const auto& one : graph_of(graph)->nodes)
        if (one->after.empty()) roots.push_back(one.get());
    return listed(roots, nodes, count);
}
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData*, std::size_t* count) {
    WMMADIAG_LOCKED;
    std::vector<const Node*> heads, tails;
    for (const auto& one : graph_of(graph)->nodes)
        for (const auto* before : one->after) {
            heads.push_back(before);
            tails.push_back(one.get());
        }
    auto again = *count;
    listed(heads, from, &again);
    return listed(tails, to, count);
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
    *type = node_of(node)->type;
    return status();
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node, const cudaKernelNodeParams* p) {
    WMMADIAG_LOCKED;
    auto* one = graph_of(graph)->copy_of(node_of(node));
    return one != nullptr ? set_kernel(*one, *p) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result) {
    WMMADIAG_LOCKED;
    const auto &now = graph_of(exec)->nodes, &next = graph_of(graph)->nodes;
    const bool same = std::equal(now.begin(), now.end(), next.begin(), next.end(),
                                 [](const auto& a, const auto& b) { return a->type == b->type && a->after.size() == b->after.size(); });
    *result = {};
    result->result = same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
    if (!same) return failed(cudaErrorGraphExecUpdateFailure);
    // The nodes that the program knows stay those of the graph that was instantiated.
    auto made = graph_of(graph)->copy();
    for (std::size_t i = 0; i < now.size(); ++i) {
        made->nodes[i]->origin = now[i]->origin;
        made->nodes[i]->number = now[i]->number;
    }
    graph_of(exec) = std::move(made);
    return status();
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* to, cudaGraph_t graph, unsigned long long) {
    WMMADIAG_LOCKED;
    auto made = graph_of(graph)->copy();
    const auto order = made->ordered();
    if (order.empty() && !made->nodes.empty()) return failed(cudaErrorInvalidValue);
    const Node* before = nullptr;
    bool chain = true;
    for (const auto* one : order) {
        chain = chain && (before == nullptr || std::find(one->after.begin(), one->after.end(), before) != one->after.end());
        before = one;
    }
    if (!chain)
        for (auto* one : order) one->number = next_number();
    *to = reinterpret_cast<cudaGraphExec_t>(handle_of(made));
    return status();
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* to, cudaGraph_t graph, unsigned long long flags) {
    return cudaGraphInstantiate(to, graph, flags);
}
// The nodes and what they depend on, as a graph of Graphviz.
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* name, unsigned) {
    WMMADIAG_LOCKED;
    std::FILE* file = std::fopen(name, "w");
    if (file == nullptr) return failed(cudaErrorOperatingSystem);
    constexpr const char* names[] = {"kernel", "memcpy", "memset", "host", "graph", "empty", "wait event", "event record"};
    const auto nodes = graph_of(graph)->ordered();
    std::fprintf(file, "digraph graph_1 {\n");
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const auto type = static_cast<std::size_t>(nodes[i]->type);
        std::fprintf(file, "  node_%zu [label=\"%s\"];\n", i, type < std::size(names) ? names[type] : "node");
        for (const auto* before : nodes[i]->after)
            std::fprintf(file, "  node_%td -> node_%zu;\n", std::find(nodes.begin(), nodes.end(), before) - nodes.begin(), i);
    }
    std::fprintf(file, "}\n");
    std::fclose(file);
    return status();
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return status(); }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    WMMADIAG_LOCKED;
    if (const auto before = status(); before != cudaSuccess) return before;
    return submit_graph(stream, graph_of(graph));
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    WMMADIAG_LOCKED;
    delete reinterpret_cast<GraphHandle*>(graph);
    return status();
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return cudaGraphDestroy(reinterpret_cast<cudaGraph_t>(graph)); }

}  // extern "C"
