// Running averages behind locks: every thread takes one, lanes of a warp too. "last": who came last is kept, which no chip promises.
#include <cuda/atomic>

#include <cstdio>
#include <cstring>

struct Lock {
    cuda::atomic<int, cuda::thread_scope_device> taken;
    __device__ bool take() { return taken.exchange(1, cuda::memory_order_acquire) == 0; }
    __device__ void open() { taken.store(0, cuda::memory_order_release); }
};
struct Average {
    double mean, squares;
    long long count;
};
__device__ Lock locks[4];
__device__ Average averages[4];
__device__ unsigned last[4];

__global__ void add(const float* x, int n, bool ordered) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const int which = i % 4;
        for (bool done = false; !done;) {
            if (locks[which].take()) {
                auto& one = averages[which];
                ++one.count;
                const double difference = x[i] - one.mean;
                one.mean += difference / one.count;
                one.squares += difference * (x[i] - one.mean);
                if (ordered) last[which] = i;
                locks[which].open();
                done = true;
            }
        }
    }
}

int main(int argc, char** argv) {
    const int n = 256;
    float host[n], *x;
    for (int i = 0; i < n; ++i) host[i] = 0.25f * (i % 13);
    cudaMalloc(&x, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    add<<<2, 64>>>(x, n, argc > 1 && !strcmp(argv[1], "last"));
    Average found[4];
    cudaMemcpyFromSymbol(found, averages, sizeof found);
    bool right = true;
    for (int which = 0; which < 4; ++which) {
        double sum = 0;
        for (int i = which; i < n; i += 4) sum += host[i];
        right &= found[which].count == n / 4 && std::abs(found[which].mean - sum * 4 / n) < 1e-9;
    }
    cudaFree(x);
    printf("%s\n", right ? "PASSED" : "FAILED");
    return !right;
}
