#include <stdint.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// HGEMM, NN, fp16 accumulation: C[M,N] = A[M,K] * B[K,N], all row major.
// mma.m16n8k16, 64x64 block tile, 2x2 warps, 3 stages of cp.async, ldmatrix (B through .trans).
// requires N % 8 == 0 and K % 8 == 0

#define BM 64
#define BN 64
#define BK 16
#define K_STAGE 3
#define A_PAD 8
#define B_PAD 8
#define WARP_M 32
#define WARP_N 32

#define LDST32BITS(value) (reinterpret_cast<half2*>(&(value))[0])

#define CP_ASYNC_CG(dst, src, bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

#define LDMATRIX_X4(R0, R1, R2, R3, addr) \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr) \
    asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" \
                 : "=r"(R0), "=r"(R1) : "r"(addr))

#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};\n" \
                 : "=r"(RD0), "=r"(RD1) \
                 : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0), "r"(RC1))

static __host__ __device__ inline int div_ceil(int a, int b) { return (a + b - 1) / b; }

__global__ void __launch_bounds__(128)
hgemm_mma_m16n8k16_stages_kernel(half* A, half* B, half* C, int M, int N, int K) {
    const int bx = blockIdx.x;
    const int by = blockIdx.y;
    const int NUM_K_TILES = div_ceil(K, BK);

    __shared__ __align__(16) half s_a[K_STAGE][BM][BK + A_PAD];
    __shared__ __align__(16) half s_b[K_STAGE][BK][BN + B_PAD];

    const int tid = threadIdx.x;
    const int warp_id = tid / 32;
    const int lane_id = tid % 32;
    const int warp_m = warp_id % 2;
    const int warp_n = warp_id / 2;

    // who loads what: 16 bytes of A and of B for each thread
    const int load_smem_a_m = tid / 2;
    const int load_smem_a_k = (tid % 2) * 8;
    const int load_smem_b_k = tid / 8;
    const int load_smem_b_n = (tid % 8) * 8;
    const int load_gmem_a_m = by * BM + load_smem_a_m;
    const int load_gmem_b_n = bx * BN + load_smem_b_n;

    auto load_stage = [&](int stage, int k_tile) {
        int a_k = k_tile * BK + load_smem_a_k;
        int b_k = k_tile * BK + load_smem_b_k;
        int a_bytes = (load_gmem_a_m < M && a_k < K) ? 16 : 0;
        int b_bytes = (load_gmem_b_n < N && b_k < K) ? 16 : 0;
        const half* a_src = a_bytes ? A + (size_t)load_gmem_a_m * K + a_k : A;
        const half* b_src = b_bytes ? B + (size_t)b_k * N + load_gmem_b_n : B;
        CP_ASYNC_CG((uint32_t)__cvta_generic_to_shared(&s_a[stage][load_smem_a_m][load_smem_a_k]), a_src, a_bytes);
        CP_ASYNC_CG((uint32_t)__cvta_generic_to_shared(&s_b[stage][load_smem_b_k][load_smem_b_n]), b_src, b_bytes);
    };

    uint32_t RC[2][4][2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            RC[i][j][0] = 0;
            RC[i][j][1] = 0;
        }

#pragma unroll
    for (int k = 0; k < K_STAGE - 1; ++k) {
        if (k < NUM_K_TILES) load_stage(k, k);
        CP_ASYNC_COMMIT_GROUP();
    }

    for (int k = 0; k < NUM_K_TILES; ++k) {
        CP_ASYNC_WAIT_GROUP(K_STAGE - 2);
        __syncthreads();

        const int k_next = k + K_STAGE - 1;
        if (k_next < NUM_K_TILES) load_stage(k_next % K_STAGE, k_next);
        CP_ASYNC_COMMIT_GROUP();

        const int stage = k % K_STAGE;
        uint32_t RA[2][4];
        uint32_t RB[4][2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int a_m = warp_m * WARP_M + i * 16 + lane_id % 16;
            int a_k = (lane_id / 16) * 8;
            uint32_t ptr = (uint32_t)__cvta_generic_to_shared(&s_a[stage][a_m][a_k]);
            LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], ptr);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            int b_k = lane_id % 16;
            int b_n = warp_n * WARP_N + j * 8;
            uint32_t ptr = (uint32_t)__cvta_generic_to_shared(&s_b[stage][b_k][b_n]);
            LDMATRIX_X2_T(RB[j][0], RB[j][1], ptr);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                HMMA16816(RC[i][j][0], RC[i][j][1], RA[i][0], RA[i][1], RA[i][2], RA[i][3], RB[j][0], RB[j][1],
                          RC[i][j][0], RC[i][j][1]);
    }

#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int store_m = by * BM + warp_m * WARP_M + i * 16 + lane_id / 4;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int store_n = bx * BN + warp_n * WARP_N + j * 8 + (lane_id % 4) * 2;
            if (store_n >= N) continue;
            if (store_m < M) LDST32BITS(C[(size_t)store_m * N + store_n]) = LDST32BITS(RC[i][j][0]);
            if (store_m + 8 < M) LDST32BITS(C[(size_t)(store_m + 8) * N + store_n]) = LDST32BITS(RC[i][j][1]);
        }
    }
}

void hgemm_mma_m16n8k16_stages(half* A, half* B, half* C, int M, int N, int K) {
    dim3 block(128);
    dim3 grid(div_ceil(N, BN), div_ceil(M, BM));
    hgemm_mma_m16n8k16_stages_kernel<<<grid, block>>>(A, B, C, M, N, K);
}
