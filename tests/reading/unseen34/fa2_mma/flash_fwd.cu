// FlashAttention-2 forward with raw mma.sync, Ampere and newer.
//
//   q, k, v, o : [batch, seqlen, heads, head_dim]  (the layout of the official package)
//   lse        : [batch, heads, seqlen]
//
// One CTA = 64 queries of one head, 4 warps x 16 queries. Q lives in registers, S and P never
// leave registers, K and V tiles of 64 keys are copied with cp.async so that the copy of V
// hides behind QK^T and the copy of the next K behind PV.
//
// build: nvcc -O3 -std=c++17 -arch=sm_80 flash_fwd.cu -o flash_fwd
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#include "ptx_utils.cuh"

#define CUDA_OK(expr)                                                                        \
    do {                                                                                     \
        cudaError_t e = (expr);                                                              \
        if (e != cudaSuccess) {                                                              \
            std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e));   \
            std::exit(1);                                                                    \
        }                                                                                    \
    } while (0)

constexpr int kBlockM = 64;
constexpr int kBlockN = 64;
constexpr int kNThreads = 128;

struct FwdParams {
    const __half *q, *k, *v;
    __half *o;
    float *lse;
    int batch, seqlen, heads;
    float scale;
};

template <int HEAD_DIM>
__device__ __forceinline__ void copy_tile(uint32_t smem, const __half *g, int row0, int seqlen, int row_stride) {
    constexpr int kChunks = HEAD_DIM / 8;
#pragma unroll
    for (int i = threadIdx.x; i < 64 * kChunks; i += kNThreads) {
        const int r = i / kChunks, c = i % kChunks;
        const bool in = row0 + r < seqlen;
        const __half *src = g + (in ? (int64_t)(row0 + r) * row_stride + c * 8 : 0);
        cp_async_16(smem + swz<HEAD_DIM>(r, c), src, in);
    }
}

template <int HEAD_DIM, bool CAUSAL>
__global__ void __launch_bounds__(kNThreads) flash_fwd_kernel(const FwdParams p) {
    extern __shared__ __align__(128) __half smem[];
    const uint32_t sQ = smem_u32(smem);
    const uint32_t sK = sQ + kBlockM * HEAD_DIM * sizeof(__half);
    const uint32_t sV = sK + kBlockN * HEAD_DIM * sizeof(__half);

    const int m_block = blockIdx.x, head = blockIdx.y, b = blockIdx.z;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    const int row_stride = p.heads * HEAD_DIM;
    const int64_t offset = (int64_t)b * p.seqlen * row_stride + head * HEAD_DIM;
    const __half *gQ = p.q + offset, *gK = p.k + offset, *gV = p.v + offset;

    int n_blocks = (p.seqlen + kBlockN - 1) / kBlockN;
    if (CAUSAL) n_blocks = min(n_blocks, m_block + 1);

    copy_tile<HEAD_DIM>(sQ, gQ, m_block * kBlockM, p.seqlen, row_stride);
    copy_tile<HEAD_DIM>(sK, gK, 0, p.seqlen, row_stride);
    cp_async_commit();

    uint32_t q_frag[HEAD_DIM / 16][4];
    float acc_o[HEAD_DIM / 8][4];
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) acc_o[i][j] = 0.f;
    // a thread holds two rows of the warp's 16: lane / 4 and lane / 4 + 8
    float row_max[2] = {-INFINITY, -INFINITY};
    float row_sum[2] = {0.f, 0.f};
    const float scale_log2 = p.scale * 1.44269504088896340736f;

    for (int n = 0; n < n_blocks; ++n) {
        copy_tile<HEAD_DIM>(sV, gV, n * kBlockN, p.seqlen, row_stride);
        cp_async_commit();
        cp_async_wait<1>();   // K_n (and Q the first time) is here, V_n may be in flight
        __syncthreads();

        if (n == 0) {
#pragma unroll
            for (int kk = 0; kk < HEAD_DIM / 16; ++kk)
                ldmatrix_x4(q_frag[kk], sQ + swz<HEAD_DIM>(warp * 16 + lane % 16, kk * 2 + lane / 16));
        }

        // S = Q K^T, 16 x 64 per warp
        float acc_s[kBlockN / 8][4];
#pragma unroll
        for (int i = 0; i < kBlockN / 8; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) acc_s[i][j] = 0.f;
#pragma unroll
        for (int kk = 0; kk < HEAD_DIM / 16; ++kk) {
#pragma unroll
            for (int j = 0; j < kBlockN / 16; ++j) {
                uint32_t kf[4];   // {keys 0-7, d 0-7} {keys 0-7, d 8-15} {keys 8-15, d 0-7} {keys 8-15, d 8-15}
                const int key = j * 16 + (lane & 7) + ((lane >> 4) << 3);
                const int chunk = kk * 2 + ((lane >> 3) & 1);
                ldmatrix_x4(kf, sK + swz<HEAD_DIM>(key, chunk));
                mma_16816(acc_s[2 * j], q_frag[kk], kf[0], kf[1]);
                mma_16816(acc_s[2 * j + 1], q_frag[kk], kf[2], kf[3]);
            }
        }
        __syncthreads();      // everyone is done with K_n
        if (n + 1 < n_blocks) copy_tile<HEAD_DIM>(sK, gK, (n + 1) * kBlockN, p.seqlen, row_stride);
        cp_async_commit();

        // mask: only the last tile can contain keys past the end or in the future
        if (n == n_blocks - 1) {
            const int row = m_block * kBlockM + warp * 16 + lane / 4;
#pragma unroll
            for (int i = 0; i < kBlockN / 8; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const int col = n * kBlockN + i * 8 + (lane % 4) * 2 + (j & 1);
                    const int r = row + (j >> 1) * 8;
                    if (col >= p.seqlen || (CAUSAL && col > r)) acc_s[i][j] = -INFINITY;
                }
            }
        }

        // online softmax on the two rows, base 2
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float mx = row_max[h];
#pragma unroll
            for (int i = 0; i < kBlockN / 8; ++i) mx = fmaxf(mx, fmaxf(acc_s[i][2 * h], acc_s[i][2 * h + 1]));
            mx = fmaxf(mx, __shfl_xor_sync(0xffffffffu, mx, 1));
            mx = fmaxf(mx, __shfl_xor_sync(0xffffffffu, mx, 2));

            const float corr = exp2f((row_max[h] - mx) * scale_log2);
            const float mx_scaled = mx * scale_log2;
            float sum = 0.f;
