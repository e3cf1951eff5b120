"""What programs ask of the driver and of graphs besides the usual."""

from __future__ import annotations

from pathlib import Path

from command import run_program

DRIVER = r"""#include <cuda.h>
#include <nvrtc.h>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
void ok(CUresult found, int line) {
    const char* said = "";
    if (found != CUDA_SUCCESS) cuGetErrorString(found, &said), printf("%d: %s\n", line, said), exit(1);
}
#define CK(x) ok((x), __LINE__)
const char* text = "extern \"C\" __global__ void saxpy(float a, const float* x, float* y, int n) {"
                   "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }";
int main() {
    CUdevice device;
    CUcontext context;
    CK(cuInit(0));
    CK(cuDeviceGet(&device, 0));
    CK(cuDevicePrimaryCtxRetain(&context, device));
    CK(cuCtxSetCurrent(context));
    nvrtcProgram program;
    nvrtcCreateProgram(&program, text, "k.cu", 0, nullptr, nullptr);
    if (nvrtcCompileProgram(program, 0, nullptr)) return 2;
    size_t size;
    nvrtcGetPTXSize(program, &size);
    std::vector<char> ptx(size);
    nvrtcGetPTX(program, ptx.data());
    CUmodule module;
    CUfunction function;
    CK(cuModuleLoadData(&module, ptx.data()));
    CK(cuModuleGetFunction(&function, module, "saxpy"));
    const int n = 100;
    CUdeviceptr x, y;
    std::vector<float> h(n), back(n, -1);
    for (int i = 0; i < n; ++i) h[i] = i;
    CK(cuMemAlloc(&x, n * 4));
    CK(cuMemAlloc(&y, n * 4));
    CK(cuMemcpyHtoD(x, h.data(), n * 4));
    CK(cuMemsetD32(y, 0, n));
    float a = 3;
    int count = n;
    void* arguments[] = {&a, &x, &y, &count};
    CUstream stream;
    CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUgraph graph;
    CUgraphExec made;
    CK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUlaunchConfig config = {1, 1, 1, 128, 1, 1, 0, stream, nullptr, 0};
    CK(cuLaunchKernelEx(&config, function, arguments, nullptr));
    CK(cuStreamEndCapture(stream, &graph));
    CK(cuGraphInstantiate(&made, graph, 0));
    CK(cuStreamSynchronize(stream));
    CK(cuCtxSynchronize());
    CK(cuGraphLaunch(made, stream));
    CK(cuGraphLaunch(made, stream));
    CK(cuStreamSynchronize(stream));
    CK(cuMemcpyDtoH(back.data(), y, n * 4));
    printf("%g %g %g %g %g\n", back[0], back[1], back[2], back[3], back[4]);
    unsigned type, managed;
    CK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, x));
    CK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, x));
    printf("%u %u\n", type, managed);
    CK(cuMemHostRegister(h.data(), n * 4, 0));
    CK(cuMemHostUnregister(h.data()));
    CK(cuGraphExecDestroy(made));
    CK(cuGraphDestroy(graph));
    CK(cuModuleUnload(module));
    CK(cuDevicePrimaryCtxRelease(device));
    return cuMemcpyDtoH(back.data(), y, n * 8) == CUDA_SUCCESS;
}
"""

GRAPHS = r"""#include <cstdio>
__global__ void add(float* a, float v) { a[threadIdx.x] += v; }
int main() {
    float* d;
    cudaStream_t s;
    cudaGraph_t graph, half;
    cudaGraphExec_t made;
    cudaMalloc(&d, 128), cudaStreamCreate(&s);
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    printf("%d ", mode);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(d, 0, 128, s);
    add<<<1, 32, 0, s>>>(d, 1);
    cudaStreamCaptureStatus status;
    unsigned long long id;
    const cudaGraphNode_t* last;
    size_t count, nodes;
    cudaStreamGetCaptureInfo(s, &status, &id, &half, &last, nullptr, &count);
    cudaGraphGetNodes(half, nullptr, &nodes);
    cudaGraphNodeType type;
    cudaGraphNodeGetType(last[0], &type);
    printf("%d %d %d %d %d\n", status == cudaStreamCaptureStatusActive, id != 0, (int)count, (int)nodes,
           type == cudaGraphNodeTypeKernel);
    cudaStreamEndCapture(s, &graph);
    cudaStreamGetCaptureInfo(s, &status);
    printf("%d ", status);
    printf("%d\n", cudaGraphInstantiate(&made, graph, 0));
    return cudaGraphDebugDotPrint(graph, "graph.dot", 0);
}
"""


