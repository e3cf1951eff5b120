// Fused BertSelfOutput: dense -> bias -> dropout -> residual -> LayerNorm, forward, fp16 with fp32 accumulation.
//
//   out = LayerNorm(dropout(x @ weight^T + bias) + residual) * gamma + beta
//
// weight is laid out as nn.Linear has it, [HIDDEN, K]. The dropout mask is drawn outside (one byte per element) and
// kept for the backward pass, as are mean and rstd of each row.
// A block owns 16 complete rows, so that the row statistics never leave the block.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdint.h>

using namespace nvcuda;

#define CHECK_HALF(x) TORCH_CHECK(x.scalar_type() == at::ScalarType::Half, #x " must be half")

namespace {

constexpr int ROWS = 16;
constexpr int BLOCK_K = 32;
constexpr int NUM_WARPS = 4;
constexpr int NUM_THREADS = NUM_WARPS * 32;
constexpr int SKEW = 8;
constexpr int LDT = BLOCK_K + SKEW;

struct alignas(16) half8 { half v[8]; };

__device__ __forceinline__ float warp_all_sum(float x) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffff, x, offset);
    return x;
}

template <int HIDDEN>
__global__ void __launch_bounds__(NUM_THREADS)
fused_dense_dropout_add_ln_fwd(const half* __restrict__ x,         // [M, K]
                               const half* __restrict__ weight,    // [HIDDEN, K]
                               const half* __restrict__ bias,      // [HIDDEN]
                               const half* __restrict__ residual,  // [M, HIDDEN]
                               const uint8_t* __restrict__ drop_mask,  // [M, HIDDEN], 1 keeps
                               const half* __restrict__ gamma, const half* __restrict__ beta, half* __restrict__ out,
                               float* __restrict__ mean, float* __restrict__ rstd, int M, int K, float keep_scale,
                               float eps) {
    constexpr int LDC = HIDDEN + 4;
    constexpr int WARP_COLS = HIDDEN / NUM_WARPS;
    constexpr int FRAGS = WARP_COLS / 16;
    constexpr int PER_LANE = HIDDEN / 32;
    static_assert(HIDDEN % (NUM_WARPS * 16) == 0, "each warp needs whole fragments");

    __shared__ __align__(32) half x_tile[ROWS * LDT];
    __shared__ __align__(32) half w_tile[HIDDEN * LDT];
    __shared__ __align__(32) float c_tile[ROWS * LDC];

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int row0 = blockIdx.x * ROWS;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[FRAGS];
#pragma unroll
    for (int f = 0; f < FRAGS; ++f) wmma::fill_fragment(acc[f], 0.0f);

    // ---- dense -----------------------------------------------------------------------------------------------
    for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
        for (int i = threadIdx.x; i < ROWS * BLOCK_K / 8; i += NUM_THREADS) {
            const int r = i / (BLOCK_K / 8);
            const int c = i % (BLOCK_K / 8) * 8;
            half8 chunk = {};
            if (row0 + r < M) chunk = *reinterpret_cast<const half8*>(x + (row0 + r) * K + k0 + c);
            *reinterpret_cast<half8*>(x_tile + r * LDT + c) = chunk;
        }
        for (int i = threadIdx.x; i < HIDDEN * BLOCK_K / 8; i += NUM_THREADS) {
            const int n = i / (BLOCK_K / 8);
            const int kk = i % (BLOCK_K / 8) * 8;
            *reinterpret_cast<half8*>(w_tile + n * LDT + kk) = *reinterpret_cast<const half8*>(weight + n * K + k0 + kk);
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < BLOCK_K; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::load_matrix_sync(a, x_tile + kk, LDT);
#pragma unroll
            for (int f = 0; f < FRAGS; ++f) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
                wmma::load_matrix_sync(b, w_tile + (warp * WARP_COLS + f * 16) * LDT + kk, LDT);
                wmma::mma_sync(acc[f], a, b, acc[f]);
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int f = 0; f < FRAGS; ++f)
        wmma::store_matrix_sync(c_tile + warp * WARP_COLS + f * 16, acc[f], LDC, wmma::mem_row_major);
    __syncthreads();

    // ---- bias, dropout, residual, LayerNorm: a warp takes a row ------------------------------------------------
    for (int r = warp; r < ROWS; r += NUM_WARPS) {
        const int row = row0 + r;
        if (row >= M) break;  // the same for all lanes

        float vals[PER_LANE];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < PER_LANE; ++i) {
            const int col = i * 32 + lane;
            float h = c_tile[r * LDC + col] + __half2float(bias[col]);
            h = drop_mask[row * HIDDEN + col] ? h * keep_scale : 0.0f;
            vals[i] = h + __half2float(residual[row * HIDDEN + col]);
            sum += vals[i];
        }
        const float mu = warp_all_sum(sum) / HIDDEN;

        float sq = 0.0f;
#pragma unroll
        for (int i = 0; i < PER_LANE; ++i) {
            const float d = vals[i] - mu;
            sq += d * d;
        }
        const float inv_std = rsqrtf(warp_all_sum(sq) / HIDDEN + eps);

#pragma unroll
        for (int i = 0; i < PER_LANE; ++i) {
            const int col = i * 32 + lane;
            const float g = __half2float(gamma[col]);
            const float b = __half2float(beta[col]);
            out[row * HIDDEN + col] = __float2half((vals[i] - mu) * inv_std * g + b);
        }
        if (lane == 0) {
            mean[row] = mu;
            rstd[row] = inv_std;
        }
    }
}

}  // namespace

template <int HIDDEN>
void launch_fused_dense_dropout_add_ln(const half* x, const half* weight, const half* bias, const half* residual,
                                       const uint8_t* drop_mask, const half* gamma, const half* beta, half* out,
                                       float* mean, float* rstd, int M, int K, float p, float eps, cudaStream_t stream) {
    const int blocks = (M + ROWS - 1) / ROWS;
    fused_dense_dropout_add_ln_fwd<HIDDEN><<<blocks, NUM_THREADS, 0, stream>>>(
        x, weight, bias, residual, drop_mask, gamma, beta, out, mean, rstd, M, K, 1.0f / (1.0f - p), eps);
}
template void launch_fused_dense_dropout_add_ln<128>(const half*, const half*, const half*, const half*, const uint8_t*,
                                                     const half*, const half*, half*, float*, float*, int, int, float,
                                                     float, cudaStream_t);
