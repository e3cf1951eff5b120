// HGEMM (5): m16n8k16 mma.sync + ldmatrix + multi-stage cp.async
//
//   C[M][N] = A[M][K] * B[K][N]     all row-major, half in, half accumulate, half out
//
// block tile  BM x BN x BK, the mma atoms are tiled MMA_TILE_M x MMA_TILE_N over the warps and
// WARP_TILE_M x WARP_TILE_N inside of each warp. Edges of M and N are filled with zeros by cp.async
// (src-size 0). K must be a multiple of BK, N of 8.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define WARP_SIZE 32
#define DEVICE_INLINE __device__ __forceinline__
#define LDST32BITS(value) (reinterpret_cast<half2 *>(&(value))[0])
#define LDST128BITS(value) (reinterpret_cast<float4 *>(&(value))[0])
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
// ca (cache all, L1 + L2): 4, 8, 16 bytes, cg (cache global, L2): only 16 bytes. `valid` bytes are read, the rest is 0
#define CP_ASYNC_CG(dst, src, valid) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(valid))
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                                  \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"      \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                  \
                 : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr)                                                        \
    asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n"        \
                 : "=r"(R0), "=r"(R1)                                                      \
                 : "r"(addr))
#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1)                        \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "                      \
                 "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};\n"                       \
                 : "=r"(RD0), "=r"(RD1)                                                    \
                 : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0), "r"(RC1))

constexpr int div_ceil(int a, int b) { return (a + b - 1) / b; }

// one stage: BM x BK of A and BK x BN of B, 16 bytes per thread and turn
template <const int BM, const int BN, const int BK, const int A_LD, const int B_LD, const int THREADS>
DEVICE_INLINE void g2s_stage(const half *A, const half *B, half *sA, half *sB, int by, int bx, int k_tile,
                             int M, int N, int K) {
    const int tid = threadIdx.x;
#pragma unroll
    for (int i = tid; i < BM * BK / 8; i += THREADS) {
        const int a_row_s = i / (BK / 8);
        const int a_col_s = (i % (BK / 8)) * 8;
        const int gm = by * BM + a_row_s;
        const half *src = A + (size_t)(gm < M ? gm : 0) * K + k_tile * BK + a_col_s;
        const uint32_t dst = __cvta_generic_to_shared(sA + a_row_s * A_LD + a_col_s);
        CP_ASYNC_CG(dst, src, gm < M ? 16 : 0);
    }
#pragma unroll
    for (int i = tid; i < BK * BN / 8; i += THREADS) {
        const int b_row_s = i / (BN / 8);
        const int b_col_s = (i % (BN / 8)) * 8;
        const int gk = k_tile * BK + b_row_s;
        const int gn = bx * BN + b_col_s;
        const half *src = B + (size_t)gk * N + (gn < N ? gn : 0);
        const uint32_t dst = __cvta_generic_to_shared(sB + b_row_s * B_LD + b_col_s);
        CP_ASYNC_CG(dst, src, gn < N ? 16 : 0);
    }
}

template <const int MMA_M = 16, const int MMA_N = 8, const int MMA_K = 16, const int MMA_TILE_M = 2,
          const int MMA_TILE_N = 2, const int WARP_TILE_M = 2, const int WARP_TILE_N = 4, const int BK = 32,
          const int K_STAGE = 3, const int A_PAD = 8, const int B_PAD = 8, const bool BLOCK_SWIZZLE = false>
