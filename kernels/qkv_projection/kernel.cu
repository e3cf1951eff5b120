// Queries, keys and values of heads in one launch: Q = X·Wq + bq of h heads, K and V of h_kv, each [B, heads, S, D].
// A warp computes 16 rows and 16 columns; columns count through Q, K and V. Weights lie as nn.Linear has them.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

const int TILE = 16, DIM = 32;

struct Part {
    const half* weight;
    const half* bias;
    half* out;
    int heads, column;
};

__global__ void qkv_projection(const half* x, const half* wq, const half* wk, const half* wv, const half* bq,
                               const half* bk, const half* bv, half* q, half* k, half* v, int seq, int heads,
                               int kv_heads, int depth) {
    __shared__ __align__(32) float tile[TILE][TILE];
    int column = blockIdx.x * TILE, row = blockIdx.y * TILE;
    Part part = {wq, bq, q, heads, column};
    if (column >= (heads + kv_heads) * DIM) {
        part = {wv, bv, v, kv_heads, column - (heads + kv_heads) * DIM};
    } else if (column >= heads * DIM) {
        part = {wk, bk, k, kv_heads, column - heads * DIM};
    }
    wmma::fragment<wmma::matrix_a, TILE, TILE, TILE, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, half, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, TILE, TILE, TILE, float> sums;
    wmma::fill_fragment(sums, 0.0f);
    for (int i = 0; i < depth; i += TILE) {
        wmma::load_matrix_sync(a, x + row * depth + i, depth);
        wmma::load_matrix_sync(b, part.weight + part.column * depth + i, depth);
        wmma::mma_sync(sums, a, b, sums);
    }
    wmma::store_matrix_sync(&tile[0][0], sums, TILE, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < TILE * TILE; i += 32) {
        int place = row + i / TILE, n = part.column + i % TILE;
        int head = (place / seq * part.heads + n / DIM) * seq + place % seq;
        part.out[head * DIM + n % DIM] = __float2half(tile[i / TILE][i % TILE] + __half2float(part.bias[n]));
    }
}
