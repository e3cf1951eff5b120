// Two streams: one produces, the other consumes. Without an event between them nothing orders the two kernels.
//
// `streams wait`: with the event.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

__global__ void produce(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 2.0f * i;
}

__global__ void consume(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1.0f;
}

int main(int argc, char**) {
    const int n = 1000;
    float *x, *y;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaStream_t first, second;
    cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    cudaEvent_t ready;
    cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
    produce<<<(n + 255) / 256, 256, 0, first>>>(x, n);
    cudaEventRecord(ready, first);
    if (argc > 1) cudaStreamWaitEvent(second, ready, 0);
    consume<<<(n + 255) / 256, 256, 0, second>>>(x, y, n);
    std::vector<float> out(n);
    cudaMemcpyAsync(out.data(), y, n * sizeof(float), cudaMemcpyDeviceToHost, second);
    cudaStreamSynchronize(second);
    printf("y[10] = %g\n", out[10]);
    cudaStreamSynchronize(first);
    cudaFree(x);
    cudaFree(y);
    return 0;
}