__global__ void __launch_bounds__(MMA_TILE_M *MMA_TILE_N *WARP_SIZE)
hgemm_mma_stages_kernel(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C,
                        int M, int N, int K) {
    constexpr int BM = MMA_M * MMA_TILE_M * WARP_TILE_M;
    constexpr int BN = MMA_N * MMA_TILE_N * WARP_TILE_N;
    constexpr int THREADS = MMA_TILE_M * MMA_TILE_N * WARP_SIZE;
    constexpr int A_LD = BK + A_PAD;
    constexpr int B_LD = BN + B_PAD;
    constexpr int C_LD = BN + 8;
    constexpr int s_a_stage = BM * A_LD;
    constexpr int s_b_stage = BK * B_LD;

    // BLOCK_SWIZZLE: blockIdx.z counts strips of gridDim.x tiles along N
    const int bx = (BLOCK_SWIZZLE ? blockIdx.z * gridDim.x : 0) + blockIdx.x;
    const int by = blockIdx.y;
    if (bx * BN >= N || by * BM >= M) return;
    const int NUM_K_TILES = K / BK;

    extern __shared__ __align__(16) half smem[];
    half *s_a = smem;
    half *s_b = smem + K_STAGE * s_a_stage;

    const int tid = threadIdx.x;
    const int warp_id = tid / WARP_SIZE;
    const int lane_id = tid % WARP_SIZE;
    const int warp_m = warp_id % MMA_TILE_M;
    const int warp_n = warp_id / MMA_TILE_M;

    uint32_t RC[WARP_TILE_M][WARP_TILE_N][2];
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
        for (int j = 0; j < WARP_TILE_N; ++j) {
            RC[i][j][0] = 0;
            RC[i][j][1] = 0;
        }

    // prologue: K_STAGE - 1 tiles are on their way
#pragma unroll
    for (int k = 0; k < K_STAGE - 1; ++k) {
        if (k < NUM_K_TILES)
            g2s_stage<BM, BN, BK, A_LD, B_LD, THREADS>(A, B, s_a + k * s_a_stage, s_b + k * s_b_stage, by, bx, k, M, N, K);
        CP_ASYNC_COMMIT_GROUP();
    }

    for (int k = 0; k < NUM_K_TILES; ++k) {
        CP_ASYNC_WAIT_GROUP(K_STAGE - 2);
        __syncthreads();

        const int k_next = k + K_STAGE - 1;
        const int stage_next = k_next % K_STAGE;
        const int stage_sel = k % K_STAGE;
        if (k_next < NUM_K_TILES)
            g2s_stage<BM, BN, BK, A_LD, B_LD, THREADS>(A, B, s_a + stage_next * s_a_stage, s_b + stage_next * s_b_stage,
                                                       by, bx, k_next, M, N, K);
        CP_ASYNC_COMMIT_GROUP();

        const half *a_stage = s_a + stage_sel * s_a_stage;
        const half *b_stage = s_b + stage_sel * s_b_stage;
#pragma unroll
        for (int kk = 0; kk < BK; kk += MMA_K) {
            uint32_t RA[WARP_TILE_M][4];
            uint32_t RB[WARP_TILE_N][2];
#pragma unroll
            for (int i = 0; i < WARP_TILE_M; ++i) {
                // lanes 0-15: rows of the left 8 columns, lanes 16-31: of the right ones
                const int a_row = warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id % 16;
                const int a_col = kk + (lane_id / 16) * 8;
                const uint32_t a_ptr = __cvta_generic_to_shared(a_stage + a_row * A_LD + a_col);
                LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], a_ptr);
            }
#pragma unroll
            for (int j = 0; j < WARP_TILE_N; ++j) {
                const int b_row = kk + lane_id % 16;
                const int b_col = warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
                const uint32_t b_ptr = __cvta_generic_to_shared(b_stage + b_row * B_LD + b_col);
                LDMATRIX_X2_T(RB[j][0], RB[j][1], b_ptr);
            }
#pragma unroll
            for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
                for (int j = 0; j < WARP_TILE_N; ++j)
                    HMMA16816(RC[i][j][0], RC[i][j][1], RA[i][0], RA[i][1], RA[i][2], RA[i][3], RB[j][0], RB[j][1],
                              RC[i][j][0], RC[i][j][1]);
        }
    }
    CP_ASYNC_WAIT_GROUP(0);
    __syncthreads();

    // epilogue: registers -> shared memory (the stages are free now) -> 16-byte stores
    half *s_c = smem;
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
        for (int j = 0; j < WARP_TILE_N; ++j) {
            const int c_row = warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id / 4;
            const int c_col = warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N + (lane_id % 4) * 2;
            LDST32BITS(s_c[c_row * C_LD + c_col]) = LDST32BITS(RC[i][j][0]);
            LDST32BITS(s_c[(c_row + 8) * C_LD + c_col]) = LDST32BITS(RC[i][j][1]);
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = tid; i < BM * BN / 8; i += THREADS) {
        const int row = i / (BN / 8);
        const int col = (i % (BN / 8)) * 8;
        const int gm = by * BM + row;
        const int gn = bx * BN + col;
        if (gm < M && gn < N)
            LDST128BITS(C[(size_t)gm * N + gn]) = LDST128BITS(s_c[row * C_LD + col]);
    }
}

// 64x64x32 tiles, 3 stages
void hgemm_mma_stages(const half *a, const half *b, half *c, int M, int N, int K, cudaStream_t stream) {
    constexpr int BM = 64, BN = 64, BK = 32, K_STAGE = 3, PAD = 8, STRIPS = 2;
    const int smem = K_STAGE * (BM * (BK + PAD) + BK * (BN + PAD)) * sizeof(half);
    dim3 grid(div_ceil(div_ceil(N, BN), STRIPS), div_ceil(M, BM), STRIPS);
    hgemm_mma_stages_kernel<16, 8, 16, 2, 2, 2, 4, BK, K_STAGE, PAD, PAD, true>
        <<<grid, 128, smem, stream>>>(a, b, c, M, N, K);
}
