// GEMM with mma.sync.m16n8k8 written by hand: two tiles in shared memory and two sets of fragments in registers.
//   D[m][n] = alpha * sum_k A[m][k] * B[k][n] + bias[n]        A, B half and row-major, D float
// B is transposed on its way into shared memory, so that a fragment's pair of halves is one 32-bit load.
#include <cuda_fp16.h>
#include <stdint.h>

namespace {

constexpr int TILE_M = 64, TILE_N = 64, TILE_K = 16;
constexpr int WARP_M = 32, WARP_N = 32;
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 8;
constexpr int STRIDE = TILE_K + 8;
constexpr int THREADS = 128;
constexpr int M_FRAGS = WARP_M / MMA_M, N_FRAGS = WARP_N / MMA_N, K_STEPS = TILE_K / MMA_K;

struct FragA { uint32_t x[2]; };
struct FragB { uint32_t x; };
struct FragC { float x[4]; };

__device__ __forceinline__ void mma_m16n8k8(FragC &c, const FragA &a, const FragB &b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};\n"
                 : "+f"(c.x[0]), "+f"(c.x[1]), "+f"(c.x[2]), "+f"(c.x[3])
                 : "r"(a.x[0]), "r"(a.x[1]), "r"(b.x));
}

__device__ __forceinline__ uint32_t pair_at(const half *p) { return *reinterpret_cast<const uint32_t *>(p); }

// the lane's part of a 16 x 8 piece of A and of an 8 x 8 piece of B (which lies as n x k)
__device__ __forceinline__ void load_a(FragA &f, const half *tile, int lane) {
    const int g = lane >> 2, t = lane & 3;
    f.x[0] = pair_at(tile + g * STRIDE + t * 2);
    f.x[1] = pair_at(tile + (g + 8) * STRIDE + t * 2);
}

__device__ __forceinline__ void load_b(FragB &f, const half *tile, int lane) {
    const int g = lane >> 2, t = lane & 3;
    f.x = pair_at(tile + g * STRIDE + t * 2);
}

__device__ __forceinline__ void load_tiles(half *a_tile, half *b_tile, const half *A, const half *B, int row0, int col0,
                                           int k0, int M, int N, int K) {
    const half zero = __float2half(0.f);
    for (int i = threadIdx.x; i < TILE_M * TILE_K; i += THREADS) {
        const int r = i / TILE_K, k = i % TILE_K;
        a_tile[r * STRIDE + k] = row0 + r < M && k0 + k < K ? A[(row0 + r) * K + k0 + k] : zero;
    }
    for (int i = threadIdx.x; i < TILE_K * TILE_N; i += THREADS) {
        const int k = i / TILE_N, c = i % TILE_N;
        b_tile[c * STRIDE + k] = k0 + k < K && col0 + c < N ? B[(k0 + k) * N + col0 + c] : zero;
    }
}

}  // namespace

extern "C" __global__ void gemm_m16n8k8(const half *A, const half *B, const float *bias, float *D, float alpha, int M,
                                        int N, int K) {
    __shared__ half a_tiles[2][TILE_M * STRIDE];
    __shared__ half b_tiles[2][TILE_N * STRIDE];

    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int warp_row = (warp & 1) * WARP_M, warp_col = (warp >> 1) * WARP_N;
    const int row0 = blockIdx.x * TILE_M, col0 = blockIdx.y * TILE_N;

    FragA fa[2][M_FRAGS];
    FragB fb[2][N_FRAGS];
    FragC acc[M_FRAGS][N_FRAGS] = {};

    const int tiles = (K + TILE_K - 1) / TILE_K;
    load_tiles(a_tiles[0], b_tiles[0], A, B, row0, col0, 0, M, N, K);
    __syncthreads();

    for (int tile = 0; tile < tiles; ++tile) {
        const int cur = tile & 1;
        if (tile + 1 < tiles)
            load_tiles(a_tiles[cur ^ 1], b_tiles[cur ^ 1], A, B, row0, col0, (tile + 1) * TILE_K, M, N, K);

        const half *a_warp = a_tiles[cur] + warp_row * STRIDE;
        const half *b_warp = b_tiles[cur] + warp_col * STRIDE;
#pragma unroll
        for (int i = 0; i < M_FRAGS; ++i) load_a(fa[0][i], a_warp + i * MMA_M * STRIDE, lane);
#pragma unroll
        for (int j = 0; j < N_FRAGS; ++j) load_b(fb[0][j], b_warp + j * MMA_N * STRIDE, lane);

#pragma unroll
        for (int step = 0; step < K_STEPS; ++step) {
            const int now = step & 1, next = now ^ 1;
            if (step + 1 < K_STEPS) {
#pragma unroll
                for (int i = 0; i < M_FRAGS; ++i)
                    load_a(fa[next][i], a_warp + i * MMA_M * STRIDE + (step + 1) * MMA_K, lane);
#pragma unroll
                for (int j = 0; j < N_FRAGS; ++j)
                    load_b(fb[next][j], b_warp + j * MMA_N * STRIDE + (step + 1) * MMA_K, lane);
            }
#pragma unroll
            for (int i = 0; i < M_FRAGS; ++i)
#pragma unroll
                for (int j = 0; j < N_FRAGS; ++j) mma_m16n8k8(acc[i][j], fa[now][i], fb[now][j]);
        }
        __syncthreads();
    }

    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int i = 0; i < M_FRAGS; ++i) {
#pragma unroll
        for (int j = 0; j < N_FRAGS; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int r = row0 + warp_row + i * MMA_M + g + (e >> 1) * 8;
                const int c = col0 + warp_col + j * MMA_N + t * 2 + (e & 1);
                if (r < M && c < N) D[(size_t)r * N + c] = alpha * acc[i][j].x[e] + bias[c];
            }
        }
    }
}
