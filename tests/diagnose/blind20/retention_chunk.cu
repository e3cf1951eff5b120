// Chunkwise retention (linear attention with a decay per head), forward:
//   S_t = g S_{t-1} + k_t v_t^T,   o_t = scale * q_t S_t
// A chunk of BT steps is   o = ((q k^T) . D) v + (q . g^(i+1)) S,   S = g^BT S + (k . g^(BT-1-j))^T v.
// One block per (batch, head); S stays in the accumulators of the four warps, 16 x 16 each.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

constexpr int BT = 32;        // steps of a chunk
constexpr int DK = 32;
constexpr int DV = 32;
constexpr int LD = 40;        // pitch of all half tiles
constexpr int LDS = 20;       // pitch of a warp's float scratch

typedef fragment<matrix_a, 16, 16, 16, half, row_major> FragA;
typedef fragment<matrix_a, 16, 16, 16, half, col_major> FragAT;
typedef fragment<matrix_b, 16, 16, 16, half, row_major> FragB;
typedef fragment<matrix_b, 16, 16, 16, half, col_major> FragBT;
typedef fragment<accumulator, 16, 16, 16, float> FragC;

// acc += A[16 rows from m0, DEPTH] * B[DEPTH, 16 columns from n0]; TA, TB: stored transposed
template <int DEPTH, class FA, class FB>
__device__ inline void tile_gemm(FragC &acc, const half *a, int a_row, int a_depth, const half *b, int b_depth, int b_col)
{
    for (int k = 0; k < DEPTH; k += 16) {
        FA fa;
        FB fb;
        load_matrix_sync(fa, a + a_row + k * a_depth, LD);
        load_matrix_sync(fb, b + b_col + k * b_depth, LD);
        mma_sync(acc, fa, fb, acc);
    }
}

__global__ void __launch_bounds__(128)
chunk_retention_fwd(const half *q, const half *k, const half *v, half *o, const float *log2_gamma,
                    const float *initial_state, float *final_state, float scale, int T, int H)
{
    __shared__ __align__(32) half s_q[BT * LD], s_k[BT * LD], s_v[BT * LD];
    __shared__ __align__(32) half s_qd[BT * LD], s_kd[BT * LD];     // with their decays
    __shared__ __align__(32) half s_a[BT * LD], s_state[DK * LD];
    __shared__ __align__(32) float s_scratch[4][16 * LDS];

    const int i_bh = blockIdx.x;
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int r0 = (warp >> 1) * 16, c0 = (warp & 1) * 16;          // the warp's tile in each of the products
    float *scratch = s_scratch[warp];
    const float g = log2_gamma[i_bh % H];

    q += (size_t)i_bh * T * DK;
    k += (size_t)i_bh * T * DK;
    v += (size_t)i_bh * T * DV;
    o += (size_t)i_bh * T * DV;

    FragC state;
    load_matrix_sync(state, initial_state + (size_t)i_bh * DK * DV + r0 * DV + c0, DV, mem_row_major);

    for (int t0 = 0; t0 < T; t0 += BT) {
        const int len = min(BT, T - t0);

        for (int i = tid; i < BT * DK; i += 128) {
            const int row = i / DK, col = i % DK;
            const bool in = row < len;
            const float qv = in ? __half2float(q[(size_t)(t0 + row) * DK + col]) * scale : 0.f;
            const float kv = in ? __half2float(k[(size_t)(t0 + row) * DK + col]) : 0.f;
            s_q[row * LD + col] = __float2half(qv);
            s_k[row * LD + col] = __float2half(kv);
            s_qd[row * LD + col] = __float2half(qv * exp2f(g * (row + 1)));
            s_kd[row * LD + col] = __float2half(kv * exp2f(g * (len - 1 - row)));
        }
        for (int i = tid; i < BT * DV; i += 128) {
            const int row = i / DV, col = i % DV;
            s_v[row * LD + col] = row < len ? v[(size_t)(t0 + row) * DV + col] : __float2half(0.f);
        }
        // the state as half, for the product with q
        store_matrix_sync(scratch, state, LDS, mem_row_major);
        __syncwarp();
        for (int i = lane; i < 256; i += 32)
            s_state[(r0 + i / 16) * LD + c0 + i % 16] = __float2half(scratch[(i / 16) * LDS + i % 16]);
        __syncthreads();

        // within the chunk: decayed and causal scores
        FragC acc;
        fill_fragment(acc, 0.f);
        tile_gemm<DK, FragA, FragBT>(acc, s_q, r0 * LD, 1, s_k, 1, c0 * LD);
        store_matrix_sync(scratch, acc, LDS, mem_row_major);
        __syncwarp();
        for (int e = lane; e < 256; e += 32) {
            const int i = r0 + e / 16, j = c0 + e % 16;
            const float a = j <= i ? scratch[(e / 16) * LDS + e % 16] * exp2f(g * (i - j)) : 0.f;
            s_a[i * LD + j] = __float2half(a);
        }
        __syncthreads();

        // o = A v + qd S
        fill_fragment(acc, 0.f);
        tile_gemm<BT, FragA, FragB>(acc, s_a, r0 * LD, 1, s_v, LD, c0);
        tile_gemm<DK, FragA, FragB>(acc, s_qd, r0 * LD, 1, s_state, LD, c0);
        store_matrix_sync(scratch, acc, LDS, mem_row_major);
        __syncwarp();
        for (int e = lane; e < 256; e += 32) {
            const int row = r0 + e / 16;
            if (row < len) o[(size_t)(t0 + row) * DV + c0 + e % 16] = __float2half(scratch[(e / 16) * LDS + e % 16]);
        }

        // S = g^len S + kd^T v
        const float decay = exp2f(g * len);
        for (int e = 0; e < state.num_elements; ++e) state.x[e] *= decay;
        tile_gemm<BT, FragAT, FragB>(state, s_kd, r0, LD, s_v, LD, c0);
        __syncthreads();
    }
    store_matrix_sync(final_state + (size_t)i_bh * DK * DV + r0 * DV + c0, state, DV, mem_row_major);
}
