/*
 * Mixture density head, fused: z = hidden * W + b, then the negative log-likelihood of a two-dimensional target under
 * a mixture of 16 isotropic Gaussians, and the responsibilities (needed by the backward pass).
 *
 * Columns of z:   0..15 mixture logits | 16..31 mean x | 32..47 mean y | 48..63 raw width (softplus)
 *
 * WMMA, bf16 in, fp32 accumulate. A block of four warps takes 64 rows, a warp all 64 columns of its 16 rows.
 */
#include <mma.h>
#include <cuda_bf16.h>
#include <math_constants.h>

using namespace nvcuda;

constexpr int kMix     = 16;
constexpr int kCols    = 4 * kMix;
constexpr int kWarps   = 4;
constexpr int kRows    = 16 * kWarps;
constexpr int kDepth   = 32;             // slice of the hidden dimension
constexpr int kPadH    = 8;
constexpr int kLdHid   = kDepth + kPadH;
constexpr int kLdW     = kCols + kPadH;
constexpr int kLdZ     = kCols + 4;
constexpr float kMinSigma = 1e-2f;

union Smem {
    struct {
        __nv_bfloat16 hid[kRows * kLdHid];
        __nv_bfloat16 w[kDepth * kLdW];
    } in;
    float z[kRows * kLdZ];
};

__device__ __forceinline__ float softplus(float x) { return x > 20.f ? x : log1pf(expf(x)); }

// maximum and sum over the 16 lanes that share a row
__device__ __forceinline__ float max16(float v)
{
    for (int o = 8; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
    return v;
}
__device__ __forceinline__ float sum16(float v)
{
    for (int o = 8; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

__global__ void __launch_bounds__(32 * kWarps)
mdn_nll_kernel(const __nv_bfloat16 *__restrict__ hidden,   // [n, d]
               const __nv_bfloat16 *__restrict__ weight,   // [d, 64]
               const float *__restrict__ bias,             // [64]
               const float2 *__restrict__ target,          // [n]
               float *__restrict__ nll,                    // [n]
               float *__restrict__ resp,                   // [n, 16]
               int n, int d)
{
    __shared__ __align__(32) Smem sm;

    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int row0 = blockIdx.x * kRows;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[4];
    for (auto &f : acc) wmma::fill_fragment(f, 0.0f);

    for (int k0 = 0; k0 < d; k0 += kDepth) {
        // hidden: two values at a time, d is even
        for (int i = tid; i < kRows * kDepth / 2; i += blockDim.x) {
            const int r = i / (kDepth / 2), c = 2 * (i % (kDepth / 2));
            __nv_bfloat162 v = __floats2bfloat162_rn(0.f, 0.f);
            if (row0 + r < n && k0 + c < d)
                v = *reinterpret_cast<const __nv_bfloat162 *>(hidden + (size_t)(row0 + r) * d + k0 + c);
            *reinterpret_cast<__nv_bfloat162 *>(&sm.in.hid[r * kLdHid + c]) = v;
        }
        for (int i = tid; i < kDepth * kCols / 8; i += blockDim.x) {
            const int r = i / (kCols / 8), c = 8 * (i % (kCols / 8));
            uint4 v = make_uint4(0, 0, 0, 0);
            if (k0 + r < d) v = *reinterpret_cast<const uint4 *>(weight + (size_t)(k0 + r) * kCols + c);
            *reinterpret_cast<uint4 *>(&sm.in.w[r * kLdW + c]) = v;
        }
        __syncthreads();

        for (int kk = 0; kk < kDepth; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
            wmma::load_matrix_sync(a, &sm.in.hid[warp * 16 * kLdHid + kk], kLdHid);
            for (int t = 0; t < 4; ++t) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b;
                wmma::load_matrix_sync(b, &sm.in.w[kk * kLdW + t * 16], kLdW);
                wmma::mma_sync(acc[t], a, b, acc[t]);
            }
        }
        __syncthreads();                 // also before z takes the place of the operands
    }

    float *z = sm.z + warp * 16 * kLdZ;
    for (int t = 0; t < 4; ++t) wmma::store_matrix_sync(z + t * 16, acc[t], kLdZ, wmma::mem_row_major);
    __syncwarp();

    // half a warp per row, a lane per component
    const int m = lane % kMix;
    const float b_pi = bias[m], b_mx = bias[kMix + m], b_my = bias[2 * kMix + m], b_s = bias[3 * kMix + m];
    for (int r = lane / kMix; r < 16; r += 2) {
        const int row = row0 + warp * 16 + r;
        const float *zr = z + r * kLdZ;

        const float logit = zr[m] + b_pi;
        const float top = max16(logit);
        const float log_pi = logit - top - logf(sum16(expf(logit - top)));

        const float sigma = softplus(zr[3 * kMix + m] + b_s) + kMinSigma;
        const float2 y = row < n ? target[row] : make_float2(0.f, 0.f);
        const float dx = (y.x - (zr[kMix + m] + b_mx)) / sigma;
        const float dy = (y.y - (zr[2 * kMix + m] + b_my)) / sigma;
        // log N(y; mu, sigma^2 I) in two dimensions
        const float log_n = -0.5f * (dx * dx + dy * dy) - 2.f * logf(sigma) - logf(2.f * CUDART_PI_F);

        const float joint = log_pi + log_n;
        const float best = max16(joint);
        const float e = expf(joint - best);
        const float total = sum16(e);
        if (row < n) {
            resp[(size_t)row * kMix + m] = e / total;
            if (m == 0) nll[row] = -(best + logf(total));
        }
    }
}
