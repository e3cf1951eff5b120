// Encoder self/cross attention with the WMMA API, course project version.
//
// step 1: S = Q * K^T     (wmma, every warp takes every 4th block of 16 keys)
// step 2: P = softmax(S)  (whole rows are in shared memory, so no online softmax is needed)
// step 3: O = P * V       (wmma, every warp takes 16 columns of the head)
//
// Q: [B, seq_q, H, 64], K and V: [B, seq_k, H, 64], O like Q, all half.
// key_len[b] keys of batch b are valid (padding mask of a batch of sentences with different lengths).
//
// One block = 16 queries of one head. Shared memory grows with seq_k: fine up to ~1500 keys.
#include <cuda_fp16.h>
#include <mma.h>
#include <math.h>

using namespace nvcuda;

#define HEAD_DIM 64
#define TILE 16
#define NUM_WARPS 4
#define NUM_THREADS (NUM_WARPS * 32)
#define LD_TILE (HEAD_DIM + 8) // leading dimension of the Q/K/V tiles, padded against bank conflicts

#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

// padded number of keys: whole wmma tiles
__host__ __device__ inline int padded_keys(int seq_k) { return CEIL_DIV(seq_k, TILE) * TILE; }
__host__ __device__ inline int score_ld(int seq_k) { return padded_keys(seq_k) + 4; }
__host__ __device__ inline int prob_ld(int seq_k) { return padded_keys(seq_k) + 8; }

inline size_t attn_smem_bytes(int seq_k) {
    return TILE * score_ld(seq_k) * sizeof(float)        // S
         + TILE * prob_ld(seq_k) * sizeof(half)          // P
         + TILE * LD_TILE * sizeof(half)                 // Q, later V
         + NUM_WARPS * TILE * LD_TILE * sizeof(half);    // K, one tile per warp; later O
}

// Copy 16 rows of 64 halves (8 halves = one float4 at a time). Rows >= valid_rows become zero.
__device__ void load_rows(half *dst, const half *src, int row_stride, int valid_rows, int tid, int nthreads) {
    for (int i = tid; i < TILE * HEAD_DIM / 8; i += nthreads) {
        int r = i / (HEAD_DIM / 8);
        int c = (i % (HEAD_DIM / 8)) * 8;
        float4 val = make_float4(0.f, 0.f, 0.f, 0.f);
        if (r < valid_rows)
            val = *(const float4 *)(src + (size_t)r * row_stride + c);
        *(float4 *)(dst + r * LD_TILE + c) = val;
    }
}

__device__ float warp_max(float x) {
    for (int offset = 16; offset > 0; offset /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, offset));
    return x;
}

__device__ float warp_sum(float x) {
    for (int offset = 16; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xffffffff, x, offset);
    return x;
}

