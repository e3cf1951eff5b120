// flash-attention forward for BSHD tensors (batch, seq, head, dim), fp16.
// 64 queries / CTA, 4 warps with 16 rows each, 32 keys per iteration.
// K is stored transposed in shared memory (sKt[d][key]).
#include <cuda_fp16.h>
#include <mma.h>
#include <math_constants.h>
using namespace nvcuda;

constexpr int kHeadDim = 32;
constexpr int kBlockM = 64;
constexpr int kBlockN = 32;
constexpr int kThreads = 128;

struct Strides { int batch, row, head; };

struct __align__(128) SharedStorage {
    half q[kBlockM][kHeadDim + 8];
    half kt[kHeadDim][kBlockN + 8];
    half v[kBlockN][kHeadDim + 8];
    half p[kBlockM][kBlockN + 8];
    float s[kBlockM][kBlockN + 4];
    float o[kBlockM][kHeadDim + 4];
};

__global__ void __launch_bounds__(kThreads)
flash_fwd(const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V, half* __restrict__ O,
          int seqlen, int num_heads, float scale)
{
    __shared__ SharedStorage smem;
    const int head = blockIdx.y % num_heads, batch = blockIdx.y / num_heads;
    const Strides st{seqlen * num_heads * kHeadDim, num_heads * kHeadDim, kHeadDim};
    const size_t base = (size_t)batch * st.batch + head * st.head;
    const int m0 = blockIdx.x * kBlockM;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int wrow = warp * 16;

    for (int i = threadIdx.x; i < kBlockM * kHeadDim; i += kThreads) {
        const int r = i / kHeadDim, d = i % kHeadDim;
        smem.q[r][d] = m0 + r < seqlen ? Q[base + (size_t)(m0 + r) * st.row + d] : half(0.f);
        smem.o[r][d] = 0.f;
    }
    // two lanes per row: lane & 1 picks the half of the columns
    const int my_row = wrow + lane / 2;
    const int c_begin = (lane & 1) * (kBlockN / 2);
    float m_i = -CUDART_INF_F, l_i = 0.f;

    for (int n0 = 0; n0 < seqlen; n0 += kBlockN) {
        for (int i = threadIdx.x; i < kBlockN * kHeadDim; i += kThreads) {
            const int r = i / kHeadDim, d = i % kHeadDim;
            const bool in = n0 + r < seqlen;
            smem.kt[d][r] = in ? K[base + (size_t)(n0 + r) * st.row + d] : half(0.f);
            smem.v[r][d] = in ? V[base + (size_t)(n0 + r) * st.row + d] : half(0.f);
        }
        __syncthreads();

        for (int n = 0; n < kBlockN; n += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::fill_fragment(acc, 0.f);
            for (int d = 0; d < kHeadDim; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
                wmma::load_matrix_sync(a, &smem.q[wrow][d], kHeadDim + 8);
                wmma::load_matrix_sync(b, &smem.kt[d][n], kBlockN + 8);
                wmma::mma_sync(acc, a, b, acc);
            }
            wmma::store_matrix_sync(&smem.s[wrow][n], acc, kBlockN + 4, wmma::mem_row_major);
        }
        __syncwarp();

        float m_new = m_i;
        for (int c = c_begin; c < c_begin + kBlockN / 2; ++c)
            if (n0 + c < seqlen) m_new = fmaxf(m_new, smem.s[my_row][c] * scale);
        m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, 1));
        float row_sum = 0.f;
        for (int c = c_begin; c < c_begin + kBlockN / 2; ++c) {
            const float p = n0 + c < seqlen ? exp2f(smem.s[my_row][c] * scale - m_new) : 0.f;
            smem.p[my_row][c] = __float2half(p);
            row_sum += p;
        }
        row_sum += __shfl_xor_sync(0xffffffff, row_sum, 1);
        const float alpha = exp2f(m_i - m_new);
        l_i = l_i * alpha + row_sum;
        m_i = m_new;
        for (int d = lane & 1; d < kHeadDim; d += 2) smem.o[my_row][d] *= alpha;
        __syncwarp();

        for (int d = 0; d < kHeadDim; d += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::load_matrix_sync(acc, &smem.o[wrow][d], kHeadDim + 4, wmma::mem_row_major);
            for (int n = 0; n < kBlockN; n += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
                wmma::load_matrix_sync(a, &smem.p[wrow][n], kBlockN + 8);
                wmma::load_matrix_sync(b, &smem.v[n][d], kHeadDim + 8);
                wmma::mma_sync(acc, a, b, acc);
            }
            wmma::store_matrix_sync(&smem.o[wrow][d], acc, kHeadDim + 4, wmma::mem_row_major);
        }
        __syncthreads();
    }

    if (m0 + my_row < seqlen)
        for (int d = lane & 1; d < kHeadDim; d += 2)
            O[base + (size_t)(m0 + my_row) * st.row + d] = __float2half(smem.o[my_row][d] / l_i);
}
