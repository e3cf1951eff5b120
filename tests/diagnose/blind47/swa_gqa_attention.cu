// Sliding-window attention with grouped-query heads (the Mistral kind), forward pass.
//
//   Q, O  [batch, seq_len, n_heads,    HEAD_DIM]
//   K, V  [batch, seq_len, n_kv_heads, HEAD_DIM]
//
// One block computes BLOCK_Q queries of one head. Scores and probabilities go through shared memory, so that
// the softmax needs to know nothing of how WMMA spreads a tile over the lanes; the output is kept there too.
//
// launch: dim3 grid((seq_len + BLOCK_Q - 1) / BLOCK_Q, n_heads, batch);
//         swa_gqa_fwd<<<grid, NUM_THREADS>>>(...);
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define BLOCK_Q 32
#define BLOCK_KV 32
#define HEAD_DIM 64
#define NUM_WARPS 4
#define NUM_THREADS (NUM_WARPS * 32)

#define LD_H (HEAD_DIM + 8)  // halfs: rows of Q, K, V
#define LD_P (BLOCK_KV + 8)  // halfs: rows of probabilities
#define LD_S (BLOCK_KV + 4)  // floats: rows of scores
#define LD_O (HEAD_DIM + 4)  // floats: rows of the output

#define MASKED (-1e30f)

typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> FragA;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> FragB;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> FragBt;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> FragC;