#pragma unroll
            for (int i = 0; i < kBlockN / 8; ++i) {
                acc_s[i][2 * h] = exp2f(acc_s[i][2 * h] * scale_log2 - mx_scaled);
                acc_s[i][2 * h + 1] = exp2f(acc_s[i][2 * h + 1] * scale_log2 - mx_scaled);
                sum += acc_s[i][2 * h] + acc_s[i][2 * h + 1];
            }
            row_sum[h] = row_sum[h] * corr + sum;   // per thread, reduced over the quad at the end
            row_max[h] = mx;
#pragma unroll
            for (int i = 0; i < HEAD_DIM / 8; ++i) {
                acc_o[i][2 * h] *= corr;
                acc_o[i][2 * h + 1] *= corr;
            }
        }

        cp_async_wait<1>();   // V_n is here, K_{n+1} may be in flight
        __syncthreads();

        // O += P V; the accumulator layout of S is the A operand layout of the next mma
#pragma unroll
        for (int kk = 0; kk < kBlockN / 16; ++kk) {
            uint32_t pf[4];
            pf[0] = pack_half2(acc_s[2 * kk][0], acc_s[2 * kk][1]);
            pf[1] = pack_half2(acc_s[2 * kk][2], acc_s[2 * kk][3]);
            pf[2] = pack_half2(acc_s[2 * kk + 1][0], acc_s[2 * kk + 1][1]);
            pf[3] = pack_half2(acc_s[2 * kk + 1][2], acc_s[2 * kk + 1][3]);
#pragma unroll
            for (int j = 0; j < HEAD_DIM / 16; ++j) {
                uint32_t vf[4];   // {keys 0-7, d 0-7} {keys 8-15, d 0-7} {keys 0-7, d 8-15} {keys 8-15, d 8-15}
                ldmatrix_x4_trans(vf, sV + swz<HEAD_DIM>(kk * 16 + lane % 16, j * 2 + lane / 16));
                mma_16816(acc_o[2 * j], pf, vf[0], vf[1]);
                mma_16816(acc_o[2 * j + 1], pf, vf[2], vf[3]);
            }
        }
        __syncthreads();      // everyone is done with V_n
    }

    __half *gO = p.o + offset;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float sum = row_sum[h];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        const float inv = 1.f / sum;
        const int row = m_block * kBlockM + warp * 16 + lane / 4 + h * 8;
        if (row < p.seqlen) {
#pragma unroll
            for (int i = 0; i < HEAD_DIM / 8; ++i) {
                const int col = i * 8 + (lane % 4) * 2;
                *reinterpret_cast<__half2 *>(gO + (int64_t)row * row_stride + col) =
                    __floats2half2_rn(acc_o[i][2 * h] * inv, acc_o[i][2 * h + 1] * inv);
            }
            if (lane % 4 == 0)
                p.lse[((int64_t)b * p.heads + head) * p.seqlen + row] = row_max[h] * p.scale + logf(sum);
        }
    }
}

