// CUDA graphs: stream capture with fork and join, executable update, kernel node parameters,
// manual nodes with memset/memcpy/host/event nodes, child graphs, memory nodes from cudaMallocAsync.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define checkCuda(x)                                                                         \
    do {                                                                                     \
        cudaError_t e = (x);                                                                 \
        if (e != cudaSuccess) {                                                              \
            printf("CUDA failure %s:%d: '%s'\n", __FILE__, __LINE__, cudaGetErrorString(e)); \
            std::exit(1);                                                                    \
        }                                                                                    \
    } while (0)

__global__ void axpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void square(int n, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];
}
__global__ void reduceKernel(const float* x, int n, double* out) {
    __shared__ double part[256];
    double s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += x[i];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int d = blockDim.x / 2; d; d >>= 1) {
        if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = part[0];
}

struct HostData {
    int calls;
    double* value;
    double sum;
};
void CUDART_CB collect(void* p) {
    HostData* d = (HostData*)p;
    d->calls++;
    d->sum += *d->value;
}

static bool expect(const char* what, double got, double want) {
    bool ok = std::fabs(got - want) <= 1e-6 * (std::fabs(want) + 1);
    printf("%-28s %14.4f (expected %14.4f) %s\n", what, got, want, ok ? "ok" : "MISMATCH");
    return ok;
}

