// W8A8 linear layer: y[m][n] = (sum_k x[m][k] w[n][k] - zp[m] * wsum[n]) * sx[m] * sw[n] + bias[n]
// x: int8, per-token scale and zero point; w: int8 [N][K], per-channel scale; wsum: row sums of w; y: half
// 64 x 64 tile, 64 bytes of K per stage, three stages of cp.async, xor-swizzled 16-byte chunks
#include <cuda_fp16.h>
#include <stdint.h>

#define BM 64
#define BN 64
#define BK 64
#define STAGES 3
#define THREADS 128
#define CHUNKS (BK / 16)
#define TILE_BYTES (BM * BK)

#define CP_ASYNC_CG(dst, src, bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                              \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                             \
                 : "r"(addr))
#define IMMA16832(D, A, B0, B1)                                                                        \
    asm volatile(                                                                                      \
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "      \
        "{%0,%1,%2,%3};\n"                                                                             \
        : "+r"((D)[0]), "+r"((D)[1]), "+r"((D)[2]), "+r"((D)[3])                                       \
        : "r"((A)[0]), "r"((A)[1]), "r"((A)[2]), "r"((A)[3]), "r"(B0), "r"(B1))
// byte offset of a 16-byte chunk in a tile with rows of 64 bytes
#define SWZ(row, chunk) ((row) * BK + ((((chunk) ^ (((row) >> 1) & 3))) << 4))

// one tile of 64 rows x 64 bytes; rows behind `rows` and bytes behind `K` become zeros
__device__ __forceinline__ void load_tile(uint32_t smem, const int8_t *g, int row0, int rows, int k0, int K) {
#pragma unroll
    for (int i = threadIdx.x; i < BM * CHUNKS; i += THREADS) {
        const int r = i / CHUNKS, c = i % CHUNKS;
        const bool ok = row0 + r < rows && k0 + c * 16 < K;
        const int8_t *src = ok ? g + (size_t)(row0 + r) * K + k0 + c * 16 : g;
        CP_ASYNC_CG(smem + SWZ(r, c), src, ok ? 16 : 0);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
igemm_w8a8_asym(const int8_t *__restrict__ x, const int8_t *__restrict__ w, half *__restrict__ y,
                const float *__restrict__ sx, const int *__restrict__ zp, const float *__restrict__ sw,
                const int *__restrict__ wsum, const half *__restrict__ bias, int M, int N, int K) {
    extern __shared__ __align__(128) int8_t smem[];
    const uint32_t sA = (uint32_t)__cvta_generic_to_shared(smem);
    const uint32_t sB = sA + STAGES * TILE_BYTES;

    const int lane = threadIdx.x & 31;
    const int wm = (threadIdx.x >> 5) & 1;       // 2 x 2 warps, 32 x 32 each
    const int wn = threadIdx.x >> 6;
    const int bm = blockIdx.y * BM, bn = blockIdx.x * BN;
    const int k_tiles = (K + BK - 1) / BK;

    int32_t acc[2][4][4];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) acc[i][j][e] = 0;

    // prologue: STAGES - 1 tiles are on their way
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < k_tiles) {
            load_tile(sA + s * TILE_BYTES, x, bm, M, s * BK, K);
            load_tile(sB + s * TILE_BYTES, w, bn, N, s * BK, K);
        }
        CP_ASYNC_COMMIT_GROUP();
    }

    for (int kt = 0; kt < k_tiles; ++kt) {
        CP_ASYNC_WAIT_GROUP(STAGES - 2);
        __syncthreads();

        const int next = kt + STAGES - 1;
        if (next < k_tiles) {
            const int slot = next % STAGES;
            load_tile(sA + slot * TILE_BYTES, x, bm, M, next * BK, K);
            load_tile(sB + slot * TILE_BYTES, w, bn, N, next * BK, K);
        }
        CP_ASYNC_COMMIT_GROUP();                 // also an empty one: the count of groups stays right

        const uint32_t tA = sA + (kt % STAGES) * TILE_BYTES;
        const uint32_t tB = sB + (kt % STAGES) * TILE_BYTES;
#pragma unroll
        for (int ks = 0; ks < BK / 32; ++ks) {
            uint32_t a[2][4], b[4][2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = wm * 32 + i * 16 + (lane & 15);
                const int chunk = ks * 2 + (lane >> 4);
                LDMATRIX_X4(a[i][0], a[i][1], a[i][2], a[i][3], tA + SWZ(row, chunk));
            }
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int row = wn * 32 + j * 16 + (lane & 7) + ((lane >> 4) << 3);
                const int chunk = ks * 2 + ((lane >> 3) & 1);
                LDMATRIX_X4(b[2 * j][0], b[2 * j][1], b[2 * j + 1][0], b[2 * j + 1][1], tB + SWZ(row, chunk));
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) IMMA16832(acc[i][j], a[i], b[j][0], b[j][1]);
        }
    }

    // dequantise
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int m = bm + wm * 32 + i * 16 + h * 8 + (lane >> 2);
            if (m >= M) continue;
            const float row_scale = sx[m];
            const int zero = zp[m];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int n = bn + wn * 32 + j * 8 + (lane & 3) * 2;
                if (n >= N) continue;
                const int v0 = acc[i][j][2 * h] - zero * wsum[n];
                const int v1 = acc[i][j][2 * h + 1] - zero * wsum[n + 1];
                const float2 b2 = __half22float2(*reinterpret_cast<const half2 *>(bias + n));
                const float y0 = v0 * (row_scale * sw[n]) + b2.x;
                const float y1 = v1 * (row_scale * sw[n + 1]) + b2.y;
                *reinterpret_cast<half2 *>(y + (size_t)m * N + n) = __floats2half2_rn(y0, y1);
            }
        }
    }
}
