// A graph, captured once and launched three times: copy in, two kernels, copy out.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

__global__ void scale(float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}

__global__ void add(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[i];
}

int main() {
    const int n = 100;
    float *host_in, *host_out, *x, *y;
    cudaMallocHost(&host_in, n * sizeof(float));
    cudaMallocHost(&host_out, n * sizeof(float));
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaMemset(y, 0, n * sizeof(float));
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMemcpyAsync(x, host_in, n * sizeof(float), cudaMemcpyHostToDevice, stream);
    scale<<<1, 128, 0, stream>>>(x, 0.5f, n);
    add<<<1, 128, 0, stream>>>(y, x, n);
    cudaMemcpyAsync(host_out, y, n * sizeof(float), cudaMemcpyDeviceToHost, stream);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&ready, graph, 0);
    for (int step = 1; step <= 3; ++step) {
        for (int i = 0; i < n; ++i) host_in[i] = float(step * i);
        cudaGraphLaunch(ready, stream);
        cudaStreamSynchronize(stream);
        printf("after %d: %g\n", step, host_out[10]);
    }
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    cudaFree(x);
    cudaFree(y);
    cudaFreeHost(host_in);
    cudaFreeHost(host_out);
    return 0;
}
