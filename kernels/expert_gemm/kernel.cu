// A mixture of experts: a block for each expert and 16 columns gathers the expert's tokens, 16 at a time.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

constexpr int T = 16, MOST = 256;

__global__ void expert_gemm(const half *tokens, const half *weights, const int *chosen, const float *gates, float *out,
                            int m, int n, int k, int choices) {
    __shared__ int pairs[MOST];
    __shared__ __align__(32) half rows[T * T];
    __shared__ __align__(32) float tile[T * T];
    const int expert = blockIdx.x, col = blockIdx.y * T;
    int count = 0;
    for (int i = 0; i < m * choices; i++) {
        if (chosen[i] == expert) {
            if (threadIdx.x == 0) pairs[count] = i;
            count++;
        }
    }
    __syncwarp();
    for (int first = 0; first < count; first += T) {
        fragment<accumulator, T, T, T, float> sum;
        fill_fragment(sum, 0.0f);
        for (int deep = 0; deep < k; deep += T) {
            for (int i = threadIdx.x; i < T * T; i += 32) {
                const int r = first + i / T;
                rows[i] = r < count ? tokens[(size_t)(pairs[r] / choices) * k + deep + i % T] : __float2half(0.0f);
            }
            __syncwarp();
            fragment<matrix_a, T, T, T, half, row_major> a;
            fragment<matrix_b, T, T, T, half, col_major> b;
            load_matrix_sync(a, rows, T);
            load_matrix_sync(b, weights + ((size_t)expert * n + col) * k + deep, k);
            mma_sync(sum, a, b, sum);
            __syncwarp();
        }
        store_matrix_sync(tile, sum, T, mem_row_major);
        __syncwarp();
        for (int i = threadIdx.x; i < T * T; i += 32) {
            const int r = first + i / T;
            if (r < count) atomicAdd(&out[(size_t)(pairs[r] / choices) * n + col + i % T], gates[pairs[r]] * tile[i]);
        }
        __syncwarp();
    }
}
