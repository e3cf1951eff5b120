// Managed memory: a histogram that host and device both touch.
#include <cuda_runtime.h>

#include <cstdio>

struct Histogram {
    int bins[8];
    int total;
};

__global__ void count(const unsigned char* data, int n, Histogram* h) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&h->bins[data[i] % 8], 1);
        atomicAdd(&h->total, 1);
    }
}

int main() {
    const int n = 500;
    unsigned char* data;
    Histogram* h;
    cudaMallocManaged(&data, n);
    cudaMallocManaged(&h, sizeof(Histogram));
    for (int i = 0; i < n; ++i) data[i] = (unsigned char)(i * i);
    *h = Histogram{};
    count<<<(n + 127) / 128, 128>>>(data, n, h);
    cudaDeviceSynchronize();
    int sum = 0;
    for (int bin : h->bins) sum += bin;
    printf("%d of %d, bin 1 has %d\n", sum, h->total, h->bins[1]);
    const bool good = sum == n && h->total == n;
    cudaFree(data);
    cudaFree(h);
    return good ? 0 : 1;
}
