// attention: softmax(scale * Q K^T) V, one source for a scalar and a tensor-core version.
//
//   q, k, v, o   half, contiguous [batch][head][seq_len][HEAD_DIM], 16-byte aligned
//   seq_len      any length >= 1; it need not be a multiple of a tile
//   scale        usually 1 / sqrt(HEAD_DIM); any sign
//
// Launch: grid (ceil(seq_len / 32), heads, batch), block 128, static shared memory only.
// Macros: HEAD_DIM    32, 64 or 128
//         USE_WMMA    1: both products by wmma m16n16k16; 0: the same algorithm in scalar arithmetic
//         CAUSAL      1: query i sees keys 0..i
//         FP16_ACCUM  1: scores and output are accumulated in half (needs USE_WMMA=1)
//
// A block owns 32 queries and walks over the keys 64 at a time (online softmax). Scores, probabilities and the
// running output live in shared memory; each row's maximum and sum live in the four threads that own the row.
#include <cuda_fp16.h>
#include <mma.h>

#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif
#ifndef USE_WMMA
#define USE_WMMA 1
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef FP16_ACCUM
#define FP16_ACCUM 0
#endif
#if FP16_ACCUM && !USE_WMMA
#error "FP16_ACCUM is an option of the tensor-core version: build with USE_WMMA=1"
#endif

using namespace nvcuda;

constexpr int D = HEAD_DIM;
constexpr int BLOCK_M = 32;
constexpr int BLOCK_N = 64;
constexpr int THREADS = 128;

#if FP16_ACCUM
using acc_t = half;
constexpr int ACC_PAD = 8;
#else
using acc_t = float;
constexpr int ACC_PAD = 4;
#endif

// Row pitches, in elements. The padding of 16 bytes spreads the rows over the banks, and keeps every 16x16 tile
// 32-byte aligned, as wmma requires.
constexpr int LD_KV = D + 8;
constexpr int LD_P = BLOCK_N + 8;
constexpr int LD_S = BLOCK_N + ACC_PAD;
constexpr int LD_O = D + ACC_PAD;

static_assert(D % 32 == 0, "each warp takes half of the 16-wide column tiles of the output");

// Copies rows [first, first + rows) of a [seq_len][D] matrix; rows past the end become zero, so that a masked
// probability of 0 never meets a NaN.
__device__ void load_rows(half* tile, const half* matrix, int first, int rows, int seq_len) {
    constexpr int CHUNKS = D / 8;  // 16-byte chunks per row
    for (int i = threadIdx.x; i < rows * CHUNKS; i += THREADS) {
        const int row = i / CHUNKS;
        const int col = i % CHUNKS * 8;
        uint4 chunk = make_uint4(0, 0, 0, 0);
        if (first + row < seq_len) {
            chunk = *reinterpret_cast<const uint4*>(matrix + static_cast<size_t>(first + row) * D + col);
        }
        *reinterpret_cast<uint4*>(tile + row * LD_KV + col) = chunk;
    }
}

// All four lanes of a row get the result.
__device__ float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

