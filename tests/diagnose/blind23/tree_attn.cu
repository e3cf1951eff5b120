// Tree attention for speculative decoding (Medusa / EAGLE verification step).
//
// The draft model proposes a TREE of up to 32 tokens. All of them attend to the whole cached prefix; among themselves,
// node i attends to node j only where bit j of tree_mask[i] is set (its ancestors and itself). K/V of the tree tokens
// have already been appended to the cache at positions prefix .. prefix + n_nodes - 1.
//
// One thread block per (head, sequence), one warp per 16 nodes. Everything goes through shared memory with plain WMMA;
// this step is bound by reading the cache anyway.
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>

using namespace nvcuda::wmma;

constexpr int HEAD_DIM = 64;
constexpr int MAX_NODES = 32;
constexpr int KV_TILE = 32;
constexpr int N_WARPS = MAX_NODES / 16;
constexpr int N_THREADS = N_WARPS * 32;

constexpr int QKV_LD = HEAD_DIM + 8;
constexpr int S_LD = KV_TILE + 4;
constexpr int P_LD = KV_TILE + 8;
constexpr int O_LD = HEAD_DIM + 4;

struct __align__(32) TreeSmem {
    half q[MAX_NODES][QKV_LD];
    half k[KV_TILE][QKV_LD];
    half v[KV_TILE][QKV_LD];
    float s[N_WARPS][16][S_LD];
    half p[N_WARPS][16][P_LD];
    float o[N_WARPS][16][O_LD];
};

__device__ inline void copy_row_chunk(half* dst, const half* src, bool valid) {
    *reinterpret_cast<uint4*>(dst) = valid ? *reinterpret_cast<const uint4*>(src) : make_uint4(0, 0, 0, 0);
}

