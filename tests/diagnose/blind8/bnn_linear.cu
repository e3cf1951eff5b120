// Binarised linear layer for inference: activations and weights are +1 / -1, packed 32 to a word (bit 1 = +1).
//     score[m][n] = sum_k x[m][k] * w[n][k] = K - 2 * popcount(x XOR w)
// then batch norm and sign, folded to a threshold and a direction per channel, packed again for the next layer:
//     bit[m][n] = flip[n] ? score < thr[n] : score >= thr[n]
// Words behind K hold zeros in both operands. words_k is a multiple of 4 (128 bits, one bmma step).
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;
using namespace nvcuda::wmma::experimental;

#define BLK_M 16            // rows of a block: two tiles of 8
#define BLK_N 32            // channels of a block: four warps, one word of output
#define STEP_W 8            // words of K in shared memory: two bmma steps
#define PAD_W 4
#define LDW (STEP_W + PAD_W)

#define FRAG_A wmma::fragment<wmma::matrix_a, 8, 8, 128, precision::b1, wmma::row_major>
#define FRAG_B wmma::fragment<wmma::matrix_b, 8, 8, 128, precision::b1, wmma::col_major>
#define FRAG_C wmma::fragment<wmma::accumulator, 8, 8, 128, int>

__device__ __inline__ void stage(unsigned *dst, const unsigned *__restrict__ src, int rows, int row0, int n_rows, int w0, int words_k)
{
    for (int e = threadIdx.x; e < rows * STEP_W; e += blockDim.x) {
        const int r = e / STEP_W, w = e % STEP_W;
        unsigned v = 0;
        if (row0 + r < n_rows && w0 + w < words_k) v = src[(size_t)(row0 + r) * words_k + w0 + w];
        dst[r * LDW + w] = v;
    }
}

extern "C" __global__ void bnn_linear_bin(const unsigned *__restrict__ x, const unsigned *__restrict__ w, const int *__restrict__ thr,
                                          const unsigned char *__restrict__ flip, unsigned *__restrict__ y, int *__restrict__ row_sum,
                                          int M, int N, int K, int words_k)
{
    __shared__ __align__(128) unsigned xs[BLK_M * LDW];
    __shared__ __align__(128) unsigned ws[BLK_N * LDW];
    __shared__ __align__(128) int cs[BLK_M][BLK_N];

    const int laneid = threadIdx.x & 31;
    const int warpid = threadIdx.x >> 5;
    const int m0 = blockIdx.y * BLK_M;
    const int n0 = blockIdx.x * BLK_N;

    FRAG_C acc[2];
    wmma::fill_fragment(acc[0], 0);
    wmma::fill_fragment(acc[1], 0);

    for (int w0 = 0; w0 < words_k; w0 += STEP_W) {
        stage(xs, x, BLK_M, m0, M, w0, words_k);
        stage(ws, w, BLK_N, n0, N, w0, words_k);
        __syncthreads();

        for (int kw = 0; kw < STEP_W; kw += 4) {
            FRAG_A a;
            FRAG_B b;
            wmma::load_matrix_sync(b, ws + warpid * 8 * LDW + kw, LDW * 32);
            for (int i = 0; i < 2; i++) {
                wmma::load_matrix_sync(a, xs + i * 8 * LDW + kw, LDW * 32);
                bmma_sync(acc[i], a, b, acc[i], bmmaBitOpXOR, bmmaAccumulateOpPOPC);
            }
        }
        __syncthreads();
    }

    // popcounts to scores
    for (int i = 0; i < 2; i++) {
        for (int t = 0; t < acc[i].num_elements; t++) acc[i].x[t] = K - 2 * acc[i].x[t];
        wmma::store_matrix_sync(&cs[i * 8][warpid * 8], acc[i], BLK_N, wmma::mem_row_major);
    }
    __syncthreads();

    // a warp packs a row: its lane is the channel
    const int n = n0 + laneid;
    const int words_n = (N + 31) / 32;
    const int t = n < N ? thr[n] : 0;
    const bool down = n < N ? flip[n] != 0 : false;
    for (int r = warpid; r < BLK_M; r += 4) {
        const int m = m0 + r;
        const int s = cs[r][laneid];
        const bool on = n < N && (down ? s < t : s >= t);
        const unsigned word = __ballot_sync(0xffffffffu, on);
        int sum = n < N ? s : 0;
        for (int d = 16; d >= 1; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
        if (laneid == 0 && m < M) {
            y[(size_t)m * words_n + blockIdx.x] = word;
            row_sum[(size_t)m * words_n + blockIdx.x] = sum;
        }
    }
}
