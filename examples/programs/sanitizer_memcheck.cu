// Memory errors, one a run (its number is the argument): the classes of compute-sanitizer's memcheck.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

__global__ void misaligned(char* x) { *reinterpret_cast<int*>(x + 1) = 42; }

__device__ int* nowhere() { return reinterpret_cast<int*>(0x87654320ull); }

__global__ void wild(void) { *nowhere() = 42; }

__global__ void past_shared(int* out) {
    __shared__ int tile[32];
    tile[threadIdx.x + 1] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}

__global__ void fill(int* x) { x[threadIdx.x] = threadIdx.x; }

int main(int argc, char** argv) {
    const int which = argc > 1 ? atoi(argv[1]) : 0;
    int* x;
    cudaMalloc(&x, 32 * sizeof(int));
    switch (which) {
        case 0: misaligned<<<1, 1>>>(reinterpret_cast<char*>(x)); break;
        case 1: wild<<<1, 1>>>(); break;
        case 2: past_shared<<<1, 32>>>(x); break;
        case 3:
            cudaFree(x);
            fill<<<1, 32>>>(x);
            break;
        case 4:
            cudaFree(x);
            cudaFree(x);
            return 0;
        case 5:  // with --keep-going all three are found in one run
            misaligned<<<1, 1>>>(reinterpret_cast<char*>(x));
            cudaDeviceSynchronize();
            wild<<<1, 1>>>();
            cudaDeviceSynchronize();
            past_shared<<<1, 32>>>(x);
            break;
    }
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(error));
    return 0;
}