// q, out:            [batch, n_nodes, n_heads, HEAD_DIM]
// k_cache, v_cache:  [batch, n_heads, max_len, HEAD_DIM]
__global__ void tree_attention_kernel(const half* __restrict__ q,
                                      const half* __restrict__ k_cache,
                                      const half* __restrict__ v_cache,
                                      const uint32_t* __restrict__ tree_mask,   // [n_nodes]
                                      const int* __restrict__ prefix_len,       // [batch]
                                      half* __restrict__ out,
                                      int n_nodes, int n_heads, int max_len, float softmax_scale) {
    __shared__ TreeSmem sm;

    const int head = blockIdx.x;
    const int seq = blockIdx.y;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;

    const int prefix = prefix_len[seq];
    const int total = prefix + n_nodes;
    const half* k_base = k_cache + (size_t)(seq * n_heads + head) * max_len * HEAD_DIM;
    const half* v_base = v_cache + (size_t)(seq * n_heads + head) * max_len * HEAD_DIM;

    constexpr int CHUNKS = HEAD_DIM / 8;
    for (int i = threadIdx.x; i < MAX_NODES * CHUNKS; i += N_THREADS) {
        const int row = i / CHUNKS, col = (i % CHUNKS) * 8;
        copy_row_chunk(&sm.q[row][col], q + ((size_t)(seq * n_nodes + row) * n_heads + head) * HEAD_DIM + col,
                       row < n_nodes);
    }
    for (int i = lane; i < 16 * O_LD; i += 32) (&sm.o[warp][0][0])[i] = 0.f;

    // two lanes per row: each has half of the keys of a tile, and half of the columns of O
    const int my_row = lane / 2;
    const int my_half = lane % 2;
    const int node = warp * 16 + my_row;
    const uint32_t my_mask = node < n_nodes ? tree_mask[node] : 0u;
    float row_max = -INFINITY;
    float row_sum = 0.f;

    for (int kv0 = 0; kv0 < total; kv0 += KV_TILE) {
        __syncthreads();   // the previous tile is no longer needed
        for (int i = threadIdx.x; i < KV_TILE * CHUNKS; i += N_THREADS) {
            const int row = i / CHUNKS, col = (i % CHUNKS) * 8;
            const bool valid = kv0 + row < total;
            copy_row_chunk(&sm.k[row][col], k_base + (size_t)(kv0 + row) * HEAD_DIM + col, valid);
            copy_row_chunk(&sm.v[row][col], v_base + (size_t)(kv0 + row) * HEAD_DIM + col, valid);
        }
        __syncthreads();

        // ---- S = Q K^T
        for (int n = 0; n < KV_TILE / 16; n++) {
            fragment<accumulator, 16, 16, 16, float> s_frag;
            fill_fragment(s_frag, 0.f);
            for (int d = 0; d < HEAD_DIM; d += 16) {
                fragment<matrix_a, 16, 16, 16, half, row_major> q_frag;
                fragment<matrix_b, 16, 16, 16, half, col_major> k_frag;
                load_matrix_sync(q_frag, &sm.q[warp * 16][d], QKV_LD);
                load_matrix_sync(k_frag, &sm.k[n * 16][d], QKV_LD);
                mma_sync(s_frag, q_frag, k_frag, s_frag);
            }
            store_matrix_sync(&sm.s[warp][0][n * 16], s_frag, S_LD, mem_row_major);
        }
        __syncwarp();

        // ---- online softmax
        float tile_max = -INFINITY;
        for (int j = my_half; j < KV_TILE; j += 2) {
            const int pos = kv0 + j;
            bool visible = pos < prefix;
            if (!visible && pos < total) visible = (my_mask >> (pos - prefix)) & 1u;
            const float x = visible ? sm.s[warp][my_row][j] * softmax_scale : -INFINITY;
            sm.s[warp][my_row][j] = x;
            tile_max = fmaxf(tile_max, x);
        }
        tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffff, tile_max, 1));
        const float new_max = fmaxf(row_max, tile_max);
        const float ref = new_max == -INFINITY ? 0.f : new_max;   // a padding row sees nothing, maybe ever
        const float correction = __expf(row_max - ref);

        float tile_sum = 0.f;
        for (int j = my_half; j < KV_TILE; j += 2) {
            const float e = __expf(sm.s[warp][my_row][j] - ref);
            sm.p[warp][my_row][j] = __float2half(e);
            tile_sum += e;
        }
        tile_sum += __shfl_xor_sync(0xffffffff, tile_sum, 1);
        row_sum = row_sum * correction + tile_sum;
        row_max = new_max;

        for (int c = my_half * (HEAD_DIM / 2); c < (my_half + 1) * (HEAD_DIM / 2); c++)
            sm.o[warp][my_row][c] *= correction;
        __syncwarp();

        // ---- O += P V
        for (int d = 0; d < HEAD_DIM; d += 16) {
            fragment<accumulator, 16, 16, 16, float> o_frag;
            load_matrix_sync(o_frag, &sm.o[warp][0][d], O_LD, mem_row_major);
            for (int kk = 0; kk < KV_TILE; kk += 16) {
                fragment<matrix_a, 16, 16, 16, half, row_major> p_frag;
                fragment<matrix_b, 16, 16, 16, half, row_major> v_frag;
                load_matrix_sync(p_frag, &sm.p[warp][0][kk], P_LD);
                load_matrix_sync(v_frag, &sm.v[kk][d], QKV_LD);
                mma_sync(o_frag, p_frag, v_frag, o_frag);
            }
            store_matrix_sync(&sm.o[warp][0][d], o_frag, O_LD, mem_row_major);
        }
        __syncwarp();
    }

    if (node < n_nodes) {
        const float inv = 1.f / row_sum;
        half* dst = out + ((size_t)(seq * n_nodes + node) * n_heads + head) * HEAD_DIM;
        for (int c = my_half * (HEAD_DIM / 2); c < (my_half + 1) * (HEAD_DIM / 2); c += 2)
            *reinterpret_cast<half2*>(dst + c) =
                __floats2half2_rn(sm.o[warp][my_row][c] * inv, sm.o[warp][my_row][c + 1] * inv);
    }
}

void tree_attention(const half* q, const half* k_cache, const half* v_cache, const uint32_t* tree_mask,
                    const int* prefix_len, half* out, int batch, int n_nodes, int n_heads, int max_len,
                    float softmax_scale, cudaStream_t stream) {
    dim3 grid(n_heads, batch);
    tree_attention_kernel<<<grid, N_THREADS, 0, stream>>>(q, k_cache, v_cache, tree_mask, prefix_len, out, n_nodes,
                                                          n_heads, max_len, softmax_scale);
}
