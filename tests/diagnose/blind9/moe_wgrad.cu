// Weight gradient of a mixture of experts' first layer. Tokens are sorted by expert: row r of dy belongs to token row_token[r],
// rows starts[e] .. starts[e + 1] to expert e.
//   dW[e] = sum_r  x[row_token[r]]^T  (gate[r] * dy[r])      db[e] = sum_r gate[r] * dy[r]
// Register-staged double buffering: the next 16 rows are fetched while the current ones are multiplied.

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

namespace moe {

using bf16 = __nv_bfloat16;
namespace wmma = nvcuda::wmma;

struct WgradArgs {
    const bf16* x;          // [tokens, in_features]
    const bf16* dy;         // [rows, out_features]
    const float* gate;      // [rows]
    const int* row_token;   // [rows]
    const int* starts;      // [experts + 1]
    float* dw;              // [experts, in_features, out_features]
    float* db;              // [experts, out_features]
    int in_features, out_features;
};

constexpr int kTile = 64;
constexpr int kRows = 16;
constexpr int kPitch = kTile + 8;
constexpr int kThreads = 128;

union Vec8 {
    uint4 raw;
    bf16 v[8];
};

struct Fetched {
    Vec8 x, dy;
};

// this thread's 16 bytes of each operand: row tid / 8, columns tid % 8 * 8
__device__ Fetched fetch(const WgradArgs& p, int row, int row_end, int in0, int out0) {
    Fetched f;
    f.x.raw = f.dy.raw = make_uint4(0, 0, 0, 0);
    const int r = row + threadIdx.x / 8, c = threadIdx.x % 8 * 8;
    if (r < row_end) {
        if (in0 + c < p.in_features)
            f.x.raw = *reinterpret_cast<const uint4*>(p.x + static_cast<long>(p.row_token[r]) * p.in_features + in0 + c);
        if (out0 + c < p.out_features) {
            f.dy.raw = *reinterpret_cast<const uint4*>(p.dy + static_cast<long>(r) * p.out_features + out0 + c);
            const float g = p.gate[r];
#pragma unroll
            for (int i = 0; i < 8; ++i) f.dy.v[i] = __float2bfloat16(__bfloat162float(f.dy.v[i]) * g);
        }
    }
    return f;
}

__global__ void __launch_bounds__(kThreads) wgrad(WgradArgs p) {
    __shared__ __align__(32) bf16 sx[2][kRows][kPitch];
    __shared__ __align__(32) bf16 sdy[2][kRows][kPitch];
    __shared__ __align__(32) float patch[kThreads / 32][16][20];
    __shared__ float sdb[kTile];

    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int expert = blockIdx.z;
    const int in0 = blockIdx.y * kTile, out0 = blockIdx.x * kTile;
    const int begin = p.starts[expert], end = p.starts[expert + 1];
    const int wi = warp % 2 * 32, wo = warp / 2 * 32;
    const bool has_bias = p.db != nullptr && blockIdx.y == 0;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[i][j], 0.0f);
    float bias[8] = {};
    if (tid < kTile) sdb[tid] = 0.0f;

    auto put = [&](int buffer, const Fetched& f) {
        const int r = tid / 8, c = tid % 8 * 8;
        *reinterpret_cast<uint4*>(&sx[buffer][r][c]) = f.x.raw;
        *reinterpret_cast<uint4*>(&sdy[buffer][r][c]) = f.dy.raw;
        for (int i = 0; i < 8; ++i) bias[i] += __bfloat162float(f.dy.v[i]);
    };

    if (begin < end) put(0, fetch(p, begin, end, in0, out0));
    __syncthreads();

    int buffer = 0;
    for (int row = begin; row < end; row += kRows) {
        const bool more = row + kRows < end;
        Fetched next;
        if (more) next = fetch(p, row + kRows, end, in0, out0);

        wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::col_major> a[2];
        wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> b[2];
        for (int i = 0; i < 2; ++i) {
            wmma::load_matrix_sync(a[i], &sx[buffer][0][wi + 16 * i], kPitch);
            wmma::load_matrix_sync(b[i], &sdy[buffer][0][wo + 16 * i], kPitch);
        }
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);

        buffer ^= 1;
        if (more) put(buffer, next);
        __syncthreads();
    }

    // through a patch of shared memory, since the tile may stick out of the matrix
    float* dw = p.dw + static_cast<long>(expert) * p.in_features * p.out_features;
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            wmma::store_matrix_sync(&patch[warp][0][0], acc[i][j], 20, wmma::mem_row_major);
            __syncwarp();
            for (int e = lane; e < 256; e += 32) {
                const int r = in0 + wi + i * 16 + e / 16, c = out0 + wo + j * 16 + e % 16;
                if (r < p.in_features && c < p.out_features) dw[static_cast<long>(r) * p.out_features + c] = patch[warp][e / 16][e % 16];
            }
            __syncwarp();
        }

    if (has_bias) {
        for (int i = 0; i < 8; ++i) atomicAdd(&sdb[tid % 8 * 8 + i], bias[i]);
        __syncthreads();
        if (tid < kTile && out0 + tid < p.out_features) p.db[static_cast<long>(expert) * p.out_features + out0 + tid] = sdb[tid];
    }
}

}  // namespace moe
