// The driver's interface, further: graphs node by node, pools of memory, libraries of kernels. Its handles of graphs are the runtime's.
#include <cuda.h>

#include "driver.hpp"
#include "graph_calls.hpp"

using namespace wmmadiag;

namespace {

dim3 grid_of(const CUDA_KERNEL_NODE_PARAMS& p) { return {p.gridDimX, p.gridDimY, p.gridDimZ}; }
dim3 block_of(const CUDA_KERNEL_NODE_PARAMS& p) { return {p.blockDimX, p.blockDimY, p.blockDimZ}; }
const Function* function_of(const CUDA_KERNEL_NODE_PARAMS& p) {
    return p.func != nullptr ? reinterpret_cast<const Function*>(p.func) : reinterpret_cast<const Function*>(p.kern);
}

CUresult set_kernel_node(Node* node, const CUDA_KERNEL_NODE_PARAMS* p) {
    if (node == nullptr || p == nullptr || function_of(*p) == nullptr || p->kernelParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return result(set_launch(*node, function_of(*p)->info, grid_of(*p), block_of(*p), p->kernelParams, p->sharedMemBytes));
}

cudaMemsetParams driver_fill(const CUDA_MEMSET_NODE_PARAMS& p) { return {pointer(p.dst), p.pitch, p.value, p.elementSize, p.width, p.height}; }
cudaHostNodeParams call_of(const CUDA_HOST_NODE_PARAMS& p) { return {p.fn, p.userData}; }

static_assert(static_cast<int>(CU_GRAPH_NODE_TYPE_MEM_FREE) == static_cast<int>(cudaGraphNodeTypeMemFree), "they have the same numbers");

cudaMemLocation location_of(CUmemLocation where) { return {static_cast<cudaMemLocationType>(where.type), {where.id}}; }

}  // namespace

extern "C" {

CUresult cuGraphAddKernelNode_v2(CUgraphNode* to, CUgraph graph, const CUgraphNode* after, std::size_t count, const CUDA_KERNEL_NODE_PARAMS* p) {
    WMMADIAG_LOCKED;
    Node checked;
    if (const auto error = set_kernel_node(&checked, p); error != CUDA_SUCCESS) return error;
    if (const auto error = added(to, graph, after, count, cudaGraphNodeTypeKernel, {}); error != cudaSuccess) return result(error);
    return set_kernel_node(node_of(*to), p);
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p) {
    WMMADIAG_LOCKED;
    return set_kernel_node(node_of(node), p);
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec graph, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p) {
    WMMADIAG_LOCKED;
    return set_kernel_node(graph_of(graph)->copy_of(node_of(node)), p);
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* p) {
    WMMADIAG_LOCKED;
    auto* one = node_of(node);
    if (one == nullptr || p == nullptr || one->kernel.func == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto &grid = one->kernel.gridDim, &block = one->kernel.blockDim;
    *p = {reinterpret_cast<CUfunction>(one->kernel.func), grid.x, grid.y, grid.z, block.x, block.y, block.z, one->kernel.sharedMemBytes};
    p->kernelParams = one->addresses.data();
    return CUDA_SUCCESS;
}
CUresult cuGraphAddMemsetNode(CUgraphNode* to, CUgraph graph, const CUgraphNode* after, std::size_t count, const CUDA_MEMSET_NODE_PARAMS* p,
                              CUcontext) {
    const auto params = driver_fill(*p);
    return result(cudaGraphAddMemsetNode(to, graph, after, count, &params));
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p) {
    const auto params = driver_fill(*p);
    return result(cudaGraphMemsetNodeSetParams(node, &params));
}
CUresult cuGraphAddHostNode(CUgraphNode* to, CUgraph graph, const CUgraphNode* after, std::size_t count, const CUDA_HOST_NODE_PARAMS* p) {
    const auto params = call_of(*p);
    return result(cudaGraphAddHostNode(to, graph, after, count, &params));
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec graph, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
    const auto params = driver_fill(*p);
    return result(cudaGraphExecMemsetNodeSetParams(graph, node, &params));
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p) {
    const auto params = call_of(*p);
    return result(cudaGraphHostNodeSetParams(node, &params));
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec graph, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p) {
    const auto params = call_of(*p);
    return result(cudaGraphExecHostNodeSetParams(graph, node, &params));
}
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* to) {
    cudaHostNodeParams params{};
    const auto error = cudaGraphHostNodeGetParams(node, &params);
    to->fn = params.fn;
    to->userData = params.userData;
    return result(error);
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* to) {
    cudaMemsetParams p{};
    const auto error = cudaGraphMemsetNodeGetParams(node, &p);
    *to = {reinterpret_cast<CUdeviceptr>(p.dst), p.pitch, p.value, p.elementSize, p.width, p.height};
    return result(error);
}
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* to, cuuint64_t* id, CUgraph* graph, const CUgraphNode** after,
                                   const CUgraphEdgeData** edges, std::size_t* count) {
    auto found = cudaStreamCaptureStatusNone;
    unsigned long long number = 0;
    if (edges != nullptr) *edges = nullptr;
    const auto error = cudaStreamGetCaptureInfo(stream, &found, &number, graph, after, nullptr, count);
    *to = static_cast<CUstreamCaptureStatus>(found);
    if (id != nullptr) *id = number;
    return result(error);
}
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* nodes, const CUgraphEdgeData*, std::size_t count, unsigned flags) {
    return result(cudaStreamUpdateCaptureDependencies(stream, nodes, nullptr, count, flags));
}
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* after, const CUgraphEdgeData*, std::size_t count,
                                     CUstreamCaptureMode mode) {
    return result(cudaStreamBeginCaptureToGraph(stream, graph, after, nullptr, count, static_cast<cudaStreamCaptureMode>(mode)));
}
CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData*, std::size_t count) {
    return result(cudaGraphAddDependencies(graph, from, to, nullptr, count));
}
CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData*, std::size_t count) {
    return result(cudaGraphRemoveDependencies(graph, from, to, nullptr, count));
}
CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData*, std::size_t* count) {
    return result(cudaGraphGetEdges(graph, from, to, nullptr, count));
}
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData*, std::size_t* count) {
    return result(cudaGraphNodeGetDependencies(node, nodes, nullptr, count));
}
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData*, std::size_t* count) {
    return result(cudaGraphNodeGetDependentNodes(node, nodes, nullptr, count));
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
    *type = static_cast<CUgraphNodeType>(node_of(node)->type);
    return CUDA_SUCCESS;
}
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* to) {
    cudaGraphExecUpdateResultInfo found{};
    const auto error = cudaGraphExecUpdate(exec, graph, &found);
    *to = {};
    to->result = static_cast<CUgraphExecUpdateResult>(found.result);
    return result(error);
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* to) {
    cudaStreamCaptureStatus found = cudaStreamCaptureStatusNone;
    const auto error = cudaStreamIsCapturing(stream, &found);
    *to = static_cast<CUstreamCaptureStatus>(found);
    return result(error);
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    auto now = static_cast<cudaStreamCaptureMode>(*mode);
    const auto error = cudaThreadExchangeStreamCaptureMode(&now);
    *mode = static_cast<CUstreamCaptureMode>(now);
    return result(error);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr memory, std::size_t bytes, CUmemLocation where, unsigned flags, CUstream stream) {
    return result(cudaMemPrefetchAsync(pointer(memory), bytes, location_of(where), flags, stream));
}
CUresult cuMemAdvise_v2(CUdeviceptr memory, std::size_t bytes, CUmem_advise advice, CUmemLocation where) {
    return result(cudaMemAdvise(pointer(memory), bytes, static_cast<cudaMemoryAdvise>(advice), location_of(where)));
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, std::size_t bytes, CUstream stream) {
    return result(cudaMemcpyPeerAsync(pointer(to), 0, pointer(from), 0, bytes, stream));
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width, std::size_t height, CUstream stream) {
    return result(cudaMemset2DAsync(pointer(to), pitch, value, width, height, stream));
}
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr memory) {
    for (unsigned i = 0; i < count; ++i)
        if (const auto error = cuPointerGetAttribute(data[i], attributes[i], memory); error != CUDA_SUCCESS) return error;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* asked) {
    static_assert(sizeof *asked == sizeof(cudaMemPoolProps) && offsetof(CUmemPoolProps, maxSize) == offsetof(cudaMemPoolProps, maxSize));
    return result(cudaMemPoolCreate(pool, reinterpret_cast<const cudaMemPoolProps*>(asked)));
}

