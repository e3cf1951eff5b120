#include <cuda_bf16.h>
#include <mma.h>

// Muon's Newton-Schulz step, second product: B = b * A + c * (A @ A) for a symmetric A (= X X^T) of n x n, row-major.
// As A is symmetric so is B: only tiles on and below the diagonal are computed, each written twice, the second time mirrored.

namespace muon {

using namespace nvcuda;
using bf16 = __nv_bfloat16;

enum : int { kTile = 32, kStep = 32, kSkew = 8, kThreads = 128 };

struct __align__(32) SharedStorage {
    union {
        struct {
            bf16 lhs[2][kTile][kStep + kSkew];   // A[row tile, k]
            bf16 rhs[2][kTile][kStep + kSkew];   // A[col tile, k], i.e. the transpose of what the product wants
        } main;
        float out[kTile][kTile + 4];
    };
};

// 16 bytes per thread: 32 rows of 4 chunks
__device__ uint4 load_chunk(const bf16* A, int n, int row0, int k0) {
    const int r = row0 + threadIdx.x / 4;
    const int k = k0 + threadIdx.x % 4 * 8;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (r < n && k < n) v = *reinterpret_cast<const uint4*>(A + static_cast<size_t>(r) * n + k);   // n % 8 == 0
    return v;
}

__device__ void store_chunk(bf16 (*tile)[kStep + kSkew], uint4 v) {
    *reinterpret_cast<uint4*>(&tile[threadIdx.x / 4][threadIdx.x % 4 * 8]) = v;
}

// the t-th tile of the lower triangle, counted along the rows
__device__ void triangle_index(int t, int& row, int& col) {
    row = static_cast<int>((sqrtf(8.0f * t + 1.0f) - 1.0f) * 0.5f);
    while ((row + 1) * (row + 2) / 2 <= t) ++row;
    while (row * (row + 1) / 2 > t) --row;
    col = t - row * (row + 1) / 2;
}

__global__ void __launch_bounds__(kThreads) ns_poly_symmetric(const bf16* __restrict__ A, bf16* __restrict__ B, int n, float b, float c) {
    __shared__ SharedStorage shared;

    int tile_row, tile_col;
    triangle_index(blockIdx.x, tile_row, tile_col);
    const int row0 = tile_row * kTile, col0 = tile_col * kTile;
    const int warp = threadIdx.x / 32;
    const int wr = warp / 2 * 16, wc = warp % 2 * 16;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    uint4 next_lhs = load_chunk(A, n, row0, 0);
    uint4 next_rhs = load_chunk(A, n, col0, 0);
    store_chunk(shared.main.lhs[0], next_lhs);
    store_chunk(shared.main.rhs[0], next_rhs);
    __syncthreads();

    int buf = 0;
    for (int k = 0; k < n; k += kStep) {
        const bool more = k + kStep < n;
        if (more) {
            next_lhs = load_chunk(A, n, row0, k + kStep);
            next_rhs = load_chunk(A, n, col0, k + kStep);
        }
        for (int kk = 0; kk < kStep; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fa;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> fb;
            wmma::load_matrix_sync(fa, &shared.main.lhs[buf][wr][kk], kStep + kSkew);
            wmma::load_matrix_sync(fb, &shared.main.rhs[buf][wc][kk], kStep + kSkew);
            wmma::mma_sync(acc, fa, fb, acc);
        }
        if (more) {
            store_chunk(shared.main.lhs[buf ^ 1], next_lhs);
            store_chunk(shared.main.rhs[buf ^ 1], next_rhs);
        }
        __syncthreads();
        buf ^= 1;
    }

    // the sums go where the operands were
    wmma::store_matrix_sync(&shared.out[wr][wc], acc, kTile + 4, wmma::mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < kTile * kTile; i += kThreads) {
        const int r = i / kTile, s = i % kTile;
        const int row = row0 + r, col = col0 + s;
        if (row < n && col < n) {
            const float a = __bfloat162float(A[static_cast<size_t>(row) * n + col]);
            shared.out[r][s] = fmaf(c, shared.out[r][s], b * a);
            B[static_cast<size_t>(row) * n + col] = __float2bfloat16(shared.out[r][s]);
        }
    }
    if (tile_row == tile_col) return;
    __syncthreads();
    for (int i = threadIdx.x; i < kTile * kTile; i += kThreads) {
        const int s = i / kTile, r = i % kTile;
        const int row = row0 + r, col = col0 + s;
        if (row < n && col < n) B[static_cast<size_t>(col) * n + row] = __float2bfloat16(shared.out[r][s]);
    }
}

}  // namespace muon
