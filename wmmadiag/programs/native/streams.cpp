// Streams, events and graphs. Work runs when it is submitted: the order of submission is a legal order of every set of streams.
#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "ending.hpp"
#include "graph_calls.hpp"

namespace {

using wmmadiag::Capture;

float pace = 1e-6f;  // milliseconds for a warp instruction, between events

struct Stream {
    unsigned flags = 0;
    int priority = 0;
    Capture capturing;
    std::uint64_t number = 0;                   // in the order of creation; 0: the legacy default stream
    wmmadiag::Clock clock;                      // what comes before its next work
    std::map<int, cudaStreamAttrValue> wishes;  // by their attributes, for the program to ask
};

struct Event {
    std::uint64_t at = 0;
    bool recorded = false, timed = true;
    Capture capturing;
    wmmadiag::Clock clock;
};

struct Handles {
    std::set<Stream*> streams;
    std::set<Event*> events;
    Stream legacy;
    std::uint64_t created = 0;
    wmmadiag::Clock host;     // what the host has waited for
    bool per_thread = false;  // whether each thread's default stream is its own
};
Handles& handles() {
    static auto* one = new Handles;
    return *one;
}

// A thread's default stream is one that blocks, made when it is asked for.
Stream* of_this_thread() {
    thread_local Stream* own = nullptr;
    if (own == nullptr) handles().streams.insert(own = new Stream{0, 0, {}, ++handles().created, handles().host});
    return own;
}

Stream* stream_of(cudaStream_t stream) {
    if (stream == cudaStreamLegacy || (stream == nullptr && !handles().per_thread)) return &handles().legacy;
    if (stream == nullptr || stream == cudaStreamPerThread) return of_this_thread();
    auto* one = reinterpret_cast<Stream*>(stream);
    return handles().streams.count(one) != 0 ? one : nullptr;
}

Event* event_of(cudaEvent_t event) {
    auto* one = reinterpret_cast<Event*>(event);
    return handles().events.count(one) != 0 ? one : nullptr;
}

bool blocking(const Stream& one) { return (one.flags & cudaStreamNonBlocking) == 0; }

// What comes before the next work of a stream: its own, what the host waited for, and for the default stream that of all blocking ones.
wmmadiag::Clock before(const Stream& one) {
    auto clock = one.clock;
    wmmadiag::join(clock, handles().host);
    if (one.number == 0) {
        for (const auto* other : handles().streams)
            if (blocking(*other)) wmmadiag::join(clock, other->clock);
    } else if (blocking(one)) {
        wmmadiag::join(clock, handles().legacy.clock);
    }
    return clock;
}

// An event of a graph's own, not of the capture.
cudaError_t of_graph(const char* call) {
    wmmadiag::report("launch", "unsupported", "error", std::string(call) + ": events outside of the graph that is captured are not emulated",
                     "leave the flag out: the event is then the capture's own");
    return failed(cudaErrorNotSupported);
}

void host_waits_for(const wmmadiag::Clock& clock) {
    wmmadiag::join(handles().host, clock);
    wmmadiag::forget(handles().host);
}

}  // namespace

namespace wmmadiag {

cudaError_t submit(cudaStream_t stream, std::function<cudaError_t()> work, cudaGraphNodeType type) {
    auto* one = stream_of(stream);
    if (one == nullptr) return failed(cudaErrorInvalidResourceHandle);
    if (one->capturing) {
        one->capturing.last = {one->capturing.graph->add(type, std::move(work), one->capturing.last)};
        return cudaSuccess;
    }
    start(one->number, before(*one));
    const auto error = work();
    if (error == cudaSuccess) went_on();
    one->clock = finish();
    return error;
}

Capture* capture_of(cudaStream_t stream) {
    auto* one = stream_of(stream);
    return one != nullptr && one->capturing ? &one->capturing : nullptr;
}

Node* captured_node(cudaStream_t stream) {
    const auto* capture = capture_of(stream);
    return capture != nullptr && !capture->last.empty() ? capture->last.back() : nullptr;
}

cudaError_t submit_graph(cudaStream_t stream, const std::shared_ptr<Graph>& graph) {
    auto* one = stream_of(stream);
    if (one == nullptr) return failed(cudaErrorInvalidResourceHandle);
    if (one->capturing) {
        return submit(stream, [graph] { return run(*graph); }, cudaGraphNodeTypeGraph);
    }
    const auto known = before(*one);
    auto after = known;
    const Here place = here();
    for (auto* node : graph->ordered()) {
        auto clock = node->number == 0 ? before(*one) : known;
        for (const auto* other : node->after) join(clock, other->clock);
        start(node->number == 0 ? one->number : node->number, clock);
        const auto error = node->work();
        node->clock = finish();
        join(after, node->clock);
        if (node->number == 0) one->clock = node->clock;
        if (error != cudaSuccess) return error;
    }
    here() = place;
    one->clock = after;
    return cudaSuccess;
}

std::uint64_t next_number() {
    static std::uint64_t next = first_node;
    ++handles().created;
    return next++;
}

void waited(bool all) {
    host_waits_for(before(handles().legacy));
    if (!all) return;
    for (const auto* one : handles().streams) host_waits_for(one->clock);
}

void waited_for(cudaStream_t stream) {
    if (const auto* one = stream_of(stream); one != nullptr) host_waits_for(before(*one));
}

bool several_streams() { return handles().created > 0; }

Clock submitted() {
    auto clock = before(handles().legacy);
    for (const auto* one : handles().streams) join(clock, one->clock);
    return clock;
}

}  // namespace wmmadiag

