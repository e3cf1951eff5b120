// Random numbers and memory in kernels: each thread builds a list of its own from the device's heap, counts points of a quarter of a
// circle in it, and frees it. With an argument it frees one block twice.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <curand_kernel.h>

struct Link {
    float x, y;
    Link* next;
};

__global__ void seed(curandState* states) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    curand_init(1234, i, 0, &states[i]);
}

__global__ void count(curandState* states, unsigned* inside, int points, bool twice) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    Link* first = nullptr;
    for (int k = 0; k < points; ++k) {
        Link* one = new Link;
        if (one == nullptr) return;
        one->x = curand_uniform(&states[i]);
        one->y = curand_uniform(&states[i]);
        one->next = first;
        first = one;
    }
    unsigned found = 0;
    while (first != nullptr) {
        Link* next = first->next;
        found += first->x * first->x + first->y * first->y <= 1.0f;
        delete first;
        if (twice && next == nullptr) delete first;
        first = next;
    }
    atomicAdd(inside, found);
}

int main(int argc, char**) {
    const int threads = 64, blocks = 2, points = 24;
    curandState* states;
    unsigned *inside, found = 0;
    cudaMalloc(&states, threads * blocks * sizeof(curandState));
    cudaMalloc(&inside, sizeof *inside);
    cudaMemset(inside, 0, sizeof *inside);
    seed<<<blocks, threads>>>(states);
    count<<<blocks, threads>>>(states, inside, points, argc > 1);
    const cudaError_t error = cudaMemcpy(&found, inside, sizeof found, cudaMemcpyDeviceToHost);
    const double pi = 4.0 * found / (threads * blocks * points);
    std::printf("%s: pi is about 3: %s\n", cudaGetErrorString(error), std::fabs(pi - 3.14159) < 0.1 ? "yes" : "no");
    return error == cudaSuccess ? 0 : 2;
}
