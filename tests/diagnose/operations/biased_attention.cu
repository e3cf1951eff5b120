// softmax(cap * tanh(scale * Q K^T / cap) + bias) V with a length per sequence; 16 queries of one head per block
#include <cuda_fp16.h>
#include <mma.h>

constexpr int ROWS = 16, HD = 32, MAXK = 96, PITCH = MAXK + 4;

__device__ float capped(float x, float cap) { return cap * tanhf(x / cap); }

__global__ void biased_attention(const half* q, const half* k, const half* v, const half* rel_bias,
                                 const int* kv_lens, half* o, int heads, int nq, int nk, float scale, float cap)
{
    using namespace nvcuda;
    __shared__ __align__(32) float s[ROWS][PITCH];
    __shared__ __align__(32) half p[ROWS][MAXK + 8];
    __shared__ __align__(32) float acc[ROWS][HD + 4];
    __shared__ float total[ROWS];
    const int bh = blockIdx.y, b = bh / heads, h = bh % heads, row0 = blockIdx.x * ROWS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const half* Q = q + (size_t)(bh * nq + row0) * HD;
    const half* K = k + (size_t)bh * nk * HD;
    const half* V = v + (size_t)bh * nk * HD;

    for (int t = warp; t < nk / 16; t += warps) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
        wmma::fill_fragment(c, 0.0f);
        for (int d = 0; d < HD; d += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
            wmma::load_matrix_sync(fa, Q + d, HD);
            wmma::load_matrix_sync(fb, K + t * 16 * HD + d, HD);
            wmma::mma_sync(c, fa, fb, c);
        }
        wmma::store_matrix_sync(&s[0][t * 16], c, PITCH, wmma::mem_row_major);
    }
    __syncthreads();
    const int visible = kv_lens[b];
    for (int r = warp; r < ROWS; r += warps) {
        const half* bias_row = rel_bias + (size_t)(h * nq + row0 + r) * nk;
        float best = -INFINITY;
        for (int j = lane; j < nk; j += 32) {
            float x = capped(s[r][j] * scale, cap) + __half2float(bias_row[j]);
            if (j >= visible) x = -INFINITY;
            s[r][j] = x;
            best = fmaxf(best, x);
        }
        for (int m = 16; m; m /= 2) best = fmaxf(best, __shfl_xor_sync(~0u, best, m));
        float sum = 0.0f;
        for (int j = lane; j < nk; j += 32) {
            const float e = __expf(s[r][j] - best);
            p[r][j] = __float2half(e);
            sum += e;
        }
        for (int m = 16; m; m /= 2) sum += __shfl_xor_sync(~0u, sum, m);
        if (lane == 0) total[r] = sum;
    }
    __syncthreads();
    for (int t = warp; t < HD / 16; t += warps) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
        wmma::fill_fragment(c, 0.0f);
        for (int j = 0; j < nk; j += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
            wmma::load_matrix_sync(fa, &p[0][j], MAXK + 8);
            wmma::load_matrix_sync(fb, V + j * HD + t * 16, HD);
            wmma::mma_sync(c, fa, fb, c);
        }
        wmma::store_matrix_sync(&acc[0][t * 16], c, HD + 4, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < ROWS * HD; i += blockDim.x)
        o[(size_t)(bh * nq + row0) * HD + i] = __float2half(acc[i / HD][i % HD] / total[i / HD]);
}
