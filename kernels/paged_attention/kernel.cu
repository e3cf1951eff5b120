// Decode step with a paged KV cache; the 8 query heads of a group share a tensor-core tile.
#include <cuda_fp16.h>
#include <mma.h>
#include <cstdint>

constexpr int kPage = 16;   // tokens per page
constexpr int kDim = 64;
constexpr int kWarps = 4;

__global__ void __launch_bounds__(kWarps * 32) paged_attention_decode(
    half *__restrict__ out,               // [num_seqs, num_heads, kDim]
    const half *__restrict__ q,           // [num_seqs, num_heads, kDim]
    const half *__restrict__ k_cache,     // [num_blocks, num_kv_heads, kPage, kDim]
    const half *__restrict__ v_cache,     // [num_blocks, num_kv_heads, kPage, kDim]
    const int *__restrict__ block_tables, // [num_seqs, max_blocks_per_seq]
    const int *__restrict__ context_lens, // [num_seqs]
    int num_heads, int num_kv_heads, int max_blocks_per_seq, float scale) {
    using namespace nvcuda;
    __shared__ __align__(32) half sq[16 * kDim];
    __shared__ __align__(32) float sc[16 * kPage];
    __shared__ __align__(32) half sp[16 * kPage];
    __shared__ __align__(32) float so[16 * kDim];
    __shared__ float sm[16], sl[16], sr[16];
    const int seq = blockIdx.x, kvh = blockIdx.y;
    const int group = num_heads / num_kv_heads;
    const int tid = threadIdx.x, warp = tid / 32;
    const int len = context_lens[seq];
    for (int i = tid; i < 16 * kDim; i += blockDim.x) {
        int r = i / kDim;
        sq[i] = r < group ? q[((size_t)seq * num_heads + kvh * group + r) * kDim + i % kDim] : __float2half(0.f);
        so[i] = 0.f;
    }
    if (tid < 16) {
        sm[tid] = -1e30f;
        sl[tid] = 0.f;
    }
    __syncthreads();
    for (int page = 0; page * kPage < len; ++page) {
        const size_t at = ((size_t)block_tables[seq * max_blocks_per_seq + page] * num_kv_heads + kvh) * kPage * kDim;
        if (warp == 0) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::fill_fragment(acc, 0.f);
            for (int d = 0; d < kDim; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
                wmma::load_matrix_sync(a, sq + d, kDim);
                wmma::load_matrix_sync(b, k_cache + at + d, kDim);
                wmma::mma_sync(acc, a, b, acc);
            }
            wmma::store_matrix_sync(sc, acc, kPage, wmma::mem_row_major);
        }
        __syncthreads();
        if (tid < 16) {
            float m = sm[tid];
            for (int t = 0; t < kPage; ++t)
                if (page * kPage + t < len) m = fmaxf(m, sc[tid * kPage + t] * scale);
            float c = __expf(sm[tid] - m), l = 0.f;
            for (int t = 0; t < kPage; ++t) {
                float p = page * kPage + t < len ? __expf(sc[tid * kPage + t] * scale - m) : 0.f;
                sp[tid * kPage + t] = __float2half(p);
                l += p;
            }
            sm[tid] = m;
            sl[tid] = sl[tid] * c + l;
            sr[tid] = c;
        }
        __syncthreads();
        for (int i = tid; i < 16 * kDim; i += blockDim.x) so[i] *= sr[i / kDim];
        __syncthreads();
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> vb;
        wmma::load_matrix_sync(o, so + warp * 16, kDim, wmma::mem_row_major);
        wmma::load_matrix_sync(p, sp, kPage);
        wmma::load_matrix_sync(vb, v_cache + at + warp * 16, kDim);
        wmma::mma_sync(o, p, vb, o);
        wmma::store_matrix_sync(so + warp * 16, o, kDim, wmma::mem_row_major);
        __syncthreads();
    }
    for (int i = tid; i < group * kDim; i += blockDim.x)
        out[((size_t)seq * num_heads + kvh * group) * kDim + i] = __float2half(so[i] / sl[i / kDim]);
}

void paged_decode(half *out, const half *q, const half *k_cache, const half *v_cache, const int *block_tables,
                  const int *context_lens, int num_seqs, int num_heads, int num_kv_heads, int max_blocks_per_seq,
                  cudaStream_t stream) {
    dim3 grid(num_seqs, num_kv_heads);
    paged_attention_decode<<<grid, kWarps * 32, 0, stream>>>(out, q, k_cache, v_cache, block_tables, context_lens,
                                                             num_heads, num_kv_heads, max_blocks_per_seq, 0.125f);
}
