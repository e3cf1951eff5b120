// Grouped-query attention, forward. Device code only, launched by the runtime.
//   Q   [batch, seqlen_q, num_heads,    kHeadDim]
//   K,V [batch, seqlen_k, num_kv_heads, kHeadDim]
//   O   [batch, seqlen_q, num_heads,    kHeadDim]
// grid = (ceil(seqlen_q / kBlockM), num_heads, batch), block = 128
#include <cuda_bf16.h>
#include <mma.h>

namespace kernels {

using bf16 = __nv_bfloat16;
namespace wmma = nvcuda::wmma;

constexpr int kNWarps = 4;
constexpr int kNThreads = kNWarps * 32;

__device__ __forceinline__ float quad_reduce_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float quad_reduce_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

template <int kRows, int kCols>
__device__ __forceinline__ void load_rows(bf16 (*dst)[kCols + 8], const bf16* src, int64_t row_stride, int valid) {
    for (int i = threadIdx.x; i < kRows * kCols / 8; i += kNThreads) {
        const int r = i / (kCols / 8), c = (i % (kCols / 8)) * 8;
        uint4 value = make_uint4(0, 0, 0, 0);
        if (r < valid) value = *reinterpret_cast<const uint4*>(src + r * row_stride + c);
        *reinterpret_cast<uint4*>(&dst[r][c]) = value;
    }
}

template <int kHeadDim, int kBlockM, int kBlockN, bool kIsCausal>
__global__ void fmha_fwd_kernel(const bf16* __restrict__ q_ptr, const bf16* __restrict__ k_ptr,
                                const bf16* __restrict__ v_ptr, bf16* __restrict__ o_ptr, int seqlen_q, int seqlen_k,
                                int num_heads, int num_kv_heads, float scale) {
    static_assert(kBlockM == 32 && kBlockN == 32, "four threads a row, a 16x16 tile a warp");
    __shared__ __align__(32) bf16 sQ[kBlockM][kHeadDim + 8];
    __shared__ __align__(32) bf16 sKV[kBlockN][kHeadDim + 8];
    __shared__ __align__(32) float sS[kBlockM][kBlockN + 4];
    __shared__ __align__(32) bf16 sP[kBlockM][kBlockN + 8];
    __shared__ __align__(32) float sO[kBlockM][kHeadDim + 4];

    const int m0 = blockIdx.x * kBlockM;
    const int head = blockIdx.y;
    const int batch = blockIdx.z;
    const int kv_head = head / (num_heads / num_kv_heads);
    const int64_t q_stride = (int64_t)num_heads * kHeadDim;
    const int64_t kv_stride = (int64_t)num_kv_heads * kHeadDim;
    const bf16* q = q_ptr + ((int64_t)batch * seqlen_q + m0) * q_stride + head * kHeadDim;
    const bf16* k = k_ptr + (int64_t)batch * seqlen_k * kv_stride + kv_head * kHeadDim;
    const bf16* v = v_ptr + (int64_t)batch * seqlen_k * kv_stride + kv_head * kHeadDim;
    bf16* o = o_ptr + ((int64_t)batch * seqlen_q + m0) * q_stride + head * kHeadDim;

    const int warp = threadIdx.x / 32;
    const int wr = (warp / 2) * 16, wc = warp % 2;
    const int my_row = threadIdx.x / 4, my_col = threadIdx.x % 4;
    float row_max = -INFINITY, row_sum = 0.f;

    load_rows<kBlockM, kHeadDim>(sQ, q, q_stride, seqlen_q - m0);
    for (int i = threadIdx.x; i < kBlockM * (kHeadDim + 4); i += kNThreads) (&sO[0][0])[i] = 0.f;

    int n_end = seqlen_k;
    if (kIsCausal) n_end = min(n_end, m0 + kBlockM);

    for (int n0 = 0; n0 < n_end; n0 += kBlockN) {
        load_rows<kBlockN, kHeadDim>(sKV, k + n0 * kv_stride, kv_stride, seqlen_k - n0);
        __syncthreads();
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_acc;
        wmma::fill_fragment(s_acc, 0.f);
#pragma unroll
        for (int d = 0; d < kHeadDim; d += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> b;
            wmma::load_matrix_sync(a, &sQ[wr][d], kHeadDim + 8);
            wmma::load_matrix_sync(b, &sKV[wc * 16][d], kHeadDim + 8);
            wmma::mma_sync(s_acc, a, b, s_acc);
        }
        wmma::store_matrix_sync(&sS[wr][wc * 16], s_acc, kBlockN + 4, wmma::mem_row_major);
        __syncthreads();

        load_rows<kBlockN, kHeadDim>(sKV, v + n0 * kv_stride, kv_stride, seqlen_k - n0);
        float s[kBlockN / 4];
        float tile_max = -INFINITY;
#pragma unroll
        for (int j = 0; j < kBlockN / 4; ++j) {
            const int col = my_col + j * 4;
            const bool masked = n0 + col >= seqlen_k || (kIsCausal && n0 + col > m0 + my_row);
            s[j] = masked ? -INFINITY : sS[my_row][col] * scale;
            tile_max = fmaxf(tile_max, s[j]);
        }
        const float new_max = fmaxf(row_max, quad_reduce_max(tile_max));
        const float rescale = __expf(row_max - new_max);
        float tile_sum = 0.f;
#pragma unroll
        for (int j = 0; j < kBlockN / 4; ++j) {
            const float p = __expf(s[j] - new_max);
            sP[my_row][my_col + j * 4] = __float2bfloat16(p);
            tile_sum += p;
        }
        row_sum = row_sum * rescale + quad_reduce_sum(tile_sum);
        row_max = new_max;
        for (int d = my_col; d < kHeadDim; d += 4) sO[my_row][d] *= rescale;
        __syncthreads();

#pragma unroll
        for (int d = 0; d < kHeadDim / 2; d += 16) {
            const int col = wc * (kHeadDim / 2) + d;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_acc;
            wmma::load_matrix_sync(o_acc, &sO[wr][col], kHeadDim + 4, wmma::mem_row_major);
#pragma unroll
            for (int n = 0; n < kBlockN; n += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> p;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> b;
                wmma::load_matrix_sync(p, &sP[wr][n], kBlockN + 8);
                wmma::load_matrix_sync(b, &sKV[n][col], kHeadDim + 8);
                wmma::mma_sync(o_acc, p, b, o_acc);
            }
            wmma::store_matrix_sync(&sO[wr][col], o_acc, kHeadDim + 4, wmma::mem_row_major);
        }
        __syncthreads();
    }

    if (m0 + my_row < seqlen_q) {
        const float inv = 1.f / row_sum;
        for (int d = my_col; d < kHeadDim; d += 4) o[my_row * q_stride + d] = __float2bfloat16(sO[my_row][d] * inv);
    }
}

#define INSTANTIATE_FMHA(DIM, CAUSAL)                                                                              \
    template __global__ void fmha_fwd_kernel<DIM, 32, 32, CAUSAL>(const bf16*, const bf16*, const bf16*, bf16*, int, \
                                                                  int, int, int, float);
INSTANTIATE_FMHA(64, false)
INSTANTIATE_FMHA(64, true)

}  // namespace kernels
