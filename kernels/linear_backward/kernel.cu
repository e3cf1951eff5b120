// Gradients of y = gelu(x Wᵀ + b) with respect to x and b; h is the sum before the activation. 16×16 per warp.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

constexpr int T = 16;

__device__ float slope(float x) {
    const float tanh = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
    return 0.5f * (1.0f + tanh) + 0.5f * x * (1.0f - tanh * tanh) * 0.7978845608f * (1.0f + 0.134145f * x * x);
}

__global__ void linear_gelu_backward(const half *dy, const half *h, const half *w, half *dx, float *db, int m, int n,
                                     int k) {
    __shared__ __align__(32) half dz[T * T];
    __shared__ __align__(32) float tile[T * T];
    const int row = blockIdx.y * T, col = blockIdx.x * T;
    fragment<accumulator, T, T, T, float> sum;
    fill_fragment(sum, 0.0f);
    for (int j = 0; j < n; j += T) {
        for (int i = threadIdx.x; i < T * T; i += 32) {
            const size_t at = (size_t)(row + i / T) * n + j + i % T;
            dz[i] = __float2half(__half2float(dy[at]) * slope(__half2float(h[at])));
        }
        __syncwarp();
        if (blockIdx.x == 0 && threadIdx.x < T) {
            float column = 0.0f;
            for (int r = 0; r < T; r++) column += __half2float(dz[r * T + threadIdx.x]);
            atomicAdd(db + j + threadIdx.x, column);
        }
        fragment<matrix_a, T, T, T, half, row_major> a;
        fragment<matrix_b, T, T, T, half, row_major> b;
        load_matrix_sync(a, dz, T);
        load_matrix_sync(b, w + (size_t)j * k + col, k);
        mma_sync(sum, a, b, sum);
        __syncwarp();
    }
    store_matrix_sync(tile, sum, T, mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < T * T; i += 32)
        dx[(size_t)(row + i / T) * k + col + i % T] = __float2half(tile[i]);
}
