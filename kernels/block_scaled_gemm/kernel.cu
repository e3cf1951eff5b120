// Rows and weights of bytes, summed exactly in each 32 of K, then scaled: a scale for each row, one for 16 columns.
#include <mma.h>

using namespace nvcuda::wmma;

constexpr int T = 16, DEEP = 32;

__global__ void block_scaled_gemm(const signed char *a, const signed char *b, const float *scale_a,
                                  const float *scale_b, float *d, int m, int n, int k) {
    __shared__ __align__(32) int sums[T * T];
    const int row = blockIdx.y * T, col = blockIdx.x * T, blocks = k / DEEP;
    float total[T * T / 32] = {};
    for (int block = 0; block < blocks; block++) {
        fragment<accumulator, T, T, T, int> sum;
        fill_fragment(sum, 0);
        for (int i = block * DEEP; i < (block + 1) * DEEP; i += T) {
            fragment<matrix_a, T, T, T, signed char, row_major> left;
            fragment<matrix_b, T, T, T, signed char, col_major> right;
            load_matrix_sync(left, a + (size_t)row * k + i, k);
            load_matrix_sync(right, b + (size_t)col * k + i, k);
            mma_sync(sum, left, right, sum);
        }
        store_matrix_sync(sums, sum, T, mem_row_major);
        __syncwarp();
        for (int i = threadIdx.x; i < T * T; i += 32)
            total[i / 32] += scale_a[(row + i / T) * blocks + block] * scale_b[blockIdx.x * blocks + block] * sums[i];
        __syncwarp();
    }
    for (int i = threadIdx.x; i < T * T; i += 32)
        d[(size_t)(row + i / T) * n + col + i % T] = total[i / 32];
}
