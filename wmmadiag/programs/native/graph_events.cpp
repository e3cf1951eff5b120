// Nodes of graphs that record events, and that wait for them.
#include "graph_calls.hpp"

using namespace wmmadiag;

namespace wmmadiag {

cudaError_t changed(Node* node, cudaEvent_t event) {
    if (node == nullptr || !is_event(event)) return failed(cudaErrorInvalidValue);
    node->event = event;
    const bool record = node->type == cudaGraphNodeTypeEventRecord;
    return changed(node, [=] { return record ? records(event) : waits(event); });
}

}  // namespace wmmadiag

namespace {

cudaError_t event_node(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count, cudaGraphNodeType type,
                       cudaEvent_t event) {
    if (!is_event(event)) return failed(cudaErrorInvalidValue);
    const auto error = added(to, graph, after, count, type, {});
    return error != cudaSuccess ? error : changed(node_of(*to), event);
}
cudaError_t set_event(Node* node, cudaGraphNodeType type, cudaEvent_t event) {
    return node != nullptr && node->type == type ? changed(node, event) : failed(cudaErrorInvalidValue);
}
cudaError_t get_event(const Node* node, cudaGraphNodeType type, cudaEvent_t* event) {
    if (node == nullptr || node->type != type || event == nullptr) return failed(cudaErrorInvalidValue);
    *event = node->event;
    return status();
}

}  // namespace

extern "C" {

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count, cudaEvent_t event) {
    WMMADIAG_LOCKED;
    return event_node(to, graph, after, count, cudaGraphNodeTypeEventRecord, event);
}
cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* to, cudaGraph_t graph, const cudaGraphNode_t* after, std::size_t count, cudaEvent_t event) {
    WMMADIAG_LOCKED;
    return event_node(to, graph, after, count, cudaGraphNodeTypeWaitEvent, event);
}
cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
    WMMADIAG_LOCKED;
    return get_event(node_of(node), cudaGraphNodeTypeEventRecord, event);
}
cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
    WMMADIAG_LOCKED;
    return get_event(node_of(node), cudaGraphNodeTypeWaitEvent, event);
}
cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
    WMMADIAG_LOCKED;
    return set_event(node_of(node), cudaGraphNodeTypeEventRecord, event);
}
cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
    WMMADIAG_LOCKED;
    return set_event(node_of(node), cudaGraphNodeTypeWaitEvent, event);
}
cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t graph, cudaGraphNode_t node, cudaEvent_t event) {
    WMMADIAG_LOCKED;
    return set_event(graph_of(graph)->copy_of(node_of(node)), cudaGraphNodeTypeEventRecord, event);
}
cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t graph, cudaGraphNode_t node, cudaEvent_t event) {
    WMMADIAG_LOCKED;
    return set_event(graph_of(graph)->copy_of(node_of(node)), cudaGraphNodeTypeWaitEvent, event);
}

}  // extern "C"
