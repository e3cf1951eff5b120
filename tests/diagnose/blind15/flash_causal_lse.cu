// Flash attention forward, one warp per 16 queries, causal, also writes the log-sum-exp for the backward pass.
// q, k, v, o: [batch, heads, seq, dim] half; lse: [batch, heads, seq] float
#include <cuda_fp16.h>
#include <float.h>
#include <math.h>
#include <mma.h>

using namespace nvcuda;

template <int DIM>
struct WarpSmem {
    half p[16][32 + 8];
    float s[16][32 + 4];
    float o[16][DIM + 4];
};

template <int DIM, int WARPS>
__global__ void flash_forward(const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V,
                              half* __restrict__ O, float* __restrict__ LSE, const int seq, const float softmax_scale) {
    constexpr int BR = 16 * WARPS;
    constexpr int BC = 32;
    constexpr int LD = DIM + 8;
    __shared__ __align__(32) half Qs[BR * LD];
    __shared__ __align__(32) half Ks[BC * LD];
    __shared__ __align__(32) half Vs[BC * LD];
    __shared__ __align__(32) WarpSmem<DIM> scratch[WARPS];

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int q0 = blockIdx.x * BR;
    const size_t head_offset = (size_t)blockIdx.y * seq * DIM;
    WarpSmem<DIM>& mine = scratch[warp];

    Q += head_offset;
    K += head_offset;
    V += head_offset;
    O += head_offset;
    LSE += (size_t)blockIdx.y * seq;

    for (int i = threadIdx.x * 8; i < BR * DIM; i += blockDim.x * 8) {
        const int r = i / DIM, c = i % DIM;
        uint4 x = make_uint4(0, 0, 0, 0);
        if (q0 + r < seq) x = *reinterpret_cast<const uint4*>(&Q[(size_t)(q0 + r) * DIM + c]);
        *reinterpret_cast<uint4*>(&Qs[r * LD + c]) = x;
    }
    for (int i = lane; i < 16 * DIM; i += 32) mine.o[i / DIM][i % DIM] = 0.f;

    // two lanes share a row: each has one half of its columns
    const int row = lane / 2;
    const int part = lane % 2;
    const int q_idx = q0 + warp * 16 + row;
    float m = -FLT_MAX, l = 0.f;

    // keys after the last query of the block are masked for all of them
    const int kv_end = min(seq, q0 + BR);
    for (int k0 = 0; k0 < kv_end; k0 += BC) {
        __syncthreads();
        for (int i = threadIdx.x * 8; i < BC * DIM; i += blockDim.x * 8) {
            const int r = i / DIM, c = i % DIM;
            uint4 kx = make_uint4(0, 0, 0, 0), vx = kx;
            if (k0 + r < seq) {
                kx = *reinterpret_cast<const uint4*>(&K[(size_t)(k0 + r) * DIM + c]);
                vx = *reinterpret_cast<const uint4*>(&V[(size_t)(k0 + r) * DIM + c]);
            }
            *reinterpret_cast<uint4*>(&Ks[r * LD + c]) = kx;
            *reinterpret_cast<uint4*>(&Vs[r * LD + c]) = vx;
        }
        __syncthreads();

        // S = Q K^T
        for (int n = 0; n < BC / 16; n++) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
            wmma::fill_fragment(s_frag, 0.f);
            for (int d = 0; d < DIM; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
                wmma::load_matrix_sync(q_frag, &Qs[warp * 16 * LD + d], LD);
                wmma::load_matrix_sync(k_frag, &Ks[n * 16 * LD + d], LD);
                wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
            }
            wmma::store_matrix_sync(&mine.s[0][n * 16], s_frag, BC + 4, wmma::mem_row_major);
        }
        __syncwarp();

        // online softmax
        float m_new = m;
        for (int j = part * 16; j < part * 16 + 16; j++) {
            const int k_idx = k0 + j;
            float s = mine.s[row][j] * softmax_scale;
            if (k_idx > q_idx || k_idx >= seq) s = -INFINITY;
            mine.s[row][j] = s;
            m_new = fmaxf(m_new, s);
        }
        m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, 1));
        float l_new = 0.f;
        for (int j = part * 16; j < part * 16 + 16; j++) {
            const float p = __expf(mine.s[row][j] - m_new);
            mine.p[row][j] = __float2half(p);
            l_new += p;
        }
        l_new += __shfl_xor_sync(0xffffffff, l_new, 1);
        const float correction = __expf(m - m_new);
        l = l * correction + l_new;
        m = m_new;
        for (int c = part; c < DIM; c += 2) mine.o[row][c] *= correction;
        __syncwarp();

        // O += P V
        for (int d = 0; d < DIM; d += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
            wmma::load_matrix_sync(o_frag, &mine.o[0][d], DIM + 4, wmma::mem_row_major);
            for (int n = 0; n < BC; n += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
                wmma::load_matrix_sync(p_frag, &mine.p[0][n], BC + 8);
                wmma::load_matrix_sync(v_frag, &Vs[n * LD + d], LD);
                wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
            }
            wmma::store_matrix_sync(&mine.o[0][d], o_frag, DIM + 4, wmma::mem_row_major);
        }
        __syncwarp();
    }

    if (q_idx < seq) {
        for (int c = part; c < DIM; c += 2) O[(size_t)q_idx * DIM + c] = __float2half(mine.o[row][c] / l);
        if (part == 0) LSE[q_idx] = m + logf(l);
    }
}

template __global__ void flash_forward<32, 2>(const half*, const half*, const half*, half*, float*, int, float);