int main() {
    const int n = 4096;
    const size_t bytes = n * sizeof(float);
    float* h;
    double* result;
    checkCuda(cudaMallocHost(&h, bytes));
    checkCuda(cudaHostAlloc(&result, sizeof(double), cudaHostAllocDefault));
    for (int i = 0; i < n; i++) h[i] = 0.001f * (i % 100);
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        sum += h[i];
        squares += (double)(h[i] * h[i]);
    }
    float *x, *y, *z;
    double* d;
    checkCuda(cudaMalloc(&x, bytes));
    checkCuda(cudaMalloc(&y, bytes));
    checkCuda(cudaMalloc(&z, bytes));
    checkCuda(cudaMalloc(&d, 8));
    bool ok = true;
    cudaStream_t s, s2;
    cudaEvent_t fork, join;
    checkCuda(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    checkCuda(cudaStreamCreateWithPriority(&s2, cudaStreamNonBlocking, -1));
    checkCuda(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    checkCuda(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));

    auto record = [&](float a) {
        cudaGraph_t g;
        checkCuda(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        checkCuda(cudaMemcpyAsync(x, h, bytes, cudaMemcpyHostToDevice, s));
        checkCuda(cudaEventRecord(fork, s));
        checkCuda(cudaStreamWaitEvent(s2, fork, 0));
        square<<<n / 256, 256, 0, s2>>>(n, x, z);
        checkCuda(cudaMemsetAsync(y, 0, bytes, s));
        axpy<<<n / 256, 256, 0, s>>>(n, a, x, y);
        checkCuda(cudaEventRecord(join, s2));
        checkCuda(cudaStreamWaitEvent(s, join, 0));
        axpy<<<n / 256, 256, 0, s>>>(n, 1.0f, z, y);
        reduceKernel<<<1, 256, 0, s>>>(y, n, d);
        checkCuda(cudaMemcpyAsync(result, d, 8, cudaMemcpyDeviceToHost, s));
        cudaStreamCaptureStatus st;
        checkCuda(cudaStreamIsCapturing(s, &st));
        if (st != cudaStreamCaptureStatusActive) {
            puts("not capturing?");
            ok = false;
        }
        checkCuda(cudaStreamEndCapture(s, &g));
        return g;
    };
    cudaGraph_t g = record(3.0f);
    size_t nodes = 0, roots = 0;
    checkCuda(cudaGraphGetNodes(g, nullptr, &nodes));
    checkCuda(cudaGraphGetRootNodes(g, nullptr, &roots));
    printf("captured %zu nodes, %zu roots\n", nodes, roots);
    ok &= nodes == 7 && roots == 1;
    cudaGraphExec_t exec;
    checkCuda(cudaGraphInstantiateWithFlags(&exec, g, 0));
    checkCuda(cudaGraphUpload(exec, s));
    for (int i = 0; i < 3; i++) checkCuda(cudaGraphLaunch(exec, s));
    checkCuda(cudaStreamSynchronize(s));
    ok &= expect("capture", *result, 3 * sum + squares);

    // whole graph update
    cudaGraph_t g2 = record(-2.0f);
#if CUDART_VERSION >= 12000
    cudaGraphExecUpdateResultInfo info;
    checkCuda(cudaGraphExecUpdate(exec, g2, &info));
    ok &= info.result == cudaGraphExecUpdateSuccess;
#else
    cudaGraphNode_t bad;
    cudaGraphExecUpdateResult res;
    checkCuda(cudaGraphExecUpdate(exec, g2, &bad, &res));
#endif
    checkCuda(cudaGraphLaunch(exec, s));
    checkCuda(cudaStreamSynchronize(s));
    ok &= expect("updated by a new capture", *result, -2 * sum + squares);

    // one kernel node's parameters
    std::vector<cudaGraphNode_t> list(nodes);
    checkCuda(cudaGraphGetNodes(g, list.data(), &nodes));
    for (cudaGraphNode_t node : list) {
        cudaGraphNodeType type;
        checkCuda(cudaGraphNodeGetType(node, &type));
        if (type != cudaGraphNodeTypeKernel) continue;
        cudaKernelNodeParams p;
        checkCuda(cudaGraphKernelNodeGetParams(node, &p));
        if (p.func == (void*)axpy && *(float*)p.kernelParams[1] == 3.0f) {
            float a = 10.0f;
            int count = n;
            void* args[] = {&count, &a, &x, &y};
            p.kernelParams = args;
            checkCuda(cudaGraphExecKernelNodeSetParams(exec, node, &p));
        }
    }
    checkCuda(cudaGraphLaunch(exec, s));
    checkCuda(cudaStreamSynchronize(s));
    ok &= expect("kernel node changed", *result, 10 * sum + squares);

    // by hand
    cudaGraph_t m;
    cudaGraphNode_t set, copy, k1, k2, back, host;
    checkCuda(cudaGraphCreate(&m, 0));
    cudaMemsetParams ms = {};
    ms.dst = y;
    ms.value = 0;
    ms.elementSize = sizeof(float);
    ms.width = n;
    ms.height = 1;
    checkCuda(cudaGraphAddMemsetNode(&set, m, nullptr, 0, &ms));
    checkCuda(cudaGraphAddMemcpyNode1D(&copy, m, nullptr, 0, x, h, bytes, cudaMemcpyHostToDevice));
    int count = n;
    float a = 7.0f;
    void* args1[] = {&count, &a, &x, &y};
    cudaKernelNodeParams kp = {};
    kp.func = (void*)axpy;
    kp.gridDim = dim3(n / 256);
    kp.blockDim = dim3(256);
    kp.kernelParams = args1;
    cudaGraphNode_t deps[] = {set, copy};
    checkCuda(cudaGraphAddKernelNode(&k1, m, deps, 2, &kp));
    void* args2[] = {&y, &count, &d};
    kp.func = (void*)reduceKernel;
    kp.gridDim = dim3(1);
    kp.kernelParams = args2;
    checkCuda(cudaGraphAddKernelNode(&k2, m, &k1, 1, &kp));
    cudaMemcpy3DParms cp = {};
    cp.srcPtr = make_cudaPitchedPtr(d, 8, 8, 1);
    cp.dstPtr = make_cudaPitchedPtr(result, 8, 8, 1);
    cp.extent = make_cudaExtent(8, 1, 1);
    cp.kind = cudaMemcpyDeviceToHost;
    checkCuda(cudaGraphAddMemcpyNode(&back, m, &k2, 1, &cp));
    HostData hd = {0, result, 0};
    cudaHostNodeParams hp = {collect, &hd};
    checkCuda(cudaGraphAddHostNode(&host, m, &back, 1, &hp));
    // the same as child graph, twice in a row
    cudaGraph_t parent;
    cudaGraphNode_t c1, c2, e1;
    checkCuda(cudaGraphCreate(&parent, 0));
    checkCuda(cudaGraphAddChildGraphNode(&c1, parent, nullptr, 0, m));
    checkCuda(cudaGraphAddEmptyNode(&e1, parent, &c1, 1));
    checkCuda(cudaGraphAddChildGraphNode(&c2, parent, &e1, 1, m));
    cudaGraphExec_t pe;
    checkCuda(cudaGraphInstantiate(&pe, parent, 0));
    checkCuda(cudaGraphLaunch(pe, s));
    checkCuda(cudaStreamSynchronize(s));
    ok &= expect("by hand", *result, 7 * sum) && hd.calls == 2;
    ok &= expect("host nodes", hd.sum, 14 * sum);
    size_t edges = 0;
#if CUDART_VERSION >= 13000
    checkCuda(cudaGraphGetEdges(m, nullptr, nullptr, nullptr, &edges));
#else
    checkCuda(cudaGraphGetEdges(m, nullptr, nullptr, &edges));
#endif
    ok &= edges == 5;

    // memory that belongs to the graph
    cudaGraph_t mg;
    cudaGraphExec_t me;
    float* tmp;
    checkCuda(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    checkCuda(cudaMallocAsync(&tmp, bytes, s));
    square<<<n / 256, 256, 0, s>>>(n, x, tmp);
    reduceKernel<<<1, 256, 0, s>>>(tmp, n, d);
    checkCuda(cudaFreeAsync(tmp, s));
    checkCuda(cudaMemcpyAsync(result, d, 8, cudaMemcpyDefault, s));
    checkCuda(cudaStreamEndCapture(s, &mg));
    checkCuda(cudaGraphInstantiate(&me, mg, nullptr, nullptr, 0));
    for (int i = 0; i < 2; i++) checkCuda(cudaGraphLaunch(me, s));
    checkCuda(cudaStreamSynchronize(s));
    ok &= expect("memory nodes", *result, squares);
    checkCuda(cudaGraphDebugDotPrint(m, "graph.dot", 0));
    remove("graph.dot");

    for (auto ge : {exec, pe, me}) checkCuda(cudaGraphExecDestroy(ge));
    for (auto q : {g, g2, m, parent, mg}) checkCuda(cudaGraphDestroy(q));
    cudaEventDestroy(fork);
    cudaEventDestroy(join);
    cudaStreamDestroy(s);
    cudaStreamDestroy(s2);
    cudaFree(x);
    cudaFree(y);
    cudaFree(z);
    cudaFree(d);
    cudaFreeHost(h);
    cudaFreeHost(result);
    puts(ok ? "SUCCESS" : "FAILURE");
    return !ok;
}
