// Thrust beside a kernel: its vectors and algorithms, a lambda for the device, and memory of cudaMalloc behind a device_ptr. With an
// argument the kernel goes one element too far.
#include <cstdio>
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>

__global__ void countdown(float* x, int n, int too_far) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n + too_far) x[i] = float(n - i);
}

int main(int argc, char**) {
    const int n = 100;
    thrust::device_vector<float> values(n);
    countdown<<<1, 128>>>(thrust::raw_pointer_cast(values.data()), n, argc - 1);
    if (cudaDeviceSynchronize() != cudaSuccess) return 2;
    float* copy;
    cudaMalloc(&copy, n * sizeof(float));
    cudaMemcpy(copy, thrust::raw_pointer_cast(values.data()), n * sizeof(float), cudaMemcpyDeviceToDevice);
    thrust::device_ptr<float> sorted(copy);
    thrust::sort(sorted, sorted + n);
    const float squares = thrust::transform_reduce(
        values.begin(), values.end(), [] __device__(float x) { return x * x; }, 0.0f, thrust::plus<float>());
    float first = 0;
    cudaMemcpy(&first, copy, sizeof first, cudaMemcpyDeviceToHost);
    std::printf("least %g, squares %g\n", first, squares);
    cudaFree(copy);
    return 0;
}