def test_the_driver_captures_and_copies(tmp_path: Path) -> None:
    done = run_program(tmp_path, DRIVER)
    assert done.stdout == "0 6 12 18 24\n2 0\n", done.stdout + done.stderr
    assert "reads" in " ".join(done.stderr.split()) and done.returncode == 1


def test_graphs_tell_what_they_are(tmp_path: Path) -> None:
    done = run_program(tmp_path, GRAPHS)
    assert done.stdout == "0 1 1 1 2 1\n0 0\n", done.stdout + done.stderr
    assert done.returncode == 0
    said = (tmp_path / "graph.dot").read_text()
    assert 'node_0 [label="memset"]' in said and "node_0 -> node_1;" in said


NODES = r"""#include <cstdio>
__global__ void add(float* a, float v, int n) { if (threadIdx.x < n) a[threadIdx.x] += v; }
__global__ void copy(const float* from, float* to) { to[threadIdx.x] = from[threadIdx.x]; }
int main() {
    float *d, *temporary, h[32] = {};
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t made;
    cudaMalloc(&d, 128), cudaStreamCreate(&s);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(d, 0, 128, s);
    add<<<1, 32, 0, s>>>(d, 2, 32);
    cudaMallocAsync(&temporary, 128, s);
    copy<<<1, 32, 0, s>>>(d, temporary);
    copy<<<1, 32, 0, s>>>(temporary, d);
    cudaFreeAsync(temporary, s);
    cudaMemcpyAsync(h, d, 128, cudaMemcpyDeviceToHost, s);
    cudaStreamEndCapture(s, &graph);
    cudaGraphNode_t all[7];
    size_t count = 7;
    cudaGraphGetNodes(graph, all, &count);
    for (size_t i = 0; i < count; ++i) {
        cudaGraphNodeType type;
        cudaGraphNodeGetType(all[i], &type);
        printf("%d ", type);
    }
    cudaKernelNodeParams k;
    cudaGraphKernelNodeGetParams(all[1], &k);
    printf("| %d %g %d\n", k.func == (void*)add, *(float*)k.kernelParams[1], k.blockDim.x);
    cudaGraphInstantiate(&made, graph, 0);
    cudaGraphLaunch(made, s), cudaGraphLaunch(made, s), cudaStreamSynchronize(s);
    printf("%g ", h[31]);
    float seven = 7;
    k.kernelParams[1] = &seven;
    cudaGraphExecKernelNodeSetParams(made, all[1], &k);
    cudaGraphLaunch(made, s), cudaStreamSynchronize(s);
    printf("%g ", h[31]);
    puts("");
    add<<<1, 32, 0, s>>>(temporary, 1, 32);  // what the graph gave back
    return cudaStreamSynchronize(s);
}
"""


def test_graphs_of_nodes_of_all_kinds(tmp_path: Path) -> None:
    done = run_program(tmp_path, NODES)
    assert done.stdout == "2 0 10 0 0 11 1 | 1 2 32\n2 7 \n", done.stdout + done.stderr
    assert "uninitialised" in done.stderr and "program.cu:2:" in done.stderr, done.stderr


REFUSED = r"""#include <cstdio>
int main() {
    cudaStream_t s;
    cudaEvent_t event;
    cudaStreamCreate(&s), cudaEventCreate(&event);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    printf("%s ", cudaGetErrorName(cudaStreamWaitEvent(s, event, cudaEventWaitExternal)));
    printf("%s\n", cudaGetErrorName(cudaEventRecordWithFlags(event, s, cudaEventRecordExternal)));
}
"""
ARRAYS = """int main() {
    cudaArray_t array;
    auto format = cudaCreateChannelDesc<float>();
    return cudaMallocArray(&array, &format, 8, 8);
}
"""


def test_what_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    done = run_program(tmp_path, REFUSED)
    assert done.stdout == "cudaErrorNotSupported cudaErrorNotSupported\n", done.stdout + done.stderr
    said = " ".join(done.stderr.split())
    assert "cudaStreamWaitEvent: events outside of the graph" in said and "cudaEventRecordWithFlags: events" in said
    assert done.returncode == 1
    done = run_program(tmp_path, ARRAYS)
    assert done.returncode == 2 and "functions that are not offered here: cudaMallocArray" in done.stderr, done.stderr
    assert "program.cu:4" in done.stderr
