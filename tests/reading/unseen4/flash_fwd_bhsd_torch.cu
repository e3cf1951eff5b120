// FlashAttention forward, WMMA, [B, H, S, D], head dim and causality as template parameters.
#include <torch/types.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <float.h>

using namespace nvcuda;

template <int HEAD_DIM, bool IS_CAUSAL, int BR = 32, int BC = 32>
__global__ void flash_fwd_kernel(const half *__restrict__ Q, const half *__restrict__ K, const half *__restrict__ V,
                                 half *__restrict__ O, float *__restrict__ L, const int seq_len,
                                 const float softmax_scale) {
    constexpr int NWARPS = BR / 16;
    extern __shared__ char smem_raw[];
    half *sQ = reinterpret_cast<half *>(smem_raw);
    half *sK = sQ + BR * HEAD_DIM;
    half *sV = sK + BC * HEAD_DIM;
    float *sS = reinterpret_cast<float *>(sV + BC * HEAD_DIM);
    half *sP = reinterpret_cast<half *>(sS + BR * BC);
    float *sO = reinterpret_cast<float *>(sP + BR * BC);
    float *sM = sO + BR * HEAD_DIM;
    float *sL = sM + BR;

    const int tid = threadIdx.x, nthr = NWARPS * 32;
    const int warp = tid / 32, lane = tid % 32;
    const long base = (long)blockIdx.y * seq_len * HEAD_DIM;
    const int q0 = blockIdx.x * BR;

    for (int i = tid; i < BR * HEAD_DIM; i += nthr) {
        int r = i / HEAD_DIM;
        sQ[i] = (q0 + r < seq_len) ? Q[base + (long)q0 * HEAD_DIM + i] : __float2half(0.f);
        sO[i] = 0.f;
    }
    for (int i = tid; i < BR; i += nthr) {
        sM[i] = -FLT_MAX;
        sL[i] = 0.f;
    }
    __syncthreads();

    const int kv_end = IS_CAUSAL ? min(seq_len, q0 + BR) : seq_len;
    for (int k0 = 0; k0 < kv_end; k0 += BC) {
        for (int i = tid; i < BC * HEAD_DIM; i += nthr) {
            int r = i / HEAD_DIM;
            bool ok = k0 + r < seq_len;
            sK[i] = ok ? K[base + (long)k0 * HEAD_DIM + i] : __float2half(0.f);
            sV[i] = ok ? V[base + (long)k0 * HEAD_DIM + i] : __float2half(0.f);
        }
        __syncthreads();
        for (int j = 0; j < BC / 16; j++) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
            wmma::fill_fragment(s, 0.f);
            for (int d = 0; d < HEAD_DIM; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
                wmma::load_matrix_sync(a, sQ + warp * 16 * HEAD_DIM + d, HEAD_DIM);
                wmma::load_matrix_sync(b, sK + j * 16 * HEAD_DIM + d, HEAD_DIM);
                wmma::mma_sync(s, a, b, s);
            }
            wmma::store_matrix_sync(sS + warp * 16 * BC + j * 16, s, BC, wmma::mem_row_major);
        }
        __syncwarp();
        // one lane pair per row would do; keep it simple: the first 16 lanes own a row each
        if (lane < 16) {
            int r = warp * 16 + lane;
            float m_old = sM[r], m_new = m_old;
            for (int c = 0; c < BC; c++) {
                bool visible = (k0 + c < seq_len) && (!IS_CAUSAL || k0 + c <= q0 + r);
                float v = visible ? sS[r * BC + c] * softmax_scale : -FLT_MAX;
                sS[r * BC + c] = v;
                m_new = fmaxf(m_new, v);
            }
            float corr = __expf(m_old - m_new), sum = 0.f;
            for (int c = 0; c < BC; c++) {
                float v = sS[r * BC + c];
                float p = v == -FLT_MAX ? 0.f : __expf(v - m_new);
                sum += p;
                sP[r * BC + c] = __float2half(p);
            }
            sL[r] = sL[r] * corr + sum;
            sM[r] = m_new;
            for (int d = 0; d < HEAD_DIM; d++) sO[r * HEAD_DIM + d] *= corr;
        }
        __syncwarp();
        for (int j = 0; j < HEAD_DIM / 16; j++) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
            wmma::load_matrix_sync(o, sO + warp * 16 * HEAD_DIM + j * 16, HEAD_DIM, wmma::mem_row_major);
            for (int c = 0; c < BC; c += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
                wmma::load_matrix_sync(a, sP + warp * 16 * BC + c, BC);
                wmma::load_matrix_sync(b, sV + c * HEAD_DIM + j * 16, HEAD_DIM);
                wmma::mma_sync(o, a, b, o);
            }
            wmma::store_matrix_sync(sO + warp * 16 * HEAD_DIM + j * 16, o, HEAD_DIM, wmma::mem_row_major);
        }
        __syncthreads();
    }
    for (int i = tid; i < BR * HEAD_DIM; i += nthr) {
        int r = i / HEAD_DIM;
        if (q0 + r < seq_len) O[base + (long)q0 * HEAD_DIM + i] = __float2half(sO[i] / sL[r]);
    }
    for (int r = tid; r < BR; r += nthr)
        if (q0 + r < seq_len) L[(long)blockIdx.y * seq_len + q0 + r] = sM[r] + logf(sL[r]);
}

template <int HEAD_DIM, bool IS_CAUSAL>
static void run_flash(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor o, torch::Tensor lse, float scale) {
    constexpr int BR = 32, BC = 32;
    const int B = q.size(0), H = q.size(1), S = q.size(2);
    const size_t smem = (BR + 2 * BC) * HEAD_DIM * sizeof(half) + BR * BC * (sizeof(float) + sizeof(half)) +
                        BR * HEAD_DIM * sizeof(float) + 2 * BR * sizeof(float);
    auto kernel = flash_fwd_kernel<HEAD_DIM, IS_CAUSAL, BR, BC>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
    dim3 grid((S + BR - 1) / BR, B * H);
    kernel<<<grid, BR / 16 * 32, smem>>>((half *)q.data_ptr(), (half *)k.data_ptr(), (half *)v.data_ptr(),
                                         (half *)o.data_ptr(), lse.data_ptr<float>(), S, scale);
}

#define DISPATCH_HEAD_DIM(D, ...)                                       \
    switch (D) {                                                        \
        case 32: { constexpr int HD = 32; __VA_ARGS__; break; }         \
        case 64: { constexpr int HD = 64; __VA_ARGS__; break; }         \
        case 128: { constexpr int HD = 128; __VA_ARGS__; break; }       \
        default: TORCH_CHECK(false, "unsupported head dim ", D);        \
    }

std::vector<torch::Tensor> flash_attn_fwd(torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal) {
    auto o = torch::empty_like(q);
    auto lse = torch::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(torch::kFloat32));
    const int D = q.size(3);
    const float scale = 1.0f / sqrtf((float)D);
    DISPATCH_HEAD_DIM(D, {
        if (causal) run_flash<HD, true>(q, k, v, o, lse, scale);
        else run_flash<HD, false>(q, k, v, o, lse, scale);
    });
    return {o, lse};
}