__global__ void encoder_attn_kernel(const half *Q, const half *K, const half *V, const int *key_len, half *O,
                                    int seq_q, int seq_k, int num_heads, float scale) {
    extern __shared__ __align__(32) unsigned char smem[];
    const int lds = score_ld(seq_k);
    const int ldp = prob_ld(seq_k);
    float *S = (float *)smem;
    half *P = (half *)(S + TILE * lds);
    half *q_tile = P + TILE * ldp;
    half *k_tiles = q_tile + TILE * LD_TILE;

    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int lane = tid % 32;

    const int q0 = blockIdx.x * TILE;
    const int b = blockIdx.y / num_heads;
    const int h = blockIdx.y % num_heads;
    const int row_stride = num_heads * HEAD_DIM;
    const int len = key_len[b];
    const int num_tiles = CEIL_DIV(len, TILE);

    const half *Qb = Q + ((size_t)b * seq_q + q0) * row_stride + h * HEAD_DIM;
    const half *Kb = K + (size_t)b * seq_k * row_stride + h * HEAD_DIM;
    const half *Vb = V + (size_t)b * seq_k * row_stride + h * HEAD_DIM;
    half *Ob = O + ((size_t)b * seq_q + q0) * row_stride + h * HEAD_DIM;

    // ---- step 1: scores ----
    load_rows(q_tile, Qb, row_stride, seq_q - q0, tid, NUM_THREADS);
    __syncthreads();

    wmma::fragment<wmma::matrix_a, TILE, TILE, TILE, half, wmma::row_major> q_frag[HEAD_DIM / TILE];
    for (int i = 0; i < HEAD_DIM / TILE; i++)
        wmma::load_matrix_sync(q_frag[i], q_tile + i * TILE, LD_TILE);

    half *k_tile = k_tiles + warp * TILE * LD_TILE;
    for (int t = warp; t < num_tiles; t += NUM_WARPS) {
        load_rows(k_tile, Kb + (size_t)t * TILE * row_stride, row_stride, len - t * TILE, lane, 32);
        __syncwarp();

        wmma::fragment<wmma::accumulator, TILE, TILE, TILE, float> s_frag;
        wmma::fill_fragment(s_frag, 0.0f);
        for (int i = 0; i < HEAD_DIM / TILE; i++) {
            // K is stored key by key, so K^T is column major
            wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, half, wmma::col_major> k_frag;
            wmma::load_matrix_sync(k_frag, k_tile + i * TILE, LD_TILE);
            wmma::mma_sync(s_frag, q_frag[i], k_frag, s_frag);
        }
        for (int i = 0; i < s_frag.num_elements; i++)
            s_frag.x[i] *= scale;
        wmma::store_matrix_sync(S + t * TILE, s_frag, lds, wmma::mem_row_major);
        __syncwarp();
    }
    __syncthreads();

    // ---- step 2: softmax, a warp takes one row after another ----
    for (int r = warp; r < TILE; r += NUM_WARPS) {
        float *row = S + r * lds;
        float row_max = -INFINITY;
        for (int c = lane; c < len; c += 32)
            row_max = fmaxf(row_max, row[c]);
        row_max = warp_max(row_max);

        float row_sum = 0.0f;
        for (int c = lane; c < len; c += 32) {
            float e = expf(row[c] - row_max);
            row[c] = e;
            row_sum += e;
        }
        row_sum = warp_sum(row_sum);

        // the last tile has keys that do not exist: their probability is 0
        for (int c = lane; c < num_tiles * TILE; c += 32)
            P[r * ldp + c] = __float2half(c < len ? row[c] / row_sum : 0.0f);
    }

    // ---- step 3: output ----
    wmma::fragment<wmma::accumulator, TILE, TILE, TILE, float> o_frag;
    wmma::fill_fragment(o_frag, 0.0f);
    half *v_tile = q_tile;
    for (int t = 0; t < num_tiles; t++) {
        __syncthreads(); // P is there, and nobody needs the last tile of V any more
        load_rows(v_tile, Vb + (size_t)t * TILE * row_stride, row_stride, len - t * TILE, tid, NUM_THREADS);
        __syncthreads();

        wmma::fragment<wmma::matrix_a, TILE, TILE, TILE, half, wmma::row_major> p_frag;
        wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, half, wmma::row_major> v_frag;
        wmma::load_matrix_sync(p_frag, P + t * TILE, ldp);
        wmma::load_matrix_sync(v_frag, v_tile + warp * TILE, LD_TILE);
        wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
    }

    // 16x16 per warp through shared memory (the K tiles are not needed any more), then half to global
    float *o_tile = (float *)k_tiles + warp * TILE * TILE;
    wmma::store_matrix_sync(o_tile, o_frag, TILE, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < TILE * TILE; i += 32) {
        int r = i / TILE;
        int c = i % TILE;
        if (q0 + r < seq_q)
            Ob[(size_t)r * row_stride + warp * TILE + c] = __float2half(o_tile[i]);
    }
}

void encoder_attention(const half *Q, const half *K, const half *V, const int *key_len, half *O, int batch, int seq_q,
                       int seq_k, int num_heads) {
    size_t smem = attn_smem_bytes(seq_k);
    cudaFuncSetAttribute(encoder_attn_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
    dim3 grid(CEIL_DIV(seq_q, TILE), batch * num_heads);
    encoder_attn_kernel<<<grid, NUM_THREADS, smem>>>(Q, K, V, key_len, O, seq_q, seq_k, num_heads,
                                                     1.0f / sqrtf((float)HEAD_DIM));
}