__device__ float row_sum(float x) {
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention(const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v, half* __restrict__ o,
              int seq_len, float scale) {
    __shared__ __align__(32) half sKV[BLOCK_N * LD_KV];  // the K tile, then the V tile of the same keys
    __shared__ __align__(32) acc_t sS[BLOCK_M * LD_S];   // scores, before the scale
    __shared__ __align__(32) half sP[BLOCK_M * LD_P];    // exp(score - row maximum)
    __shared__ __align__(32) acc_t sO[BLOCK_M * LD_O];   // running output, not yet divided by the row sum

    const size_t head = (static_cast<size_t>(blockIdx.z) * gridDim.y + blockIdx.y) * seq_len * D;
    q += head;
    k += head;
    v += head;
    o += head;
    const int first_query = blockIdx.x * BLOCK_M;

    // Softmax and the running output: four threads per row, interleaved columns.
    const int row = threadIdx.x / 4;
    const int part = threadIdx.x % 4;
    const int query = first_query + row;
    float m = __int_as_float(0xff800000);  // -infinity
    float l = 0.0f;
    for (int col = part; col < D; col += 4) {
        sO[row * LD_O + col] = static_cast<acc_t>(0.0f);
    }

#if USE_WMMA
    // The two products: warps as 2 x 2 over (16-row tile, half of the column tiles). Q stays in fragments; it passes
    // through sKV once, where rows past the end of the sequence become zero.
    using FragmentA = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
    using FragmentKt = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major>;
    using FragmentV = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
    using FragmentC = wmma::fragment<wmma::accumulator, 16, 16, 16, acc_t>;
    const int tile_row = threadIdx.x / 32 / 2 * 16;
    const int side = threadIdx.x / 32 % 2;

    FragmentA q_fragment[D / 16];
    load_rows(sKV, q, first_query, BLOCK_M, seq_len);
    __syncthreads();
#pragma unroll  // an array of fragments stays in registers only when its indices are constants
    for (int kk = 0; kk < D / 16; ++kk) {
        wmma::load_matrix_sync(q_fragment[kk], sKV + tile_row * LD_KV + kk * 16, LD_KV);
    }
    __syncthreads();
#endif

    const int keys = CAUSAL ? min(seq_len, first_query + BLOCK_M) : seq_len;
    for (int first_key = 0; first_key < keys; first_key += BLOCK_N) {
        load_rows(sKV, k, first_key, BLOCK_N, seq_len);
        __syncthreads();

        // S = Q K^T. K is stored [key][d], which is K^T in column-major order.
#if USE_WMMA
        for (int tile_col = side * 32; tile_col < side * 32 + 32; tile_col += 16) {
            FragmentC s;
            wmma::fill_fragment(s, static_cast<acc_t>(0.0f));
#pragma unroll
            for (int kk = 0; kk < D / 16; ++kk) {
                FragmentKt kt;
                wmma::load_matrix_sync(kt, sKV + tile_col * LD_KV + kk * 16, LD_KV);
                wmma::mma_sync(s, q_fragment[kk], kt, s);
            }
            wmma::store_matrix_sync(sS + tile_row * LD_S + tile_col, s, LD_S, wmma::mem_row_major);
        }
#else
        for (int i = threadIdx.x; i < BLOCK_M * BLOCK_N; i += THREADS) {
            const int r = i / BLOCK_N;
            const int c = i % BLOCK_N;
            float s = 0.0f;
            if (first_query + r < seq_len) {
                const half* q_row = q + static_cast<size_t>(first_query + r) * D;
                for (int d = 0; d < D; ++d) {
                    s += __half2float(q_row[d]) * __half2float(sKV[c * LD_KV + d]);
                }
            }
            sS[r * LD_S + c] = s;
        }
#endif
        __syncthreads();  // scores are complete, and the K tile is no longer read

        load_rows(sKV, v, first_key, BLOCK_N, seq_len);

        // P = exp(scale S - m), with everything so far rescaled to the new maximum. Key 0 is visible to every row, so
        // that m is finite after the first tile.
        float tile_max = __int_as_float(0xff800000);
        for (int col = part; col < BLOCK_N; col += 4) {
            const int key = first_key + col;
            if (key < seq_len && (!CAUSAL || key <= query)) {
                tile_max = fmaxf(tile_max, scale * static_cast<float>(sS[row * LD_S + col]));
            }
        }
        const float m_new = fmaxf(m, row_max(tile_max));
        const float rescale = __expf(m - m_new);
        float tile_sum = 0.0f;
        for (int col = part; col < BLOCK_N; col += 4) {
            const int key = first_key + col;
            const bool visible = key < seq_len && (!CAUSAL || key <= query);
            const float p = visible ? __expf(scale * static_cast<float>(sS[row * LD_S + col]) - m_new) : 0.0f;
            tile_sum += p;
            sP[row * LD_P + col] = __float2half(p);
        }
        l = l * rescale + row_sum(tile_sum);
        m = m_new;
        for (int col = part; col < D; col += 4) {
            sO[row * LD_O + col] = static_cast<acc_t>(static_cast<float>(sO[row * LD_O + col]) * rescale);
        }
        __syncthreads();

        // O += P V
#if USE_WMMA
        for (int tile_col = side * (D / 2); tile_col < (side + 1) * (D / 2); tile_col += 16) {
            acc_t* tile = sO + tile_row * LD_O + tile_col;
            FragmentC acc;
            wmma::load_matrix_sync(acc, tile, LD_O, wmma::mem_row_major);
            for (int kk = 0; kk < BLOCK_N / 16; ++kk) {
                FragmentA p;
                FragmentV vf;
                wmma::load_matrix_sync(p, sP + tile_row * LD_P + kk * 16, LD_P);
                wmma::load_matrix_sync(vf, sKV + kk * 16 * LD_KV + tile_col, LD_KV);
                wmma::mma_sync(acc, p, vf, acc);
            }
            wmma::store_matrix_sync(tile, acc, LD_O, wmma::mem_row_major);
        }
#else
        for (int i = threadIdx.x; i < BLOCK_M * D; i += THREADS) {
            const int r = i / D;
            const int c = i % D;
            float acc = sO[r * LD_O + c];
            for (int j = 0; j < BLOCK_N; ++j) {
                acc += __half2float(sP[r * LD_P + j]) * __half2float(sKV[j * LD_KV + c]);
            }
            sO[r * LD_O + c] = acc;
        }
#endif
        __syncthreads();  // the output is complete for these keys, and the V tile is no longer read
    }

    if (query < seq_len) {
        const float inverse = 1.0f / l;
        half* o_row = o + static_cast<size_t>(query) * D;
        for (int col = part * 2; col < D; col += 8) {
            const float x = static_cast<float>(sO[row * LD_O + col]) * inverse;
            const float y = static_cast<float>(sO[row * LD_O + col + 1]) * inverse;
            *reinterpret_cast<half2*>(o_row + col) = __floats2half2_rn(x, y);
        }
    }
}
