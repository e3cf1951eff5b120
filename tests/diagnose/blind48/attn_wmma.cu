// Fused attention, step 3: one kernel, tensor cores through WMMA.
//   O = softmax(scale * Q K^T) V,   Q, K, V, O: [B, nh, N, d]
// A block has Br queries of one head. The keys come in tiles of Bc; the scores of a tile are kept in
// shared memory, the softmax is computed online (running maximum and running sum of each row).
// A warp owns 16 rows, so between the two products a warp waits for nobody but itself.
//
//   dim3 grid((N + Br - 1) / Br, nh, B);
//   fused_attention<64><<<grid, 128, smem>>>(Q, K, V, O, L, kv_len, nh, N, 1 / sqrtf(64), causal);
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define Br 64
#define Bc 32
#define NUM_WARPS 4
#define NUM_THREADS (NUM_WARPS * 32)
#define NEG_INF (-1e30f)

__device__ float warp_max(float v)
{
    for (int offset = 16; offset > 0; offset /= 2)
        v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, offset));
    return v;
}

__device__ float warp_sum(float v)
{
    for (int mask = 16; mask > 0; mask /= 2)
        v += __shfl_xor_sync(0xffffffff, v, mask);
    return v;
}

// rows of d halves, 16 bytes at a time; rows behind the end are zero
template <int d, int ld>
__device__ void load_rows(half* dst, const half* src, int rows, int rows_left)
{
    for (int i = threadIdx.x; i < rows * (d / 8); i += NUM_THREADS) {
        const int r = i / (d / 8);
        const int c = i % (d / 8) * 8;
        float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
        if (r < rows_left)
            v = *reinterpret_cast<const float4*>(src + (size_t)r * d + c);
        *reinterpret_cast<float4*>(dst + r * ld + c) = v;
    }
}

template <int d>
__global__ void fused_attention(const half* Q, const half* K, const half* V, half* O, float* L,
                                const int* kv_len, int nh, int N, float scale, int causal)
{
    // padded, against bank conflicts
    constexpr int LDH = d + 8;
    constexpr int LDS = Bc + 4;
    constexpr int LDP = Bc + 8;
    constexpr int LDO = d + 4;

    extern __shared__ __align__(128) unsigned char smem[];
    float* Os = reinterpret_cast<float*>(smem);            // Br x d
    float* Ss = Os + Br * LDO;                             // Br x Bc, scores
    half*  Ps = reinterpret_cast<half*>(Ss + Br * LDS);    // Br x Bc, probabilities
    half*  Qs = Ps + Br * LDP;                             // Br x d
    half*  Ks = Qs + Br * LDH;                             // Bc x d
    half*  Vs = Ks + Bc * LDH;                             // Bc x d

    const int tid  = threadIdx.x;
    const int warp = tid / 32;
    const int lane = tid % 32;
    const int q0   = blockIdx.x * Br;
    const int bh   = blockIdx.z * nh + blockIdx.y;
    const int len  = kv_len[blockIdx.z];
    const size_t base = (size_t)bh * N * d;

    load_rows<d, LDH>(Qs, Q + base + (size_t)q0 * d, Br, N - q0);
    for (int i = tid; i < Br * LDO; i += NUM_THREADS)
        Os[i] = 0.f;

    // the same in all lanes of the warp
    float row_max[16], row_sum[16];
#pragma unroll
    for (int r = 0; r < 16; r++) {
        row_max[r] = NEG_INF;
        row_sum[r] = 0.f;
    }

    int kv_end = min(len, N);
    if (causal)
        kv_end = min(kv_end, q0 + Br);

    for (int k0 = 0; k0 < kv_end; k0 += Bc) {
        load_rows<d, LDH>(Ks, K + base + (size_t)k0 * d, Bc, N - k0);
        load_rows<d, LDH>(Vs, V + base + (size_t)k0 * d, Bc, N - k0);
        __syncthreads();    // the tile is there, for all warps

        // S = Q K^T: a column of K^T is a row of K
        for (int j = 0; j < Bc / 16; j++) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
            wmma::fill_fragment(s_frag, 0.f);
            for (int k = 0; k < d / 16; k++) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
                wmma::load_matrix_sync(q_frag, Qs + warp * 16 * LDH + k * 16, LDH);
                wmma::load_matrix_sync(k_frag, Ks + j * 16 * LDH + k * 16, LDH);
                wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
            }
            wmma::store_matrix_sync(Ss + warp * 16 * LDS + j * 16, s_frag, LDS, wmma::mem_row_major);
        }
        __syncwarp();

        // online softmax, one lane for each key of the tile
        const int key = k0 + lane;
#pragma unroll
        for (int r = 0; r < 16; r++) {
            const int row   = warp * 16 + r;
            const int query = q0 + row;
            const bool masked = key >= len || (causal && key > query);

            const float s     = masked ? NEG_INF : Ss[row * LDS + lane] * scale;
            const float m_new = fmaxf(row_max[r], warp_max(s));
            const float alpha = __expf(row_max[r] - m_new);
            const float p     = masked ? 0.f : __expf(s - m_new);

            row_sum[r] = row_sum[r] * alpha + warp_sum(p);
            row_max[r] = m_new;
            Ps[row * LDP + lane] = __float2half(p);
            for (int c = lane; c < d; c += 32)
                Os[row * LDO + c] *= alpha;
        }
        __syncwarp();

        // O += P V
        for (int n = 0; n < d / 16; n++) {
            float* o_tile = Os + warp * 16 * LDO + n * 16;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
            wmma::load_matrix_sync(o_frag, o_tile, LDO, wmma::mem_row_major);
            for (int k = 0; k < Bc / 16; k++) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
                wmma::load_matrix_sync(p_frag, Ps + warp * 16 * LDP + k * 16, LDP);
                wmma::load_matrix_sync(v_frag, Vs + k * 16 * LDH + n * 16, LDH);
                wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
            }
            wmma::store_matrix_sync(o_tile, o_frag, LDO, wmma::mem_row_major);
        }
        __syncthreads();    // K and V are loaded anew
    }

#pragma unroll
    for (int r = 0; r < 16; r++) {
        const int row = warp * 16 + r;
        if (q0 + row >= N)
            continue;
        for (int c = lane; c < d; c += 32)
            O[base + (size_t)(q0 + row) * d + c] = __float2half(Os[row * LDO + c] / row_sum[r]);
        if (lane == 0)
            L[(size_t)bh * N + q0 + row] = row_max[r] + __logf(row_sum[r]);
    }
}
