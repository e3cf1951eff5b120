// Conditional nodes: bodies of a graph that run if, while, or which of them, a value says that kernels set (cudaGraphSetConditional).
// A handle is the address of its value on the device.
#include <algorithm>
#include <cstring>

#include "graph_calls.hpp"
#include "memory.hpp"
#include "newer_names.hpp"

namespace wmmadiag {

std::shared_ptr<void> held_memory(void* memory) {
    return {memory, [](void* gone) {
                auto* one = allocation_at(gone);
                if (one == nullptr) return;
                one->of_graph = false;
                release(gone, Kind::device);
            }};
}

void begin(const Graph& graph) {
    for (const auto& one : graph.conditions) {
        auto* at = one.assigned ? device_bytes(one.value, sizeof one.initial, Access::write, "cudaGraphLaunch") : nullptr;
        if (at == nullptr) continue;
        std::memcpy(at, &one.initial, sizeof one.initial);
        wrote(one.value, sizeof one.initial);
    }
}

cudaError_t run(const Graph& graph) {
    begin(graph);
    for (const auto* one : graph.ordered())
        if (const auto error = one->enabled ? one->work() : cudaSuccess; error != cudaSuccess) return error;
    return cudaSuccess;
}

std::shared_ptr<const Choice> copied(const Choice& choice) {
    auto made = std::make_shared<Choice>(choice);
    for (auto& body : made->bodies) body = body->copy();
    return made;
}

namespace {

unsigned value_of(const Choice& choice) {
    here() = choice.place;
    unsigned value = 0;
    const auto* at = device_bytes(choice.value, sizeof value, Access::read, "a conditional node");
    if (at == nullptr) return 0;
    if (allocation_at(choice.value)->unwritten != 0)
        report("uninitialised", "condition", "error", "a conditional node reads its condition, which nothing has set",
               "create the handle with cudaGraphCondAssignDefault, or let a kernel before the node call cudaGraphSetConditional");
    touches(choice.value, sizeof value, Touch::read);
    std::memcpy(&value, at, sizeof value);
    return value;
}

}  // namespace

GraphWork decided(std::shared_ptr<const Choice> choice) {
    return [choice]() -> cudaError_t {
        const auto run_body = [&](std::size_t which) { return which < choice->bodies.size() ? run(*choice->bodies[which]) : cudaSuccess; };
        if (choice->type == cudaGraphCondTypeSwitch) return run_body(value_of(*choice));
        if (choice->type == cudaGraphCondTypeIf) return run_body(value_of(*choice) != 0 ? 0 : 1);
        while (value_of(*choice) != 0)
            if (const auto error = run_body(0); error != cudaSuccess) return error;
        return cudaSuccess;
    };
}

cudaError_t add_choice(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count, cudaConditionalNodeParams& p) {
    const auto* memory = allocation_at(reinterpret_cast<void*>(p.handle));
    const unsigned most = p.type == cudaGraphCondTypeWhile ? 1 : p.type == cudaGraphCondTypeIf ? 2 : ~0u;
    if (memory == nullptr || !memory->of_graph || p.size < 1 || p.size > most) return failed(cudaErrorInvalidValue);
    if (const auto error = added(to, graph, after, count, cudaGraphNodeTypeConditional, {}); error != cudaSuccess) return error;
    auto choice = std::make_shared<Choice>();
    choice->type = p.type;
    choice->value = reinterpret_cast<void*>(p.handle);
    choice->place = here();
    for (unsigned i = 0; i < p.size; ++i) {
        choice->bodies.push_back(std::make_shared<Graph>());
        choice->handles.push_back(handle_of(choice->bodies.back()));
    }
    p.phGraph_out = choice->handles.data();
    node_of(*to)->choice = choice;
    node_of(*to)->work = decided(choice);
    return status();
}

}  // namespace wmmadiag

using namespace wmmadiag;

extern "C" {

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* to, cudaGraph_t graph, unsigned initial, unsigned flags) {
    WMMADIAG_LOCKED;
    if (to == nullptr || graph == nullptr || (flags & ~static_cast<unsigned>(cudaGraphCondAssignDefault)) != 0) return failed(cudaErrorInvalidValue);
    auto* value = allocate(sizeof initial, memory().open ? Kind::managed : Kind::device, "a condition's value");
    if (value == nullptr) return failed(cudaErrorMemoryAllocation);
    allocation_at(value)->of_graph = true;
    graph_of(graph)->held.push_back(held_memory(value));
    graph_of(graph)->conditions.push_back({value, initial, (flags & cudaGraphCondAssignDefault) != 0});
    *to = reinterpret_cast<cudaGraphConditionalHandle>(value);
    return status();
}
cudaError_t cudaGraphConditionalHandleCreate_v2(cudaGraphConditionalHandle* to, cudaGraph_t graph, cudaExecutionContext_t, unsigned initial,
                                                unsigned flags) {
    return cudaGraphConditionalHandleCreate(to, graph, initial, flags);
}

}  // extern "C"
