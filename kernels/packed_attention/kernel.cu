// Variable-length attention: packed q, k, v [total, H, D] and cumulative lengths [B + 1].
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

template <int D, int N = 32>
__global__ void varlen_fwd(const half *__restrict__ q, const half *__restrict__ k, const half *__restrict__ v,
                           half *__restrict__ out, const int *__restrict__ cu_seqlens, const int num_heads,
                           const float scale) {
    __shared__ __align__(32) half qs[16 * D];
    __shared__ __align__(32) half ks[N * D];
    __shared__ __align__(32) half vs[N * D];
    __shared__ __align__(32) half ps[16 * N];
    __shared__ __align__(32) float ss[16 * N];
    __shared__ __align__(32) float os[16 * D];
    __shared__ float mi[16], li[16], ci[16];
    const int b = blockIdx.z, h = blockIdx.y;
    const int begin = cu_seqlens[b], end = cu_seqlens[b + 1];
    const int len = end - begin;
    const int q0 = blockIdx.x * 16;
    if (q0 >= len) return;
    const int stride = num_heads * D;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, nthreads = blockDim.x;

    for (int i = threadIdx.x; i < 16 * D; i += nthreads) {
        int r = i / D, c = i % D;
        qs[i] = q0 + r < len ? q[(size_t)(begin + q0 + r) * stride + h * D + c] : half(0.f);
        os[i] = 0.f;
    }
    if (threadIdx.x < 16) {
        mi[threadIdx.x] = -INFINITY;
        li[threadIdx.x] = 0.f;
    }
    for (int n0 = 0; n0 < len; n0 += N) {
        __syncthreads();
        for (int i = threadIdx.x; i < N * D; i += nthreads) {
            int r = i / D, c = i % D;
            bool ok = n0 + r < len;
            ks[i] = ok ? k[(size_t)(begin + n0 + r) * stride + h * D + c] : half(0.f);
            vs[i] = ok ? v[(size_t)(begin + n0 + r) * stride + h * D + c] : half(0.f);
        }
        __syncthreads();
        if (warp < N / 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::fill_fragment(acc, 0.f);
            for (int d = 0; d < D; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> bb;
                wmma::load_matrix_sync(a, qs + d, D);
                wmma::load_matrix_sync(bb, ks + warp * 16 * D + d, D);
                wmma::mma_sync(acc, a, bb, acc);
            }
            wmma::store_matrix_sync(ss + warp * 16, acc, N, wmma::mem_row_major);
        }
        __syncthreads();
        if (threadIdx.x < 16) {
            int r = threadIdx.x;
            float m = mi[r];
            for (int c = 0; c < N; c++)
                if (n0 + c < len) m = fmaxf(m, ss[r * N + c] * scale);
            float corr = expf(mi[r] - m), l = 0.f;
            for (int c = 0; c < N; c++) {
                float p = n0 + c < len ? expf(ss[r * N + c] * scale - m) : 0.f;
                ps[r * N + c] = __float2half(p);
                l += p;
            }
            li[r] = li[r] * corr + l;
            mi[r] = m;
            ci[r] = corr;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < 16 * D; i += nthreads) os[i] *= ci[i / D];
        __syncthreads();
        for (int j = warp; j < D / 16; j += nthreads / 32) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::load_matrix_sync(acc, os + j * 16, D, wmma::mem_row_major);
            for (int c = 0; c < N; c += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> bb;
                wmma::load_matrix_sync(a, ps + c, N);
                wmma::load_matrix_sync(bb, vs + c * D + j * 16, D);
                wmma::mma_sync(acc, a, bb, acc);
            }
            wmma::store_matrix_sync(os + j * 16, acc, D, wmma::mem_row_major);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 16 * D; i += nthreads) {
        int r = i / D, c = i % D;
        if (q0 + r < len) out[(size_t)(begin + q0 + r) * stride + h * D + c] = __float2half(os[i] / li[r]);
    }
}

torch::Tensor varlen_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor cu_seqlens, int64_t max_seqlen) {
    TORCH_CHECK(q.dim() == 3 && q.scalar_type() == torch::kHalf);
    TORCH_CHECK(cu_seqlens.scalar_type() == torch::kInt32);
    auto out = torch::empty_like(q);
    int heads = q.size(1), head_dim = q.size(2), batch = cu_seqlens.size(0) - 1;
    dim3 grid((max_seqlen + 15) / 16, heads, batch);
    float scale = 1.f / sqrtf(head_dim);
    TORCH_CHECK(head_dim == 64, "only head dim 64");
    varlen_fwd<64><<<grid, 128>>>((const half *)q.data_ptr<at::Half>(), (const half *)k.data_ptr<at::Half>(),
                                  (const half *)v.data_ptr<at::Half>(), (half *)out.data_ptr<at::Half>(),
                                  cu_seqlens.data_ptr<int>(), heads, scale);
    return out;
}
