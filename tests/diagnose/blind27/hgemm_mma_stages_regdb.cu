// HGEMM optimisation notes, step 9:
//   block tile 64x128x32, warp tile 32x32, mma.m16n8k16 (fp32 accumulate),
//   K_STAGE-deep cp.async ring in dynamic smem + register double buffering of the fragments.
//   C = alpha * A * B + beta * C, everything row major. N % 8 == 0 and K % 8 == 0 (16B copies), M is free.
//
//   previous step: hgemm_mma_stages (no register double buffering)
//   next step:     hgemm_mma_stages_swizzle (xor swizzle in place of the padding)
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define WARP_SIZE 32
#define DIV_UP(a, b) (((a) + (b) - 1) / (b))

#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
// 16 bytes; src_bytes < 16 fills the rest with zeros
#define CP_ASYNC_CG(dst, src, src_bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(src_bytes))

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                               \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                             \
                 : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr)                                                     \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"   \
                 : "=r"(R0), "=r"(R1)                                                 \
                 : "r"(addr))
#define HMMA16816F32(RD, RA, RB)                                                                   \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "                            \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"             \
                 : "+f"(RD[0]), "+f"(RD[1]), "+f"(RD[2]), "+f"(RD[3])                            \
                 : "r"(RA[0]), "r"(RA[1]), "r"(RA[2]), "r"(RA[3]), "r"(RB[0]), "r"(RB[1]))

template <const int MMA_TILE_M = 2, const int MMA_TILE_N = 4, const int WARP_TILE_M = 2, const int WARP_TILE_N = 4,
          const int BK = 32, const int K_STAGE = 3, const int A_PAD = 8, const int B_PAD = 8>