// A library is a module here, a kernel a function of it.
CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
    return cuModuleLoadData(reinterpret_cast<CUmodule*>(library), image);
}
CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* name, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
    return cuModuleLoad(reinterpret_cast<CUmodule*>(library), name);
}
CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
    return cuModuleGetFunction(reinterpret_cast<CUfunction*>(kernel), reinterpret_cast<CUmodule>(library), name);
}
CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
    *module = reinterpret_cast<CUmodule>(library);
    return CUDA_SUCCESS;
}
CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary library, const char* name) {
    return cuModuleGetGlobal(address, bytes, reinterpret_cast<CUmodule>(library), name);
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
    *function = reinterpret_cast<CUfunction>(kernel);
    return CUDA_SUCCESS;
}
CUresult cuKernelGetName(const char** name, CUkernel kernel) { return cuFuncGetName(name, reinterpret_cast<CUfunction>(kernel)); }
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice) {
    return cuFuncSetAttribute(reinterpret_cast<CUfunction>(kernel), attribute, value);
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice) {
    return cuFuncGetAttribute(value, attribute, reinterpret_cast<CUfunction>(kernel));
}
CUresult cuFuncGetName(const char** name, CUfunction function) {
    *name = reinterpret_cast<const Function*>(function)->name.c_str();
    return CUDA_SUCCESS;
}
CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
    *module = reinterpret_cast<const Function*>(function)->module;
    return CUDA_SUCCESS;
}
CUresult cuFuncGetParamInfo(CUfunction function, std::size_t index, std::size_t* offset, std::size_t* size) {
    const auto& info = reinterpret_cast<const Function*>(function)->info;
    if (index >= static_cast<std::size_t>(info.count)) return CUDA_ERROR_INVALID_VALUE;
    *offset = info.offsets[index];
    if (size != nullptr) *size = info.sizes[index];
    return CUDA_SUCCESS;
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return cuModuleLoadData(module, image); }
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

}  // extern "C"
