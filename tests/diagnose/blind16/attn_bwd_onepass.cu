// Attention backward in one pass, causal. One block owns a tile of keys: it keeps dK and dV of them in fragments,
// walks over the tiles of queries that see these keys, and adds their part of dQ to global memory with atomics.
// What the forward pass left: lse (log of the sum of exponentials of scaled scores) and delta = rowsum(dO * O).
// All tensors are [batch*heads, seq, 64]; dQ is float and must be zero at the beginning.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define HEAD_DIM 64
#define TILE 32
#define LD_X (HEAD_DIM + 8)   // q, k, v, dO tiles
#define LD_S (TILE + 4)       // scores, float
#define LD_P (TILE + 8)       // probabilities, half
#define LD_G (HEAD_DIM + 4)   // gradients on their way out, float
#define THREADS 128

typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> frag_a;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> frag_at;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> frag_b;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> frag_bt;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> frag_c;

__device__ void load_rows(half* tile, const half* src, int first, int seq) {
    for (int i = threadIdx.x; i < TILE * HEAD_DIM / 2; i += THREADS) {
        int r = i / (HEAD_DIM / 2);
        int c = i % (HEAD_DIM / 2) * 2;
        half2 x = __float2half2_rn(0.0f);
        if (first + r < seq) x = *(const half2*)(src + (first + r) * HEAD_DIM + c);
        *(half2*)(tile + r * LD_X + c) = x;
    }
}

// out = x * y^T for two tiles of rows; a warp makes one quarter
__device__ void product_nt(float* out, const half* x, const half* y, int wr, int wc) {
    frag_a a;
    frag_bt b;
    frag_c c;
    wmma::fill_fragment(c, 0.0f);
    for (int d = 0; d < HEAD_DIM; d += 16) {
        wmma::load_matrix_sync(a, x + wr * 16 * LD_X + d, LD_X);
        wmma::load_matrix_sync(b, y + wc * 16 * LD_X + d, LD_X);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(out + wr * 16 * LD_S + wc * 16, c, LD_S, wmma::mem_row_major);
}

// grad += p^T * x, for the warp's 16 keys and 32 columns
__device__ void accumulate_tn(frag_c* grad, const half* p, const half* x, int wr, int wc) {
    frag_at a;
    frag_b b;
    for (int q = 0; q < TILE; q += 16) {
        wmma::load_matrix_sync(a, p + q * LD_P + wr * 16, LD_P);
        for (int n = 0; n < 2; n++) {
            wmma::load_matrix_sync(b, x + q * LD_X + wc * 32 + n * 16, LD_X);
            wmma::mma_sync(grad[n], a, b, grad[n]);
        }
    }
}

__device__ void store_rows(half* dst, float* stage, frag_c* grad, int first, int seq, int wr, int wc) {
    for (int n = 0; n < 2; n++)
        wmma::store_matrix_sync(stage + wr * 16 * LD_G + wc * 32 + n * 16, grad[n], LD_G, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < TILE * HEAD_DIM; i += THREADS) {
        int r = i / HEAD_DIM;
        int c = i % HEAD_DIM;
        if (first + r < seq) dst[(first + r) * HEAD_DIM + c] = __float2half(stage[r * LD_G + c]);
    }
    __syncthreads();
}

__global__ void attention_backward(const half* q, const half* k, const half* v, const half* dout, const float* lse,
                                   const float* delta, float* dq, half* dk, half* dv, int seq, float scale) {
    __shared__ __align__(32) half s_k[TILE * LD_X], s_v[TILE * LD_X], s_q[TILE * LD_X], s_do[TILE * LD_X];
    __shared__ __align__(32) half s_p[TILE * LD_P], s_ds[TILE * LD_P];
    __shared__ __align__(32) float s_s[TILE * LD_S], s_dp[TILE * LD_S], s_out[TILE * LD_G];

    int warp = threadIdx.x / 32;
    int wr = warp / 2, wc = warp % 2;
    int key0 = blockIdx.x * TILE;
    size_t base = (size_t)blockIdx.y * seq * HEAD_DIM;

    q += base;
    k += base;
    v += base;
    dout += base;
    dq += base;
    dk += base;
    dv += base;
    lse += blockIdx.y * seq;
    delta += blockIdx.y * seq;

    load_rows(s_k, k, key0, seq);
    load_rows(s_v, v, key0, seq);

    frag_c grad_k[2], grad_v[2];
    for (int n = 0; n < 2; n++) {
        wmma::fill_fragment(grad_k[n], 0.0f);
        wmma::fill_fragment(grad_v[n], 0.0f);
    }

    // queries before the tile's first key see none of it
    for (int query0 = key0; query0 < seq; query0 += TILE) {
        load_rows(s_q, q, query0, seq);
        load_rows(s_do, dout, query0, seq);
        __syncthreads();

        product_nt(s_s, s_q, s_k, wr, wc);
        product_nt(s_dp, s_do, s_v, wr, wc);
        __syncthreads();

        for (int i = threadIdx.x; i < TILE * TILE; i += THREADS) {
            int r = i / TILE, c = i % TILE;
            int query = query0 + r, key = key0 + c;
            float p = 0.0f, ds = 0.0f;
            if (query < seq && key <= query) {
                p = expf(s_s[r * LD_S + c] * scale - lse[query]);
                ds = p * (s_dp[r * LD_S + c] - delta[query]) * scale;
            }
            s_p[r * LD_P + c] = __float2half(p);
            s_ds[r * LD_P + c] = __float2half(ds);
        }
        __syncthreads();

        accumulate_tn(grad_v, s_p, s_do, wr, wc);
        accumulate_tn(grad_k, s_ds, s_q, wr, wc);

        // dQ = dS * K
        for (int n = 0; n < 2; n++) {
            frag_a a;
            frag_b b;
            frag_c c;
            wmma::fill_fragment(c, 0.0f);
            for (int key = 0; key < TILE; key += 16) {
                wmma::load_matrix_sync(a, s_ds + wr * 16 * LD_P + key, LD_P);
                wmma::load_matrix_sync(b, s_k + key * LD_X + wc * 32 + n * 16, LD_X);
                wmma::mma_sync(c, a, b, c);
            }
            wmma::store_matrix_sync(s_out + wr * 16 * LD_G + wc * 32 + n * 16, c, LD_G, wmma::mem_row_major);
        }
        __syncthreads();
        for (int i = threadIdx.x; i < TILE * HEAD_DIM; i += THREADS) {
            int r = i / HEAD_DIM;
            int c = i % HEAD_DIM;
            if (query0 + r < seq) atomicAdd(&dq[(query0 + r) * HEAD_DIM + c], s_out[r * LD_G + c]);
        }
        __syncthreads();
    }

    store_rows(dk, s_out, grad_k, key0, seq, wr, wc);
    store_rows(dv, s_out, grad_v, key0, seq, wr, wc);
}
