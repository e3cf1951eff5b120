// A graph built node by node: fill, scale, sum, and the host's look at the result. With an argument, the kernel that sums does not
// depend on the one that scales: the two may run side by side.
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

#define CHECK(call)                                                                            \
    do {                                                                                       \
        const cudaError_t error = (call);                                                      \
        if (error != cudaSuccess) {                                                            \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));         \
            return 2;                                                                          \
        }                                                                                      \
    } while (0)

__global__ void scale(float* x, float by, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}

__global__ void sum(const float* x, float* total, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, x[i]);
}

void tell(void* total) { std::printf("sum %g\n", *static_cast<float*>(total)); }

int main(int argc, char**) {
    int n = 256;
    float by = 3.0f, *x, *total;
    std::vector<float> ones(n, 1.0f);
    float result = 0.0f;
    CHECK(cudaMalloc(&x, n * sizeof(float)));
    CHECK(cudaMalloc(&total, sizeof(float)));

    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t in, zero, scaled, summed, out, told;
    CHECK(cudaGraphAddMemcpyNode1D(&in, graph, nullptr, 0, x, ones.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    cudaMemsetParams zeros = {};
    zeros.dst = total;
    zeros.elementSize = sizeof(float);
    zeros.width = zeros.height = 1;
    CHECK(cudaGraphAddMemsetNode(&zero, graph, nullptr, 0, &zeros));
    void* scale_arguments[] = {&x, &by, &n};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void*)scale;
    kernel.gridDim = dim3(2);
    kernel.blockDim = dim3(128);
    kernel.kernelParams = scale_arguments;
    CHECK(cudaGraphAddKernelNode(&scaled, graph, &in, 1, &kernel));
    const cudaGraphNode_t before[] = {zero, argc > 1 ? in : scaled};
    void* sum_arguments[] = {&x, &total, &n};
    kernel.func = (void*)sum;
    kernel.kernelParams = sum_arguments;
    CHECK(cudaGraphAddKernelNode(&summed, graph, before, 2, &kernel));
    CHECK(cudaGraphAddMemcpyNode1D(&out, graph, &summed, 1, &result, total, sizeof(float), cudaMemcpyDeviceToHost));
    cudaHostNodeParams look = {tell, &result};
    CHECK(cudaGraphAddHostNode(&told, graph, &out, 1, &look));

    cudaGraphExec_t run;
    CHECK(cudaGraphInstantiate(&run, graph, 0));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaGraphLaunch(run, stream));
    by = 5.0f;
    kernel.func = (void*)scale;
    kernel.kernelParams = scale_arguments;
    CHECK(cudaGraphExecKernelNodeSetParams(run, scaled, &kernel));
    CHECK(cudaGraphLaunch(run, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(run));
    CHECK(cudaGraphDestroy(graph));
    return 0;
}