__global__ void __launch_bounds__(256)
hgemm_mma_m16n8k16_stages_regdb_kernel(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C,
                                       int M, int N, int K, float alpha, float beta) {
    constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
    constexpr int BM = MMA_M * MMA_TILE_M * WARP_TILE_M;  // 64
    constexpr int BN = MMA_N * MMA_TILE_N * WARP_TILE_N;  // 128
    constexpr int NUM_THREADS = MMA_TILE_M * MMA_TILE_N * WARP_SIZE;
    constexpr int LDA = BK + A_PAD, LDB = BN + B_PAD;
    constexpr int A_STAGE = BM * LDA, B_STAGE = BK * LDB;
    constexpr int K_STEPS = BK / MMA_K;

    const int bx = blockIdx.x, by = blockIdx.y;
    const int tid = threadIdx.x;
    const int warp_id = tid / WARP_SIZE;
    const int lane_id = tid % WARP_SIZE;
    const int warp_m = warp_id % MMA_TILE_M;  // 0,1
    const int warp_n = warp_id / MMA_TILE_M;  // 0..3
    const int NUM_K_TILES = DIV_UP(K, BK);

    extern __shared__ half smem[];
    half *s_a = smem;
    half *s_b = smem + K_STAGE * A_STAGE;
    const uint32_t s_a_base = static_cast<uint32_t>(__cvta_generic_to_shared(s_a));
    const uint32_t s_b_base = static_cast<uint32_t>(__cvta_generic_to_shared(s_b));

    // gmem -> smem, one k tile into one stage
    auto load_tile = [&](int k_tile, int stage) {
#pragma unroll
        for (int i = tid; i < BM * BK / 8; i += NUM_THREADS) {
            const int s_m = i / (BK / 8), s_k = (i % (BK / 8)) * 8;
            const int g_m = by * BM + s_m, g_k = k_tile * BK + s_k;
            const bool in = g_m < M && g_k < K;
            const half *src = in ? A + (size_t)g_m * K + g_k : A;
            const uint32_t dst = s_a_base + (stage * A_STAGE + s_m * LDA + s_k) * sizeof(half);
            CP_ASYNC_CG(dst, src, in ? 16 : 0);
        }
#pragma unroll
        for (int i = tid; i < BK * BN / 8; i += NUM_THREADS) {
            const int s_k = i / (BN / 8), s_n = (i % (BN / 8)) * 8;
            const int g_k = k_tile * BK + s_k, g_n = bx * BN + s_n;
            const bool ok = g_k < K && g_n < N;
            const half *src = ok ? B + (size_t)g_k * N + g_n : B;
            const uint32_t dst = s_b_base + (stage * B_STAGE + s_k * LDB + s_n) * sizeof(half);
            CP_ASYNC_CG(dst, src, ok ? 16 : 0);
        }
    };

    uint32_t RA[2][WARP_TILE_M][4];
    uint32_t RB[2][WARP_TILE_N][2];
    float RC[WARP_TILE_M][WARP_TILE_N][4];
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
        for (int j = 0; j < WARP_TILE_N; ++j)
#pragma unroll
            for (int r = 0; r < 4; ++r) RC[i][j][r] = 0.0f;

    // smem -> registers, one k step (16) of one stage
    auto load_frag = [&](int stage, int k_step, int reg) {
#pragma unroll
        for (int i = 0; i < WARP_TILE_M; ++i) {
            const int m = warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id % 16;
            const int k = k_step * MMA_K + (lane_id / 16) * 8;
            const uint32_t ptr = s_a_base + (stage * A_STAGE + m * LDA + k) * sizeof(half);
            LDMATRIX_X4(RA[reg][i][0], RA[reg][i][1], RA[reg][i][2], RA[reg][i][3], ptr);
        }
#pragma unroll
        for (int j = 0; j < WARP_TILE_N; ++j) {
            const int kb = k_step * MMA_K + lane_id % 16;
            const int n = warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
            const uint32_t ptr = s_b_base + (stage * B_STAGE + kb * LDB + n) * sizeof(half);
            LDMATRIX_X2_T(RB[reg][j][0], RB[reg][j][1], ptr);
        }
    };

    // prologue: K_STAGE - 1 tiles in flight
#pragma unroll
    for (int s = 0; s < K_STAGE - 1; ++s) {
        if (s < NUM_K_TILES) load_tile(s, s);
        CP_ASYNC_COMMIT_GROUP();
    }
    CP_ASYNC_WAIT_GROUP(K_STAGE - 2);  // tile 0 landed
    __syncthreads();
    load_frag(0, 0, 0);

    for (int k_tile = 0; k_tile < NUM_K_TILES; ++k_tile) {
        const int stage = k_tile % K_STAGE;
        const int next_tile = k_tile + K_STAGE - 1;
        if (next_tile < NUM_K_TILES) load_tile(next_tile, next_tile % K_STAGE);
        CP_ASYNC_COMMIT_GROUP();  // possibly empty, keeps the count right

#pragma unroll
        for (int ks = 0; ks < K_STEPS; ++ks) {
            // ping-pong: fetch the next fragments before the MMAs of this step
            if (ks + 1 < K_STEPS) {
                load_frag(stage, ks + 1, (ks + 1) & 1);
            } else if (k_tile + 1 < NUM_K_TILES) {
                // the first step of the next tile
                CP_ASYNC_WAIT_GROUP(K_STAGE - 2);  // tile k_tile + 1 landed
                __syncthreads();
                load_frag((k_tile + 1) % K_STAGE, 0, (ks + 1) & 1);
            }
#pragma unroll
            for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
                for (int j = 0; j < WARP_TILE_N; ++j)
                    HMMA16816F32(RC[i][j], RA[ks & 1][i], RB[ks & 1][j]);
        }
    }

    // epilogue, c0 c1 are in row lane / 4, c2 c3 eight rows below
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
        for (int j = 0; j < WARP_TILE_N; ++j) {
            const int col = bx * BN + warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N + (lane_id % 4) * 2;
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int row = by * BM + warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id / 4 + h * 8;
                if (row < M && col < N) {
                    half2 *dst = reinterpret_cast<half2 *>(C + (size_t)row * N + col);
                    const float2 old_c = __half22float2(*dst);
                    const float c0 = alpha * RC[i][j][2 * h] + beta * old_c.x;
                    const float c1 = alpha * RC[i][j][2 * h + 1] + beta * old_c.y;
                    *dst = __floats2half2_rn(c0, c1);
                }
            }
        }
    }
}

void hgemm_mma_stages_regdb(const half *a, const half *b, half *c, int M, int N, int K, float alpha, float beta,
                            cudaStream_t stream) {
    constexpr int BM = 64, BN = 128, BK = 32, K_STAGE = 3;
    const int smem_bytes = K_STAGE * (BM * (BK + 8) + BK * (BN + 8)) * sizeof(half);
    cudaFuncSetAttribute(hgemm_mma_m16n8k16_stages_regdb_kernel<2, 4, 2, 4, BK, K_STAGE, 8, 8>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes);
    dim3 grid(DIV_UP(N, BN), DIV_UP(M, BM));
    hgemm_mma_m16n8k16_stages_regdb_kernel<2, 4, 2, 4, BK, K_STAGE, 8, 8>
        <<<grid, 256, smem_bytes, stream>>>(a, b, c, M, N, K, alpha, beta);
}
