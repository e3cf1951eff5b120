// A tile of 64 KB of dynamic shared memory. More than 48 KB must be asked for, or the launch fails and no kernel runs.
//
// `shared_opt_in ask`: asked for.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

__global__ void reverse(const float* in, float* out, int n) {
    extern __shared__ float tile[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = in[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tile[n - 1 - i];
}

int main(int argc, char**) {
    const int n = 16384;
    const size_t bytes = n * sizeof(float);
    std::vector<float> host(n);
    for (int i = 0; i < n; ++i) host[i] = float(i);
    float *in, *out;
    cudaMalloc(&in, bytes);
    cudaMalloc(&out, bytes);
    cudaMemcpy(in, host.data(), bytes, cudaMemcpyHostToDevice);
    if (argc > 1) cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    reverse<<<1, 256, bytes>>>(in, out, n);
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) {
        printf("launch failed: %s\n", cudaGetErrorString(error));
        return 1;
    }
    cudaMemcpy(host.data(), out, bytes, cudaMemcpyDeviceToHost);
    printf("out[0] = %g\n", host[0]);
    cudaFree(in);
    cudaFree(out);
    return host[0] == n - 1 ? 0 : 1;
}
