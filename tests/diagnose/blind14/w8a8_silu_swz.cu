// int8 GEMM for inference, D = silu(scale_a[m] * scale_b[n] * (A * B^T)), A [M, K] and B [N, K] row-major bytes.
// cp.async into two swizzled stages -> ldmatrix -> mma.m16n8k32. K must be a multiple of 16.
#include <cuda_fp16.h>
#include <cstdint>

namespace w8a8 {

struct Tile {
    static constexpr int M = 64, N = 64, K = 64;     // K in bytes: 4 chunks of 16
    static constexpr int kChunks = K / 16;
    static constexpr int kStage = (M + N) * K;
    static constexpr int kThreads = 128;
};

// byte offset of a chunk; two rows share 128 bytes, so the row's number is halved before it is mixed in
__device__ inline uint32_t swizzle(int row, int chunk) {
    return row * Tile::K + (chunk ^ ((row >> 1) & 3)) * 16;
}

__device__ inline void cp_async(uint32_t dst, const void *src, bool pred) {
    const int bytes = pred ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}

__device__ inline void ldmatrix(uint32_t *r, uint32_t addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(addr) : "memory");
}

__device__ inline void imma(int *c, const uint32_t *a, const uint32_t *b) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

class Producer {
public:
    __device__ Producer(const int8_t *base, int row0, int rows, int K) : base_(base), row0_(row0), rows_(rows), K_(K) {}

    // 64 rows x 64 bytes, two chunks per thread
    __device__ void issue(uint32_t dst, int k0) const {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int id = threadIdx.x + i * Tile::kThreads;
            const int row = id / Tile::kChunks, chunk = id % Tile::kChunks;
            const bool in = row0_ + row < rows_ && k0 + chunk * 16 < K_;
            const int8_t *src = in ? base_ + (int64_t)(row0_ + row) * K_ + k0 + chunk * 16 : base_;
            cp_async(dst + swizzle(row, chunk), src, in);
        }
    }

private:
    const int8_t *base_;
    int row0_, rows_, K_;
};

__device__ inline float silu(float x) { return x / (1.f + __expf(-x)); }

__global__ void __launch_bounds__(Tile::kThreads)
gemm_silu(const int8_t *A, const int8_t *B, const float *scale_a, const float *scale_b, half *D, int M, int N, int K) {
    __shared__ __align__(128) int8_t smem[2 * Tile::kStage];
    const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(smem));

    const int m0 = blockIdx.x * Tile::M, n0 = blockIdx.y * Tile::N;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int wm = (warp & 1) * 32, wn = (warp >> 1) * 32;

    const Producer from_a(A, m0, M, K), from_b(B, n0, N, K);
    int acc[2][4][4] = {};

    from_a.issue(base, 0);
    from_b.issue(base + Tile::M * Tile::K, 0);
    asm volatile("cp.async.commit_group;" ::: "memory");

    int stage = 0;
    for (int k0 = 0; k0 < K; k0 += Tile::K) {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        if (k0 + Tile::K < K) {
            const uint32_t next = base + (stage ^ 1) * Tile::kStage;
            from_a.issue(next, k0 + Tile::K);
            from_b.issue(next + Tile::M * Tile::K, k0 + Tile::K);
            asm volatile("cp.async.commit_group;" ::: "memory");
        }

        const uint32_t tile_a = base + stage * Tile::kStage;
        const uint32_t tile_b = tile_a + Tile::M * Tile::K;
#pragma unroll
        for (int kk = 0; kk < Tile::K / 32; ++kk) {
            uint32_t a[2][4], b[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i)
                ldmatrix(a[i], tile_a + swizzle(wm + i * 16 + (lane & 15), kk * 2 + (lane >> 4)));
#pragma unroll
            for (int j = 0; j < 2; ++j)
                ldmatrix(b[j], tile_b + swizzle(wn + j * 16 + (lane & 7) + (lane >> 4) * 8, kk * 2 + ((lane >> 3) & 1)));
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    imma(acc[i][j], a[i], &b[j >> 1][(j & 1) * 2]);
        }
        stage ^= 1;
    }

#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int row = m0 + wm + i * 16 + h * 8 + (lane >> 2);
            if (row >= M) continue;
            const float sa = scale_a[row];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int col = n0 + wn + j * 8 + (lane & 3) * 2;
                if (col < N) D[(int64_t)row * N + col] = __float2half(silu(acc[i][j][h * 2] * sa * scale_b[col]));
                if (col + 1 < N) D[(int64_t)row * N + col + 1] = __float2half(silu(acc[i][j][h * 2 + 1] * sa * scale_b[col + 1]));
            }
        }
}

}  // namespace w8a8
