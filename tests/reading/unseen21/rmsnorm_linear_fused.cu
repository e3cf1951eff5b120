// y = rmsnorm(x) W^T: the norm is applied while activations are staged, so the normalised x never reaches global memory.
//   x [tokens, hidden], norm_weight [hidden], weight [out_features, hidden], y [tokens, out_features]; all bf16
#include <cassert>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

namespace llm {
namespace kernels {

template <int N>
struct alignas(N * sizeof(__nv_bfloat16)) Vec {
    __nv_bfloat16 v[N];
};

template <int BLOCK>
__device__ float block_reduce_sum(float val) {
    __shared__ float partial[BLOCK / 32];
    __shared__ float total;
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) val += __shfl_xor_sync(0xffffffff, val, mask);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = val;
    __syncthreads();
    if (threadIdx.x == 0) {
        float s = 0.f;
        for (int i = 0; i < BLOCK / 32; ++i) s += partial[i];
        total = s;
    }
    __syncthreads();
    return total;
}

template <int TOKENS, int COLS, int KSTEP>
__global__ void __launch_bounds__((COLS / 16) * 32)
rmsnorm_linear_kernel(__nv_bfloat16* __restrict__ y, const __nv_bfloat16* __restrict__ x,
                      const __nv_bfloat16* __restrict__ norm_weight, const __nv_bfloat16* __restrict__ weight, float eps,
                      int tokens, int hidden, int out_features) {
    static_assert(TOKENS == 16, "one fragment of rows");
    constexpr int THREADS = (COLS / 16) * 32;
    constexpr int LD = KSTEP + 8;
    __shared__ __align__(32) __nv_bfloat16 xs[TOKENS * LD];
    __shared__ __align__(32) __nv_bfloat16 ws[COLS * LD];
    __shared__ __align__(32) float ys[TOKENS * (COLS + 4)];
    __shared__ float rms_inv[TOKENS];

    const int token0 = blockIdx.y * TOKENS;
    const int col0 = blockIdx.x * COLS;
    const int warp = threadIdx.x / 32;

    for (int t = 0; t < TOKENS; ++t) {
        float ss = 0.f;
        if (token0 + t < tokens) {
            const __nv_bfloat16* row = x + (size_t)(token0 + t) * hidden;
            for (int i = threadIdx.x * 4; i < hidden; i += THREADS * 4) {
                const Vec<4> p = *reinterpret_cast<const Vec<4>*>(row + i);
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const float f = __bfloat162float(p.v[j]);
                    ss += f * f;
                }
            }
        }
        ss = block_reduce_sum<THREADS>(ss);
        if (threadIdx.x == 0) rms_inv[t] = rsqrtf(ss / hidden + eps);
    }

    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc;
    nvcuda::wmma::fill_fragment(acc, 0.f);

    for (int k0 = 0; k0 < hidden; k0 += KSTEP) {
        __syncthreads();
        for (int i = threadIdx.x; i < TOKENS * KSTEP; i += THREADS) {
            const int r = i / KSTEP, c = i % KSTEP;
            float f = 0.f;
            if (token0 + r < tokens) {
                f = __bfloat162float(x[(size_t)(token0 + r) * hidden + k0 + c]);
                f = f * rms_inv[r] * __bfloat162float(norm_weight[k0 + c]);
            }
            xs[r * LD + c] = __float2bfloat16(f);
        }
        for (int i = threadIdx.x * 8; i < COLS * KSTEP; i += THREADS * 8) {
            const int r = i / KSTEP, c = i % KSTEP;
            if (col0 + r < out_features) {
                *reinterpret_cast<Vec<8>*>(&ws[r * LD + c]) =
                    *reinterpret_cast<const Vec<8>*>(&weight[(size_t)(col0 + r) * hidden + k0 + c]);
            } else {
#pragma unroll
                for (int j = 0; j < 8; ++j) ws[r * LD + c + j] = __float2bfloat16(0.f);
            }
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < KSTEP; kk += 16) {
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __nv_bfloat16, nvcuda::wmma::row_major> a;
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __nv_bfloat16, nvcuda::wmma::col_major> b;
            nvcuda::wmma::load_matrix_sync(a, xs + kk, LD);
            nvcuda::wmma::load_matrix_sync(b, ws + warp * 16 * LD + kk, LD);
            nvcuda::wmma::mma_sync(acc, a, b, acc);
        }
    }

    nvcuda::wmma::store_matrix_sync(ys + warp * 16, acc, COLS + 4, nvcuda::wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < TOKENS * COLS; i += THREADS) {
        const int r = i / COLS, c = i % COLS;
        if (token0 + r < tokens && col0 + c < out_features)
            y[(size_t)(token0 + r) * out_features + col0 + c] = __float2bfloat16(ys[r * (COLS + 4) + c]);
    }
}

void rmsnorm_linear_forward(__nv_bfloat16* y, const __nv_bfloat16* x, const __nv_bfloat16* norm_weight,
                            const __nv_bfloat16* weight, float eps, int tokens, int hidden, int out_features,
                            cudaStream_t stream) {
    assert(hidden % 64 == 0);
    constexpr int kTokens = 16, kCols = 64, kStep = 64;
    dim3 grid((out_features + kCols - 1) / kCols, (tokens + kTokens - 1) / kTokens);
    rmsnorm_linear_kernel<kTokens, kCols, kStep>
        <<<grid, (kCols / 16) * 32, 0, stream>>>(y, x, norm_weight, weight, eps, tokens, hidden, out_features);
}

}  // namespace kernels
}  // namespace llm
