// Talking-heads attention (Shazeer et al. 2020): heads are mixed before the softmax and once more behind it,
//   J = Q K^T * scale,  L[h'] = sum_h J[h] * Pl[h][h'],  W = softmax(L),  U[h'] = sum_h W[h] * Pw[h][h'],  O = U V
// A block has 16 queries of ALL heads, a warp is a head. Scores of all keys are kept in shared memory, so this is for
// short sequences (a few hundred keys).
#include <cuda_fp16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

template <int H, int D>
struct TalkingHeads {
    static constexpr int kTile = 16;
    static constexpr int kLd = D + 8;                      // of the staging tile
    static constexpr int kThreads = 32 * H;

    using FragA  = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
    using FragBT = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major>;
    using FragB  = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
    using FragC  = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

    // 16 rows of one head, from row `first` on, to a warp's tile; zeros where there are none
    static __device__ void load_tile(half* tile, const half* src, int first, int count, int lane) {
        for (int i = lane; i < kTile * D / 8; i += 32) {
            const int r = i / (D / 8), c = (i % (D / 8)) * 8;
            uint4 v = {0, 0, 0, 0};
            if (first + r < count) v = *reinterpret_cast<const uint4*>(src + (size_t)(first + r) * H * D + c);
            *reinterpret_cast<uint4*>(tile + r * kLd + c) = v;
        }
    }
};

template <int H, int D>
__global__ void __launch_bounds__(32 * H)
talking_heads_fwd(const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v,   // [B, S, H, D]
                  const float* __restrict__ mix_logits, const float* __restrict__ mix_weights,          // [H, H]
                  const int* __restrict__ key_lengths, half* __restrict__ out,
                  int seq_q, int seq_k, float scale) {
    using TH = TalkingHeads<H, D>;
    constexpr int T = TH::kTile;
    extern __shared__ __align__(32) char smem[];

    const int keys_padded = (seq_k + T - 1) / T * T;
    const int ld_s = max(keys_padded, D) + 4;
    const int ld_u = keys_padded + 8;
    float* s_scores = reinterpret_cast<float*>(smem);                               // [H][16][ld_s]
    half* s_u = reinterpret_cast<half*>(s_scores + H * T * ld_s);                   // [H][16][ld_u]
    half* s_tiles = s_u + H * T * ld_u;                                             // [H][16][kLd]
    __shared__ float s_mix[2][H][H];

    const int lane = threadIdx.x & 31, head = threadIdx.x >> 5;
    const int q0 = blockIdx.x * T, batch = blockIdx.y;
    const int len = min(key_lengths[batch], seq_k);
    const int tiles = (len + T - 1) / T;

    const half* q_head = q + ((size_t)batch * seq_q * H + head) * D;
    const half* k_head = k + ((size_t)batch * seq_k * H + head) * D;
    const half* v_head = v + ((size_t)batch * seq_k * H + head) * D;
    half* out_head = out + ((size_t)batch * seq_q * H + head) * D;
    float* scores = s_scores + head * T * ld_s;
    half* tile = s_tiles + head * T * TH::kLd;

    for (int i = threadIdx.x; i < H * H; i += TH::kThreads) {
        s_mix[0][i / H][i % H] = mix_logits[i];
        s_mix[1][i / H][i % H] = mix_weights[i];
    }

    // 1. scores of this head
    typename TH::FragA qf[D / 16];
    TH::load_tile(tile, q_head, q0, seq_q, lane);
    __syncwarp();
    for (int d = 0; d < D / 16; ++d) wmma::load_matrix_sync(qf[d], tile + d * 16, TH::kLd);
    __syncwarp();
    for (int kt = 0; kt < tiles; ++kt) {
        TH::load_tile(tile, k_head, kt * T, len, lane);
        __syncwarp();
        typename TH::FragC c;
        wmma::fill_fragment(c, 0.f);
        for (int d = 0; d < D / 16; ++d) {
            typename TH::FragBT b;
            wmma::load_matrix_sync(b, tile + d * 16, TH::kLd);
            wmma::mma_sync(c, qf[d], b, c);
        }
        for (int i = 0; i < c.num_elements; ++i) c.x[i] *= scale;
        wmma::store_matrix_sync(scores + kt * T, c, ld_s, wmma::mem_row_major);
        __syncwarp();                          // before the tile is filled anew
    }
    __syncthreads();

    // 2. mix logits across heads: a thread has one (query, key) of all heads
    for (int i = threadIdx.x; i < T * tiles * T; i += TH::kThreads) {
        const int r = i / (tiles * T), j = i % (tiles * T);
        float in[H];
#pragma unroll
        for (int h = 0; h < H; ++h) in[h] = s_scores[(h * T + r) * ld_s + j];
#pragma unroll
        for (int to = 0; to < H; ++to) {
            float sum = 0.f;
#pragma unroll
            for (int h = 0; h < H; ++h) sum += in[h] * s_mix[0][h][to];
            s_scores[(to * T + r) * ld_s + j] = j < len ? sum : -INFINITY;
        }
    }
    __syncthreads();

    // 3. softmax of this head's rows
    for (int r = 0; r < T; ++r) {
        float* row = scores + r * ld_s;
        float top = -INFINITY;
        for (int j = lane; j < len; j += 32) top = fmaxf(top, row[j]);
        for (int o = 16; o > 0; o /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
        float sum = 0.f;
        for (int j = lane; j < tiles * T; j += 32) {
            const float e = __expf(row[j] - top);
            row[j] = e;
            sum += e;
        }
        for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
        const float inv = 1.f / sum;
        for (int j = lane; j < tiles * T; j += 32) row[j] *= inv;
    }
    __syncthreads();

    // 4. mix weights across heads, to half
    for (int i = threadIdx.x; i < T * tiles * T; i += TH::kThreads) {
        const int r = i / (tiles * T), j = i % (tiles * T);
#pragma unroll
        for (int to = 0; to < H; ++to) {
            float sum = 0.f;
#pragma unroll
            for (int h = 0; h < H; ++h) sum += s_scores[(h * T + r) * ld_s + j] * s_mix[1][h][to];
            s_u[(to * T + r) * ld_u + j] = __float2half(sum);
        }
    }
    __syncthreads();

    // 5. O = U V
    typename TH::FragC o[D / 16];
    for (int d = 0; d < D / 16; ++d) wmma::fill_fragment(o[d], 0.f);
    for (int kt = 0; kt < tiles; ++kt) {
        TH::load_tile(tile, v_head, kt * T, len, lane);
        __syncwarp();
        typename TH::FragA u;
        wmma::load_matrix_sync(u, s_u + head * T * ld_u + kt * T, ld_u);
        for (int d = 0; d < D / 16; ++d) {
            typename TH::FragB b;
            wmma::load_matrix_sync(b, tile + d * 16, TH::kLd);
            wmma::mma_sync(o[d], u, b, o[d]);
        }
        __syncwarp();
    }
    for (int d = 0; d < D / 16; ++d) wmma::store_matrix_sync(scores + d * 16, o[d], ld_s, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < T * D; i += 32) {
        const int r = i / D, c = i % D;
        if (q0 + r < seq_q) out_head[(size_t)(q0 + r) * H * D + c] = __float2half(scores[r * ld_s + c]);
    }
}

template __global__ void talking_heads_fwd<4, 32>(const half*, const half*, const half*, const float*, const float*,
                                                  const int*, half*, int, int, float);
