// Graphs themselves: their nodes, the order of these, copies, and what a node is given to do.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "copies.hpp"
#include "graph_calls.hpp"

namespace wmmadiag {

Node* Graph::add(cudaGraphNodeType type, std::function<cudaError_t()> work, std::vector<Node*> after) {
    auto one = std::make_unique<Node>();
    one->type = type;
    const Here place = here();
    one->work = [place, work = std::move(work)] {
        here() = place;
        return work ? work() : cudaSuccess;
    };
    one->after = std::move(after);
    nodes.push_back(std::move(one));
    return nodes.back().get();
}

std::shared_ptr<Graph> Graph::copy() const {
    auto made = std::make_shared<Graph>();
    made->held = held;
    std::map<const Node*, Node*> copies;
    for (const auto& one : nodes) {
        made->nodes.push_back(std::make_unique<Node>(*one));
        auto* now = made->nodes.back().get();
        now->origin = one.get();
        for (auto& address : now->addresses) address = now->arguments.data() + (static_cast<std::byte*>(address) - one->arguments.data());
        copies[one.get()] = now;
    }
    for (const auto& one : made->nodes)
        for (auto& before : one->after) before = copies.at(before);
    return made;
}

cudaError_t run(const Graph& graph) {
    for (const auto* one : graph.ordered())
        if (const auto error = one->work(); error != cudaSuccess) return error;
    return cudaSuccess;
}

std::vector<Node*> Graph::ordered() const {
    std::vector<Node*> order;
    std::map<const Node*, bool> done;
    while (order.size() < nodes.size()) {
        const auto before = order.size();
        for (const auto& one : nodes) {
            const bool ready = std::all_of(one->after.begin(), one->after.end(), [&](const Node* node) { return done[node]; });
            if (done[one.get()] || !ready) continue;
            done[one.get()] = true;
            order.push_back(one.get());
        }
        if (order.size() == before) return {};
    }
    return order;
}

Node* Graph::copy_of(const Node* origin) const {
    for (const auto& one : nodes)
        if (one->origin == origin) return one.get();
    return nullptr;
}

void join(Capture& to, const Capture& from) {
    to.graph = from.graph;
    for (auto* one : from.last)
        if (std::find(to.last.begin(), to.last.end(), one) == to.last.end()) to.last.push_back(one);
}

void describe(Node& node, const KernelInfo& kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, LaunchWay way) {
    std::vector<std::byte> kept(kernel.parameter_bytes);
    for (int i = 0; i < kernel.count; ++i) std::memcpy(kept.data() + kernel.offsets[i], arguments[i], kernel.sizes[i]);
    node.arguments = std::move(kept);
    node.addresses.clear();
    for (int i = 0; i < kernel.count; ++i) node.addresses.push_back(node.arguments.data() + kernel.offsets[i]);
    node.way = way;
    node.kernel = {};
    node.kernel.func = reinterpret_cast<void*>(kernel.body);
    node.kernel.gridDim = grid;
    node.kernel.blockDim = block;
    node.kernel.sharedMemBytes = static_cast<unsigned>(shared);
}

cudaGraph_t handle_of(std::shared_ptr<Graph> graph) { return reinterpret_cast<cudaGraph_t>(new GraphHandle{std::move(graph)}); }

cudaError_t added(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count, cudaGraphNodeType type, GraphWork work) {
    if (to == nullptr || graph == nullptr || (after == nullptr && count != 0)) return failed(cudaErrorInvalidValue);
    *to = handle_of(graph_of(graph)->add(type, std::move(work), nodes_of(after, count)));
    return status();
}

cudaError_t set_kernel(Node& node, const cudaKernelNodeParams& p) {
    if (p.kernelParams == nullptr) return failed(p.extra != nullptr ? cudaErrorNotSupported : cudaErrorInvalidValue);
    KernelInfo kernel;
    if (const auto error = kernel_at(p.func, kernel); error != cudaSuccess) return error;
    GraphWork work;
    if (const auto error = prepared_launch(kernel, p.gridDim, p.blockDim, p.kernelParams, p.sharedMemBytes, node.way, work); error != cudaSuccess)
        return error;
    describe(node, kernel, p.gridDim, p.blockDim, p.kernelParams, p.sharedMemBytes, node.way);
    return changed(&node, work);
}

cudaError_t changed(Node* node, GraphWork work) {
    if (node == nullptr) return failed(cudaErrorInvalidValue);
    const Here place = here();
    node->work = [place, work = std::move(work)] {
        here() = place;
        return work();
    };
    return status();
}
cudaError_t changed(Node* node, const cudaMemcpy3DParms& p) {
    return changed(node, [p] { return copy3d(p, "a graph's memcpy node"); });
}
cudaError_t changed(Node* node, const cudaMemsetParams& p) {
    return changed(node, [p] { return fill_elements(p, "a graph's memset node"); });
}
cudaError_t changed(Node* node, const cudaHostNodeParams& p) {
    return changed(node, [p] {
        calls_host();
        p.fn(p.userData);
        return cudaSuccess;
    });
}
cudaError_t changed(Node* node, const std::shared_ptr<Graph>& child) {
    return changed(node, [child] { return run(*child); });
}

}  // namespace wmmadiag
