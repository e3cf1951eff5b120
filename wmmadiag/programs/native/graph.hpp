// Graphs of work, captured from streams or built node by node.
#pragma once

#include <vector>

#include "ordering.hpp"
#include "runtime.hpp"

namespace wmmadiag {

struct Graph;

// A piece of work of a graph.
struct Node {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    std::function<cudaError_t()> work;
    std::vector<Node*> after;       // what it depends on
    const Node* origin = nullptr;   // the node that it is a copy of
    LaunchWay way;                  // of a kernel
    cudaKernelNodeParams kernel{};  // of a kernel; the addresses of its arguments are in `addresses`
    std::vector<std::byte> arguments;
    std::vector<void*> addresses;
    Clock clock;               // after its last run
    std::uint64_t number = 0;  // of its work, where nodes may run side by side; 0: the stream's
};

struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<std::shared_ptr<void>> held;  // memory of its own

    Node* add(cudaGraphNodeType type, std::function<cudaError_t()> work, std::vector<Node*> after);
    std::shared_ptr<Graph> copy() const;
    // Its nodes in an order that their dependencies allow, the order in which they were added where that is one; empty: a cycle.
    std::vector<Node*> ordered() const;
    // The copy of a node of another graph, or nullptr.
    Node* copy_of(const Node* origin) const;
};

// What a stream that captures knows.
struct Capture {
    std::shared_ptr<Graph> graph;
    std::vector<Node*> last;  // what the next piece of work depends on
    explicit operator bool() const { return graph != nullptr; }
};
void join(Capture& to, const Capture& from);

struct GraphHandle {
    std::shared_ptr<Graph> graph;
};
cudaGraph_t handle_of(std::shared_ptr<Graph> graph);

// What a stream captures, or nullptr; and the node that it was given last.
Capture* capture_of(cudaStream_t stream);
Node* captured_node(cudaStream_t stream);
// Says of a kernel's node what is launched.
void describe(Node& node, const KernelInfo& kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, LaunchWay way);

// Runs a graph's nodes one after another, as a part of the work that is running.
cudaError_t run(const Graph& graph);

// Runs a graph in a stream: nodes that nothing orders count as work of streams of their own.
cudaError_t submit_graph(cudaStream_t stream, const std::shared_ptr<Graph>& graph);
// Memory that a stream asks for, and gives back, while it captures.
cudaError_t allocate_in_graph(Capture& capture, cudaStream_t stream, void** pointer, std::size_t bytes);
cudaError_t free_in_graph(cudaStream_t stream, void* pointer);
// Numbers for work that may run side by side with other work.
std::uint64_t next_number();

}  // namespace wmmadiag
