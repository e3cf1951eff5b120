// What the calls about graphs share: the program's handles, and what a node is given to do.
#pragma once

#include "graph.hpp"

namespace wmmadiag {

using GraphWork = std::function<cudaError_t()>;

inline std::shared_ptr<Graph>& graph_of(cudaGraph_t graph) { return reinterpret_cast<GraphHandle*>(graph)->graph; }
inline std::shared_ptr<Graph>& graph_of(cudaGraphExec_t graph) { return reinterpret_cast<GraphHandle*>(graph)->graph; }
inline Node* node_of(cudaGraphNode_t node) { return reinterpret_cast<Node*>(node); }
inline cudaGraphNode_t handle_of(const Node* node) { return reinterpret_cast<cudaGraphNode_t>(const_cast<Node*>(node)); }
inline std::vector<Node*> nodes_of(const cudaGraphNode_t* nodes, std::size_t count) {
    std::vector<Node*> found;
    for (std::size_t i = 0; i < count; ++i) found.push_back(node_of(nodes[i]));
    return found;
}

cudaError_t added(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count, cudaGraphNodeType type, GraphWork work);
// The work of a kernel's node; what the program gave is kept, for the program to ask.
cudaError_t set_kernel(Node& node, const cudaKernelNodeParams& p);
// Gives a node, or the copy of it that is instantiated, other work.
cudaError_t changed(Node* node, GraphWork work);
cudaError_t changed(Node* node, const cudaMemcpy3DParms& p);
cudaError_t changed(Node* node, const cudaMemsetParams& p);
cudaError_t changed(Node* node, const cudaHostNodeParams& p);
cudaError_t changed(Node* node, const std::shared_ptr<Graph>& child);

}  // namespace wmmadiag
