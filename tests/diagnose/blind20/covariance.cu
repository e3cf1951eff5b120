// Sample covariance of n observations (rows) of d variables (columns), bf16 in, float out:
//   C = (X^T X - n mean mean^T) / (n - ddof)
// Only tiles on and below the diagonal are launched, numbered row by row of the triangle; the others are mirrored.
#include <cuda_bf16.h>
#include <mma.h>

namespace stats {

namespace wmma = nvcuda::wmma;
using bf16 = __nv_bfloat16;

enum : int { Tile = 32, Depth = 32, Threads = 128, Skew = 8, SkewF = 4 };

// a strip of Depth observations of Tile variables
struct Strip {
    static constexpr int pitch = Tile + Skew;
    bf16 at[Depth * pitch];

    __device__ void fill(const bf16* X, int ldx, int obs0, int n, int var0, int d)
    {
        const bool aligned = (ldx % 4) == 0;
        for (int i = threadIdx.x; i < Depth * (Tile / 4); i += Threads) {
            const int row = i / (Tile / 4);
            const int col = (i % (Tile / 4)) * 4;
            bf16* to = at + row * pitch + col;
            const bf16* from = X + (size_t)(obs0 + row) * ldx + var0 + col;
            if (aligned && obs0 + row < n && var0 + col + 4 <= d) {
                *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(from);
            } else {
                for (int e = 0; e < 4; ++e)
                    to[e] = (obs0 + row < n && var0 + col + e < d) ? from[e] : __float2bfloat16(0.0f);
            }
        }
    }
};

// tile number -> (row, column) with column <= row
__device__ inline int2 triangle(int index)
{
    int row = static_cast<int>((sqrtf(8.0f * index + 1.0f) - 1.0f) * 0.5f);
    while (row * (row + 1) / 2 > index) --row;
    while ((row + 1) * (row + 2) / 2 <= index) ++row;
    return make_int2(row, index - row * (row + 1) / 2);
}

__global__ void covariance(const bf16* __restrict__ X, float* __restrict__ C, float* __restrict__ mean_out,
                           int n, int d, int ldx, int ldc, int ddof)
{
    __shared__ __align__(128) Strip strip_i;
    __shared__ __align__(128) Strip strip_j;
    __shared__ __align__(128) float gram[Tile * (Tile + SkewF)];
    __shared__ float mean_i[Tile], mean_j[Tile];

    const int2 tile = triangle(blockIdx.x);
    const int vi = tile.x * Tile, vj = tile.y * Tile;
    const bool diagonal = tile.x == tile.y;
    const int warp = threadIdx.x / warpSize;
    const int wi = (warp / 2) * 16, wj = (warp % 2) * 16;

    const Strip& right = diagonal ? strip_i : strip_j;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    float sum = 0.0f;                            // of one variable: thread t < Tile of i, the next Tile threads of j

    for (int obs = 0; obs < n; obs += Depth) {
        strip_i.fill(X, ldx, obs, n, vi, d);
        if (!diagonal) strip_j.fill(X, ldx, obs, n, vj, d);
        __syncthreads();

        for (int k = 0; k < Depth; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::col_major> a;     // X^T
            wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> b;
            wmma::load_matrix_sync(a, strip_i.at + k * Strip::pitch + wi, Strip::pitch);
            wmma::load_matrix_sync(b, right.at + k * Strip::pitch + wj, Strip::pitch);
            wmma::mma_sync(acc, a, b, acc);
        }
        if (threadIdx.x < 2 * Tile) {
            const Strip& mine = threadIdx.x < Tile ? strip_i : right;
            for (int r = 0; r < Depth; ++r)
                sum += __bfloat162float(mine.at[r * Strip::pitch + threadIdx.x % Tile]);
        }
        __syncthreads();
    }

    if (threadIdx.x < Tile) {
        mean_i[threadIdx.x] = sum / n;
        if (diagonal && vi + threadIdx.x < d) mean_out[vi + threadIdx.x] = sum / n;
    } else if (threadIdx.x < 2 * Tile) {
        mean_j[threadIdx.x - Tile] = sum / n;
    }
    wmma::store_matrix_sync(gram + wi * (Tile + SkewF) + wj, acc, Tile + SkewF, wmma::mem_row_major);
    __syncthreads();

    const float inverse = 1.0f / (n - ddof);
    auto cov = [&](int i, int j) {
        return (gram[i * (Tile + SkewF) + j] - n * mean_i[i] * mean_j[j]) * inverse;
    };
    for (int e = threadIdx.x; e < Tile * Tile; e += Threads) {
        const int i = e / Tile, j = e % Tile;
        if (vi + i < d && vj + j < d) C[(size_t)(vi + i) * ldc + vj + j] = cov(i, j);
    }
    if (!diagonal) {                             // mirrored, again with neighbours in the fast direction
        for (int e = threadIdx.x; e < Tile * Tile; e += Threads) {
            const int j = e / Tile, i = e % Tile;
            if (vi + i < d && vj + j < d) C[(size_t)(vj + j) * ldc + vi + i] = cov(i, j);
        }
    }
}

}  // namespace stats