// `rows` rows of HEAD_DIM halfs from row `first` on; what lies behind seq_len becomes zero
__device__ __forceinline__ void load_rows(half* tile, const half* src, int first, int rows, int seq_len, int stride) {
    for (int i = threadIdx.x; i < rows * (HEAD_DIM / 8); i += NUM_THREADS) {
        const int r = i / (HEAD_DIM / 8);
        const int c = i % (HEAD_DIM / 8) * 8;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (first + r < seq_len)
            v = *reinterpret_cast<const uint4*>(src + (size_t)(first + r) * stride + c);
        *reinterpret_cast<uint4*>(tile + r * LD_H + c) = v;
    }
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
swa_gqa_fwd(const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V, half* __restrict__ O,
            int seq_len, int n_heads, int n_kv_heads, int window, float scale) {
    __shared__ __align__(32) half s_q[BLOCK_Q * LD_H];
    __shared__ __align__(32) half s_k[BLOCK_KV * LD_H];
    __shared__ __align__(32) half s_v[BLOCK_KV * LD_H];
    __shared__ __align__(32) half s_p[BLOCK_Q * LD_P];
    __shared__ __align__(32) float s_s[BLOCK_Q * LD_S];
    __shared__ __align__(32) float s_o[BLOCK_Q * LD_O];

    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int q_start = blockIdx.x * BLOCK_Q;
    const int head = blockIdx.y;
    const int batch = blockIdx.z;
    const int group_size = n_heads / n_kv_heads;
    const int kv_head = head / group_size;

    const int q_stride = n_heads * HEAD_DIM;
    const int kv_stride = n_kv_heads * HEAD_DIM;
    const half* q_ptr = Q + (size_t)batch * seq_len * q_stride + head * HEAD_DIM;
    const half* k_ptr = K + (size_t)batch * seq_len * kv_stride + kv_head * HEAD_DIM;
    const half* v_ptr = V + (size_t)batch * seq_len * kv_stride + kv_head * HEAD_DIM;
    half* o_ptr = O + (size_t)batch * seq_len * q_stride + head * HEAD_DIM;

    load_rows(s_q, q_ptr, q_start, BLOCK_Q, seq_len, q_stride);
    for (int i = tid; i < BLOCK_Q * LD_O; i += NUM_THREADS)
        s_o[i] = 0.0f;

    // four threads share a row of scores
    const int row = tid / 4;
    const int part = tid % 4;
    const int query = q_start + row;
    float row_max = MASKED;
    float row_sum = 0.0f;

    // from the tile with the first key that the block's first query sees, to the one of the last query itself
    const int kv_first = max(0, q_start - window + 1) / BLOCK_KV * BLOCK_KV;
    const int kv_end = min(q_start + BLOCK_Q, seq_len);

    for (int kv_start = kv_first; kv_start < kv_end; kv_start += BLOCK_KV) {
        load_rows(s_k, k_ptr, kv_start, BLOCK_KV, seq_len, kv_stride);
        load_rows(s_v, v_ptr, kv_start, BLOCK_KV, seq_len, kv_stride);
        __syncthreads();

        // S = Q K^T, one 16x16 tile for each warp
        {
            const int tr = warp / (BLOCK_KV / 16) * 16;
            const int tc = warp % (BLOCK_KV / 16) * 16;
            FragA a;
            FragBt b;
            FragC acc;
            wmma::fill_fragment(acc, 0.0f);
            for (int d = 0; d < HEAD_DIM; d += 16) {
                wmma::load_matrix_sync(a, s_q + tr * LD_H + d, LD_H);
                wmma::load_matrix_sync(b, s_k + tc * LD_H + d, LD_H);
                wmma::mma_sync(acc, a, b, acc);
            }
            wmma::store_matrix_sync(s_s + tr * LD_S + tc, acc, LD_S, wmma::mem_row_major);
        }
        __syncthreads();

        // online softmax
        float s[BLOCK_KV / 4];
        float new_max = row_max;
        for (int c = 0; c < BLOCK_KV / 4; c++) {
            const int key = kv_start + part + c * 4;
            const bool visible = key <= query && query - key < window;
            s[c] = visible ? s_s[row * LD_S + part + c * 4] * scale : MASKED;
            new_max = fmaxf(new_max, s[c]);
        }
        new_max = fmaxf(new_max, __shfl_xor_sync(0xffffffff, new_max, 1));
        new_max = fmaxf(new_max, __shfl_xor_sync(0xffffffff, new_max, 2));

        float sum = 0.0f;
        for (int c = 0; c < BLOCK_KV / 4; c++) {
            const float p = s[c] > MASKED ? __expf(s[c] - new_max) : 0.0f;
            s_p[row * LD_P + part + c * 4] = __float2half(p);
            sum += p;
        }
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        sum += __shfl_xor_sync(0xffffffff, sum, 2);

        const float correction = __expf(row_max - new_max);
        row_sum = row_sum * correction + sum;
        row_max = new_max;
        for (int d = part; d < HEAD_DIM; d += 4)
            s_o[row * LD_O + d] *= correction;
        __syncthreads();

        // O += P V, two tiles for each warp
        for (int t = warp; t < (BLOCK_Q / 16) * (HEAD_DIM / 16); t += NUM_WARPS) {
            const int tr = t / (HEAD_DIM / 16) * 16;
            const int tc = t % (HEAD_DIM / 16) * 16;
            FragA a;
            FragB b;
            FragC acc;
            wmma::load_matrix_sync(acc, s_o + tr * LD_O + tc, LD_O, wmma::mem_row_major);
            for (int j = 0; j < BLOCK_KV; j += 16) {
                wmma::load_matrix_sync(a, s_p + tr * LD_P + j, LD_P);
                wmma::load_matrix_sync(b, s_v + j * LD_H + tc, LD_H);
                wmma::mma_sync(acc, a, b, acc);
            }
            wmma::store_matrix_sync(s_o + tr * LD_O + tc, acc, LD_O, wmma::mem_row_major);
        }
        __syncthreads();
    }

    if (query < seq_len) {
        const float inv_sum = 1.0f / row_sum;
        for (int d = part * 2; d < HEAD_DIM; d += 8) {
            const float x = s_o[row * LD_O + d] * inv_sum;
            const float y = s_o[row * LD_O + d + 1] * inv_sum;
            *reinterpret_cast<half2*>(o_ptr + (size_t)query * q_stride + d) = __floats2half2_rn(x, y);
        }
    }
}
