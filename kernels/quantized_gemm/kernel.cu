// A half matrix times weights of four bits with a scale and a zero point per group of rows, as GPTQ stores them: eight
// values of one column in an int32, the first in the lowest bits; zero points packed along the columns, less one.
//
// One warp per 16×16 tile: each step dequantises 16×16 weights into shared memory, in half, and multiplies them.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int PITCH = 16 + 8;

__global__ void gemm_w4a16(const half* __restrict__ a, const unsigned* __restrict__ qweight,
                           const half* __restrict__ scales, const unsigned* __restrict__ qzeros, half* __restrict__ d,
                           int n, int k, int group) {
    __shared__ __align__(32) half weights[16][PITCH];
    __shared__ __align__(32) float tile[16][16];
    const int row = blockIdx.y * 16, col = blockIdx.x * 16;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int depth = 0; depth < k; depth += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) {
            const int at = depth + i / 16, column = col + i % 16, of_group = at / group;
            const unsigned word = qweight[at / 8 * n + column];
            const unsigned zeros = qzeros[of_group * (n / 8) + column / 8];
            const int value = (word >> (at % 8 * 4)) & 15;
            const int zero = ((zeros >> (column % 8 * 4)) & 15) + 1;
            weights[i / 16][i % 16] = __hmul(__int2half_rn(value - zero), scales[of_group * n + column]);
        }
        __syncwarp();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
        wmma::load_matrix_sync(left, a + row * k + depth, k);
        wmma::load_matrix_sync(right, &weights[0][0], PITCH);
        wmma::mma_sync(acc, left, right, acc);
        __syncwarp();
    }

    wmma::store_matrix_sync(&tile[0][0], acc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) d[(row + i / 16) * n + col + i % 16] = __float2half(tile[i / 16][i % 16]);
}