using namespace wmmadiag;

extern "C" {

void wmmadiag_per_thread() { handles().per_thread = true; }
// Events are nearly at one time from now on: what hangs on how long kernels take comes out otherwise.
void wmmadiag_hasten() { pace = 1e-15f; }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
    WMMADIAG_LOCKED;
    if (const auto before = status(); before != cudaSuccess) return before;
    auto* one = new Stream{flags, priority, {}, ++handles().created, handles().host};
    handles().streams.insert(one);
    *stream = reinterpret_cast<cudaStream_t>(one);
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) { return cudaStreamCreateWithPriority(stream, flags, 0); }
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    WMMADIAG_LOCKED;
    auto* one = reinterpret_cast<Stream*>(stream);
    if (handles().streams.erase(one) == 0) return failed(cudaErrorInvalidResourceHandle);
    delete one;
    return status();
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
    WMMADIAG_LOCKED;
    const auto* one = stream_of(stream);
    if (one == nullptr) return failed(cudaErrorInvalidResourceHandle);
    *flags = one->flags;
    return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    WMMADIAG_LOCKED;
    const auto* one = stream_of(stream);
    if (one == nullptr) return failed(cudaErrorInvalidResourceHandle);
    *priority = one->priority;
    return cudaSuccess;
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
    WMMADIAG_LOCKED;
    const auto* one = stream_of(stream);
    if (one == nullptr) return failed(cudaErrorInvalidResourceHandle);
    *id = one->number + 1;
    return cudaSuccess;
}
cudaError_t cudaStreamGetDevice(cudaStream_t, int* device) { return cudaGetDevice(device); }
// Attributes of a stream are wishes about caches and waiting, without effect on results.
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID attribute, const cudaStreamAttrValue* value) {
    WMMADIAG_LOCKED;
    auto* one = stream_of(stream);
    if (one == nullptr || value == nullptr) return failed(value == nullptr ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    one->wishes[attribute] = *value;
    if (attribute == cudaLaunchAttributePriority) one->priority = value->priority;
    return status();
}
cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID attribute, cudaStreamAttrValue* value) {
    WMMADIAG_LOCKED;
    const auto* one = stream_of(stream);
    if (one == nullptr || value == nullptr) return failed(value == nullptr ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    const auto known = one->wishes.find(attribute);
    *value = known != one->wishes.end() ? known->second : cudaStreamAttrValue{};
    if (attribute == cudaLaunchAttributePriority) value->priority = one->priority;
    return status();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    WMMADIAG_LOCKED;
    const auto* one = stream_of(stream);
    if (one == nullptr) return failed(cudaErrorInvalidResourceHandle);
    if (one->capturing) return failed(cudaErrorStreamCaptureUnsupported);
    flush_output();
    host_waits_for(before(*one));
    return status(true);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    WMMADIAG_LOCKED;
    auto* one = stream_of(stream);
    const auto* waited = event_of(event);
    if (one == nullptr || waited == nullptr) return failed(cudaErrorInvalidResourceHandle);
    if (one->capturing && (flags & cudaEventWaitExternal) != 0) return of_graph("cudaStreamWaitEvent");
    join(one->clock, waited->clock);
    if (waited->capturing) wmmadiag::join(one->capturing, waited->capturing);  // the other stream joins the capture
    return status();
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    WMMADIAG_LOCKED;
    if (const auto before = status(); before != cudaSuccess) return before;
    return submit(
        stream,
        [=] {
            calls_host();
            function(data);
            return cudaSuccess;
        },
        cudaGraphNodeTypeHost);
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned) {
    WMMADIAG_LOCKED;
    return submit(
        stream,
        [=] {
            calls_host();
            function(stream, status(), data);
            return cudaSuccess;
        },
        cudaGraphNodeTypeHost);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    WMMADIAG_LOCKED;
    if (const auto before = status(); before != cudaSuccess) return before;
    auto* one = new Event;
    one->timed = (flags & cudaEventDisableTiming) == 0;
    handles().events.insert(one);
    *event = reinterpret_cast<cudaEvent_t>(one);
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    WMMADIAG_LOCKED;
    auto* one = reinterpret_cast<Event*>(event);
    if (handles().events.erase(one) == 0) return failed(cudaErrorInvalidResourceHandle);
    delete one;
    return status();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    WMMADIAG_LOCKED;
    auto* one = event_of(event);
    auto* in = stream_of(stream);
    if (one == nullptr || in == nullptr) return failed(cudaErrorInvalidResourceHandle);
    one->capturing = in->capturing;
    one->recorded = true;
    one->at = instructions();
    one->clock = before(*in);
    return status();
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    WMMADIAG_LOCKED;
    if ((flags & cudaEventRecordExternal) == 0 || capture_of(stream) == nullptr) return cudaEventRecord(event, stream);
    return of_graph("cudaEventRecordWithFlags");
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    WMMADIAG_LOCKED;
    if (event_of(event) == nullptr) return failed(cudaErrorInvalidResourceHandle);
    flush_output();
    host_waits_for(event_of(event)->clock);
    return status(true);
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    WMMADIAG_LOCKED;
    const auto *from = event_of(start), *to = event_of(end);
    if (from == nullptr || to == nullptr || !from->recorded || !to->recorded || !from->timed || !to->timed)
        return failed(cudaErrorInvalidResourceHandle);
    *milliseconds = static_cast<float>(to->at - from->at) * pace;
    return status(true);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    WMMADIAG_LOCKED;
    auto* one = stream_of(stream);
    if (one == nullptr || one == &handles().legacy || one->capturing)
        return failed(one == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorIllegalState);
    one->capturing = {std::make_shared<Graph>(), {}};
    return status();
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    WMMADIAG_LOCKED;
    auto* one = stream_of(stream);
    if (one == nullptr || !one->capturing) return failed(cudaErrorIllegalState);
    const auto captured = one->capturing.graph;
    for (auto* other : handles().streams)
        if (other->capturing.graph == captured) other->capturing = {};
    for (auto* event : handles().events)
        if (event->capturing.graph == captured) event->capturing = {};
    if (graph != nullptr) *graph = handle_of(captured);
    return status();
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* to) {
    WMMADIAG_LOCKED;
    const auto* one = stream_of(stream);
    if (one == nullptr) return failed(cudaErrorInvalidResourceHandle);
    *to = one->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
// What is captured in a stream: its graph, as far as it is, and what the next piece of work will depend on.
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* to, unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges, std::size_t* count) {
    WMMADIAG_LOCKED;
    static std::vector<cudaGraphNode_t> last;
    const auto* one = stream_of(stream);
    if (one == nullptr) return failed(cudaErrorInvalidResourceHandle);
    *to = one->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    if (!one->capturing) return cudaSuccess;
    last.clear();
    for (auto* node : one->capturing.last) last.push_back(reinterpret_cast<cudaGraphNode_t>(node));
    if (id != nullptr) *id = reinterpret_cast<std::uint64_t>(one->capturing.graph.get());
    if (graph != nullptr) *graph = handle_of(one->capturing.graph);
    if (nodes != nullptr) *nodes = last.data();
    if (edges != nullptr) *edges = nullptr;
    if (count != nullptr) *count = last.size();
    return cudaSuccess;
}
// Calls that a capture forbids are told whatever the mode is.
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    static thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
    std::swap(*mode, current);
    return cudaSuccess;
}
cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
    WMMADIAG_LOCKED;
    auto *into = stream_of(to), *one = stream_of(from);
    if (into == nullptr || one == nullptr) return failed(cudaErrorInvalidResourceHandle);
    into->wishes = one->wishes;
    return status();
}

}  // extern "C"