template <int HEAD_DIM>
void run_flash_fwd(const FwdParams &p, bool causal, cudaStream_t stream) {
    const size_t smem = (kBlockM + 2 * kBlockN) * HEAD_DIM * sizeof(__half);   // 24 KB / 48 KB
    dim3 grid((p.seqlen + kBlockM - 1) / kBlockM, p.heads, p.batch);
    if (causal)
        flash_fwd_kernel<HEAD_DIM, true><<<grid, kNThreads, smem, stream>>>(p);
    else
        flash_fwd_kernel<HEAD_DIM, false><<<grid, kNThreads, smem, stream>>>(p);
    CUDA_OK(cudaGetLastError());
}

static void reference(const std::vector<float> &q, const std::vector<float> &k, const std::vector<float> &v,
                      std::vector<float> &o, std::vector<float> &lse, int B, int S, int H, int D, bool causal) {
    auto at = [&](int b, int s, int h, int d) { return (((size_t)b * S + s) * H + h) * D + d; };
    std::vector<double> w(S);
    for (int b = 0; b < B; ++b)
        for (int h = 0; h < H; ++h)
            for (int i = 0; i < S; ++i) {
                const int len = causal ? i + 1 : S;
                double mx = -DBL_MAX, sum = 0;
                for (int j = 0; j < len; ++j) {
                    double dot = 0;
                    for (int d = 0; d < D; ++d) dot += (double)q[at(b, i, h, d)] * k[at(b, j, h, d)];
                    w[j] = dot / std::sqrt((double)D);
                    mx = std::max(mx, w[j]);
                }
                for (int j = 0; j < len; ++j) sum += (w[j] = std::exp(w[j] - mx));
                for (int d = 0; d < D; ++d) {
                    double a = 0;
                    for (int j = 0; j < len; ++j) a += w[j] * v[at(b, j, h, d)];
                    o[at(b, i, h, d)] = (float)(a / sum);
                }
                lse[((size_t)b * H + h) * S + i] = (float)(mx + std::log(sum));
            }
}

template <int HEAD_DIM>
bool test(int B, int S, int H, bool causal) {
    const size_t n = (size_t)B * S * H * HEAD_DIM;
    std::vector<float> f[3];
    std::vector<__half> h(n);
    __half *d[4];
    for (int t = 0; t < 3; ++t) {
        f[t].resize(n);
        for (size_t i = 0; i < n; ++i) {
            h[i] = __float2half(4.f * rand() / RAND_MAX - 2.f);
            f[t][i] = __half2float(h[i]);
        }
        CUDA_OK(cudaMalloc((void **)&d[t], n * sizeof(__half)));
        CUDA_OK(cudaMemcpy(d[t], h.data(), n * sizeof(__half), cudaMemcpyHostToDevice));
    }
    float *d_lse;
    CUDA_OK(cudaMalloc((void **)&d[3], n * sizeof(__half)));
    CUDA_OK(cudaMalloc((void **)&d_lse, (size_t)B * H * S * sizeof(float)));

    FwdParams p{d[0], d[1], d[2], d[3], d_lse, B, S, H, 1.f / std::sqrt((float)HEAD_DIM)};
    run_flash_fwd<HEAD_DIM>(p, causal, 0);
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaMemcpy(h.data(), d[3], n * sizeof(__half), cudaMemcpyDeviceToHost));
    std::vector<float> lse((size_t)B * H * S), ref(n), ref_lse(lse.size());
    CUDA_OK(cudaMemcpy(lse.data(), d_lse, lse.size() * sizeof(float), cudaMemcpyDeviceToHost));

    reference(f[0], f[1], f[2], ref, ref_lse, B, S, H, HEAD_DIM, causal);
    float err = 0.f, err_lse = 0.f;
    for (size_t i = 0; i < n; ++i) {
        float e = std::fabs(__half2float(h[i]) - ref[i]);
        if (e > err || std::isnan(e)) err = e;
    }
    for (size_t i = 0; i < lse.size(); ++i) {
        float e = std::fabs(lse[i] - ref_lse[i]);
        if (e > err_lse || std::isnan(e)) err_lse = e;
    }
    const bool ok = err < 4e-3f && err_lse < 1e-3f;
    std::printf("B=%d S=%4d H=%d D=%3d causal=%d   max|dO|=%.2e  max|dLSE|=%.2e   %s\n", B, S, H, HEAD_DIM, causal,
                err, err_lse, ok ? "ok" : "FAILED");
    for (auto *x : d) CUDA_OK(cudaFree(x));
    CUDA_OK(cudaFree(d_lse));
    return ok;
}

int main() {
    bool ok = true;
    for (int causal = 0; causal < 2; ++causal) {
        ok &= test<64>(2, 128, 3, causal);
        ok &= test<64>(1, 333, 2, causal);
        ok &= test<128>(1, 256, 2, causal);
        ok &= test<128>(2, 77, 1, causal);
    }
    return ok ? 0 : 1;
}
