#include <cuda_fp16.h>
#include <mma.h>
#include <cmath>
#include <cstdlib>
#include <iostream>

using namespace nvcuda::wmma;

struct Identity { __device__ float operator()(float v) const { return v; } };
struct LeakyRelu {
    float slope;
    __device__ float operator()(float v) const { return v > 0.f ? v : slope * v; }
};

template <typename Op>
__global__ void matmul(const __half *a, const __half *b, float *c, int n, Op op) {
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0.f);
    for (int k = 0; k < n; k += 16) {
        fragment<matrix_a, 16, 16, 16, __half, row_major> fa;
        fragment<matrix_b, 16, 16, 16, __half, row_major> fb;
        load_matrix_sync(fa, a + row * n + k, n);
        load_matrix_sync(fb, b + k * n + col, n);
        mma_sync(sum, fa, fb, sum);
    }
    for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = op(sum.x[i]);
    store_matrix_sync(c + row * n + col, sum, n, mem_row_major);
}

int main() {
    const int n = 128;
    __half *a, *b;
    float *c;
    cudaMallocManaged(&a, n * n * sizeof(__half));
    cudaMallocManaged(&b, n * n * sizeof(__half));
    cudaMallocManaged(&c, n * n * sizeof(float));
    for (int i = 0; i < n * n; ++i) {
        a[i] = __float2half((i * 7 % 13 - 6) / 8.f);
        b[i] = __float2half((i * 5 % 11 - 5) / 8.f);
    }
    dim3 grid(n / 16, n / 16);
    matmul<<<grid, 32>>>(a, b, c, n, LeakyRelu{0.1f});
    cudaDeviceSynchronize();

    float worst = 0.f;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            float s = 0.f;
            for (int k = 0; k < n; ++k) s += __half2float(a[i * n + k]) * __half2float(b[k * n + j]);
            s = s > 0.f ? s : 0.1f * s;
            worst = std::fmax(worst, std::fabs(s - c[i * n + j]));
        }
    std::cout << "max error " << worst << std::endl;
    cudaFree(a); cudaFree(b); cudaFree(c);
    return worst < 1e-2f ? 0 : 1;
}
