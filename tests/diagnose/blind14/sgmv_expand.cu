// Segmented LoRA "expand": y[t] += scaling[a] * (v[t] @ B[a]) for tokens of several requests in one batch.
// Tokens of a request lie together: segment s is tokens seg_start[s] .. seg_start[s + 1] - 1 with adapter seg_adapter[s].
// B: [adapters, RANK, hidden] half.  grid: (hidden / 64, segments), 128 threads.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

template <int RANK, int TILE_TOKENS = 32>
__global__ void sgmv_expand(float *y, const half *v, const half *B, const float *scaling, const int *seg_start,
                            const int *seg_adapter, int hidden) {
    constexpr int TILE_COLS = 64;
    constexpr int LDV = RANK + 8, LDB = TILE_COLS + 8, LDY = TILE_COLS + 4;
    __shared__ alignas(32) half sv[TILE_TOKENS * LDV];
    __shared__ alignas(32) half sb[RANK * LDB];
    __shared__ alignas(32) float sy[TILE_TOKENS * LDY];

    const int segment = blockIdx.y;
    const int col0 = blockIdx.x * TILE_COLS;
    const int begin = seg_start[segment], end = seg_start[segment + 1];
    if (begin == end) return;
    const int adapter = seg_adapter[segment];
    const float scale = scaling[adapter];
    const int warp = threadIdx.x / 32;
    const int warp_tok = warp % 2 * 16, warp_col = warp / 2 * 32;

    // the adapter's columns are needed by all tokens of the segment
    const half *b = B + (size_t)adapter * RANK * hidden;
    for (int i = threadIdx.x; i < RANK * TILE_COLS / 8; i += blockDim.x) {
        const int r = i / (TILE_COLS / 8), c = i % (TILE_COLS / 8) * 8;
        *(uint4 *)&sb[r * LDB + c] = *(const uint4 *)&b[(size_t)r * hidden + col0 + c];
    }

    for (int t0 = begin; t0 < end; t0 += TILE_TOKENS) {
        for (int i = threadIdx.x; i < TILE_TOKENS * RANK / 2; i += blockDim.x) {
            const int t = i / (RANK / 2), r = i % (RANK / 2) * 2;
            half2 pair = make_half2(0, 0);
            if (t0 + t < end) pair = *(const half2 *)&v[(size_t)(t0 + t) * RANK + r];
            *(half2 *)&sv[t * LDV + r] = pair;
        }
        __syncthreads();

        wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
        wmma::fill_fragment(acc[0], 0.f);
        wmma::fill_fragment(acc[1], 0.f);
        #pragma unroll
        for (int r = 0; r < RANK; r += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fv;
            wmma::load_matrix_sync(fv, sv + warp_tok * LDV + r, LDV);
            #pragma unroll
            for (int j = 0; j < 2; j++) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
                wmma::load_matrix_sync(fb, sb + r * LDB + warp_col + j * 16, LDB);
                wmma::mma_sync(acc[j], fv, fb, acc[j]);
            }
        }
        #pragma unroll
        for (int j = 0; j < 2; j++) {
            for (int e = 0; e < acc[j].num_elements; e++) acc[j].x[e] *= scale;
            wmma::store_matrix_sync(sy + warp_tok * LDY + warp_col + j * 16, acc[j], LDY, wmma::mem_row_major);
        }
        __syncthreads();

        for (int i = threadIdx.x; i < TILE_TOKENS * TILE_COLS; i += blockDim.x) {
            const int t = i / TILE_COLS, c = i % TILE_COLS;
            if (t0 + t < end) y[(size_t)(t0 + t) * hidden + col0 + c] += sy[t * LDY + c];
        }
    }
}

template __global__ void sgmv_expand<32>(float *, const half *, const half *, const float *, const int *, const int *, int);
