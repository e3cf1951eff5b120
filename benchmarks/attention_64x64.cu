// Fused WMMA attention in 64×64 tiles, the kernel by which the emulator's speed is measured.
//
//   q, k, v, o   half, contiguous [batch · head][seq][64], seq a multiple of 64
//   scale        usually 1 / sqrt(64)
//
// Launch: grid (seq / 64, batch · heads), block 128, dynamic shared memory sizeof(Shared).
#include <cuda_fp16.h>
#include <mma.h>

#include <type_traits>

using namespace nvcuda;

constexpr int D = 64;
constexpr int TILE = 64;
constexpr int THREADS = 128;
constexpr int LD_HALF = D + 8;
constexpr int LD_FLOAT = D + 4;

struct alignas(128) Shared {
    half q[TILE * LD_HALF];
    half k[TILE * LD_HALF];
    half v[TILE * LD_HALF];
    half p[TILE * LD_HALF];
    float s[TILE * LD_FLOAT];
    float o[TILE * LD_FLOAT];
    float row_max[TILE];
    float row_sum[TILE];
};

__device__ void load_tile(half* tile, const half* rows)
{
    for (int i = threadIdx.x; i < TILE * D / 8; i += THREADS) {
        const int row = i / (D / 8), col = i % (D / 8) * 8;
        *reinterpret_cast<uint4*>(tile + row * LD_HALF + col) = *reinterpret_cast<const uint4*>(rows + row * D + col);
    }
}

// c (16 rows of this warp × 64) += a (row-major) · b; b is read transposed (col_major) or as it lies.
template <class LayoutB>
__device__ void multiply(float* c, const half* a, const half* b, bool accumulate)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, LayoutB> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    constexpr bool transposed = std::is_same<LayoutB, wmma::col_major>::value;
    for (int n = 0; n < TILE; n += 16) {
        if (accumulate) {
            wmma::load_matrix_sync(fc, c + n, LD_FLOAT, wmma::mem_row_major);
        } else {
            wmma::fill_fragment(fc, 0.0f);
        }
        for (int k = 0; k < D; k += 16) {
            wmma::load_matrix_sync(fa, a + k, LD_HALF);
            wmma::load_matrix_sync(fb, transposed ? b + n * LD_HALF + k : b + k * LD_HALF + n, LD_HALF);
            wmma::mma_sync(fc, fa, fb, fc);
        }
        wmma::store_matrix_sync(c + n, fc, LD_FLOAT, wmma::mem_row_major);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
attention_64x64(const half* q, const half* k, const half* v, half* o, int seq, float scale)
{
    extern __shared__ __align__(128) unsigned char memory[];
    Shared& sh = *reinterpret_cast<Shared*>(memory);
    const size_t head = static_cast<size_t>(blockIdx.y) * seq * D;
    const int first_row = threadIdx.x / 32 * 16;
    const int row = threadIdx.x / 2, half_of_row = threadIdx.x % 2 * (TILE / 2);

    load_tile(sh.q, q + head + static_cast<size_t>(blockIdx.x) * TILE * D);
    for (int j = half_of_row; j < half_of_row + TILE / 2; ++j) {
        sh.o[row * LD_FLOAT + j] = 0.0f;
    }
    if (threadIdx.x < TILE) {
        sh.row_max[threadIdx.x] = -INFINITY;
        sh.row_sum[threadIdx.x] = 0.0f;
    }
    for (int tile = 0; tile < seq / TILE; ++tile) {
        __syncthreads();
        load_tile(sh.k, k + head + static_cast<size_t>(tile) * TILE * D);
        load_tile(sh.v, v + head + static_cast<size_t>(tile) * TILE * D);
        __syncthreads();
        multiply<wmma::col_major>(sh.s + first_row * LD_FLOAT, sh.q + first_row * LD_HALF, sh.k, false);
        __syncwarp();

        // Two neighbouring lanes share a row, and a warp owns its 16 rows: no block barrier is needed until the next tile.
        float* s = sh.s + row * LD_FLOAT + half_of_row;
        float high = -INFINITY;
        for (int j = 0; j < TILE / 2; ++j) {
            high = fmaxf(high, s[j] * scale);
        }
        high = fmaxf(high, __shfl_xor_sync(0xffffffff, high, 1));
        const float before = sh.row_max[row];
        const float now = fmaxf(before, high);
        float sum = 0.0f;
        for (int j = 0; j < TILE / 2; ++j) {
            const half p = __float2half(__expf(s[j] * scale - now));
            sh.p[row * LD_HALF + half_of_row + j] = p;
            sum += __half2float(p);
        }
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        const float rescale = __expf(before - now);
        for (int j = 0; j < TILE / 2; ++j) {
            sh.o[row * LD_FLOAT + half_of_row + j] *= rescale;
        }
        __syncwarp();
        if (threadIdx.x % 2 == 0) {
            sh.row_max[row] = now;
            sh.row_sum[row] = sh.row_sum[row] * rescale + sum;
        }
        __syncwarp();
        multiply<wmma::row_major>(sh.o + first_row * LD_FLOAT, sh.p + first_row * LD_HALF, sh.v, true);
        __syncwarp();
    }
    const float inverse = 1.0f / sh.row_sum[row];
    half* out = o + head + (static_cast<size_t>(blockIdx.x) * TILE + row) * D + half_of_row;
    for (int j = 0; j < TILE / 2; ++j) {
        out[j] = __float2half(sh.o[row * LD_FLOAT + half_of_row + j] * inverse);
    }
}
