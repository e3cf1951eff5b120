// FlashAttention, forward pass, written to be read: one block per tile of Br queries of one head.
// Scores and outputs go through shared memory, so that the softmax needs no knowledge of fragments.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define NEG_INF __int_as_float(0xff800000)

constexpr int Br = 32;          // queries of a tile
constexpr int Bc = 32;          // keys of a tile
constexpr int THREADS = 128;    // 4 warps

// rows [row0, row0 + ROWS) of a (N, d) matrix into shared memory, zeros behind its end
template <int ROWS, int d>
__device__ void load_tile(half* tile, const half* src, int row0, int N) {
    constexpr int VEC = 8;
    for (int idx = threadIdx.x; idx < ROWS * d / VEC; idx += THREADS) {
        int r = idx / (d / VEC);
        int c = idx % (d / VEC) * VEC;
        uint4 val = make_uint4(0, 0, 0, 0);
        if (row0 + r < N)
            val = *reinterpret_cast<const uint4*>(src + (row0 + r) * d + c);
        *reinterpret_cast<uint4*>(tile + r * (d + 8) + c) = val;
    }
}

// Q, K, V, O: (B, nh, N, d); L: (B, nh, N)
template <int d>
__global__ void flash_attn_forward(const half* Q, const half* K, const half* V, half* O, float* L,
                                   int nh, int N, float softmax_scale, int causal) {
    constexpr int LD = d + 8;      // of Q, K, V
    constexpr int LDS = Bc + 4;    // of the scores
    constexpr int LDP = Bc + 8;    // of the probabilities
    constexpr int LDO = d + 4;     // of the outputs
    constexpr int OCOLS = d / 32;  // 16 x 16 tiles of the output per warp

    extern __shared__ __align__(128) unsigned char smem[];
    half* Qs = reinterpret_cast<half*>(smem);
    half* Ks = Qs + Br * LD;
    half* Vs = Ks + Bc * LD;
    half* Ps = Vs + Bc * LD;
    float* Ss = reinterpret_cast<float*>(Ps + Br * LDP);
    float* Os = Ss + Br * LDS;

    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int warp_row = warp / 2;
    const int warp_col = warp % 2;
    const int q0 = blockIdx.x * Br;

    const size_t qkv_offset = (size_t)(blockIdx.z * nh + blockIdx.y) * N * d;
    const size_t l_offset = (size_t)(blockIdx.z * nh + blockIdx.y) * N;

    load_tile<Br, d>(Qs, Q + qkv_offset, q0, N);
    for (int idx = tid; idx < Br * LDO; idx += THREADS)
        Os[idx] = 0.0f;

    // four neighbouring threads share a row, in which each has every fourth column
    const int row = tid / 4;
    const int part = tid % 4;
    float m = NEG_INF;
    float l = 0.0f;

    int Tc = (N + Bc - 1) / Bc;
    if (causal)
        Tc = min(Tc, (q0 + Br + Bc - 1) / Bc);

    for (int j = 0; j < Tc; j++) {
        const int k0 = j * Bc;
        load_tile<Bc, d>(Ks, K + qkv_offset, k0, N);
        load_tile<Bc, d>(Vs, V + qkv_offset, k0, N);
        __syncthreads();

        // S = Q K^T, one 16 x 16 tile per warp
        {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
            wmma::fill_fragment(s_frag, 0.0f);
            for (int x = 0; x < d; x += 16) {
                wmma::load_matrix_sync(q_frag, Qs + warp_row * 16 * LD + x, LD);
                wmma::load_matrix_sync(k_frag, Ks + warp_col * 16 * LD + x, LD);
                wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
            }
            wmma::store_matrix_sync(Ss + warp_row * 16 * LDS + warp_col * 16, s_frag, LDS, wmma::mem_row_major);
        }
        __syncthreads();

        // online softmax
        float s[Bc / 4];
        float row_max = NEG_INF;
        for (int c = 0; c < Bc / 4; c++) {
            const int col = c * 4 + part;
            s[c] = Ss[row * LDS + col] * softmax_scale;
            if (k0 + col >= N || (causal && k0 + col > q0 + row))
                s[c] = NEG_INF;
            row_max = fmaxf(row_max, s[c]);
        }
        row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffff, row_max, 1));
        row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffff, row_max, 2));

        const float m_new = fmaxf(m, row_max);
        const float correction = __expf(m - m_new);
        float row_sum = 0.0f;
        for (int c = 0; c < Bc / 4; c++) {
            const float p = __expf(s[c] - m_new);
            Ps[row * LDP + c * 4 + part] = __float2half(p);
            row_sum += p;
        }
        row_sum += __shfl_xor_sync(0xffffffff, row_sum, 1);
        row_sum += __shfl_xor_sync(0xffffffff, row_sum, 2);

        l = l * correction + row_sum;
        m = m_new;
        for (int x = part; x < d; x += 4)
            Os[row * LDO + x] *= correction;
        __syncthreads();

        // O += P V
        for (int o = 0; o < OCOLS; o++) {
            const int ocol = (warp_col * OCOLS + o) * 16;
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
            wmma::load_matrix_sync(o_frag, Os + warp_row * 16 * LDO + ocol, LDO, wmma::mem_row_major);
            for (int x = 0; x < Bc; x += 16) {
                wmma::load_matrix_sync(p_frag, Ps + warp_row * 16 * LDP + x, LDP);
                wmma::load_matrix_sync(v_frag, Vs + x * LD + ocol, LD);
                wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
            }
            wmma::store_matrix_sync(Os + warp_row * 16 * LDO + ocol, o_frag, LDO, wmma::mem_row_major);
        }
        __syncthreads();    // the next keys and values come into the same memory
    }

    if (q0 + row < N) {
        const float inv_l = 1.0f / l;
        for (int x = part; x < d; x += 4)
            O[qkv_offset + (size_t)(q0 + row) * d + x] = __float2half(Os[row * LDO + x] * inv_l);
        if (part == 0)
            L[l_offset + q0 + row] = m + logf(l);
    }
}
