#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <algorithm>

#include "common.h"  // HGEMM_CHECK_CUDART_ERROR, HLOG

#define WARP_SIZE 32
#define MMA_M 16
#define MMA_N 8
#define MMA_K 16

#define BLOCK_ROWS 128
#define BLOCK_COLS 128
#define WARP_ROWS 64
#define WARP_COLS 32
#define BLOCK_ROW_WARPS (BLOCK_COLS / WARP_COLS)   // 4
#define BLOCK_COL_WARPS (BLOCK_ROWS / WARP_ROWS)   // 2
#define WARPS_PER_BLOCK (BLOCK_ROW_WARPS * BLOCK_COL_WARPS)
#define THREADS_PER_BLOCK (WARPS_PER_BLOCK * WARP_SIZE)
#define WARP_COL_TILES (WARP_ROWS / MMA_M)
#define WARP_ROW_TILES (WARP_COLS / MMA_N)

#define CHUNK_K 32
#define SMEM_PAD 8
#define LDS (CHUNK_K + SMEM_PAD)
#define STAGES 3
#define STAGE_HALFS ((BLOCK_ROWS + BLOCK_COLS) * LDS)

#define div_ceil(a, b) (((a) + (b) - 1) / (b))

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                             \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                             \
                 : "r"(addr))
#define LDMATRIX_X2(R0, R1, addr) \
    asm volatile("ldmatrix.sync.aligned.x2.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(R0), "=r"(R1) : "r"(addr))
#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1)                                                    \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};\n" \
                 : "=r"(RD0), "=r"(RD1)                                                                                \
                 : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0), "r"(RC1))
#define CP_ASYNC_CG(dst, src, Bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(Bytes))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(N) asm volatile("cp.async.wait_group %0;\n" ::"n"(N))

__device__ __forceinline__ void load_stage(half *smem, const half *A, const half *B, size_t row, size_t col, size_t k0,
                                           size_t K) {
    // A tile: BLOCK_ROWS x CHUNK_K, B tile (stored N x K): BLOCK_COLS x CHUNK_K, 8 halfs per request
    for (int i = threadIdx.x; i < BLOCK_ROWS * CHUNK_K / 8; i += THREADS_PER_BLOCK) {
        int r = i / (CHUNK_K / 8), c = i % (CHUNK_K / 8) * 8;
        uint32_t dst = (uint32_t)__cvta_generic_to_shared(smem + r * LDS + c);
        CP_ASYNC_CG(dst, A + (row + r) * K + k0 + c, 16);
    }
    half *smem_b = smem + BLOCK_ROWS * LDS;
    for (int i = threadIdx.x; i < BLOCK_COLS * CHUNK_K / 8; i += THREADS_PER_BLOCK) {
        int r = i / (CHUNK_K / 8), c = i % (CHUNK_K / 8) * 8;
        uint32_t dst = (uint32_t)__cvta_generic_to_shared(smem_b + r * LDS + c);
        CP_ASYNC_CG(dst, B + (col + r) * K + k0 + c, 16);
    }
}

__global__ void mmaAsyncStageKernel(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C,
                                    size_t M, size_t N, size_t K) {
    const size_t block_row = blockIdx.y * BLOCK_ROWS;
    const size_t block_col = blockIdx.x * BLOCK_COLS;
    if (block_row >= M || block_col >= N) {
        return;
    }

    extern __shared__ half smem[];
    const int warp_id = threadIdx.x / WARP_SIZE;
    const int lane_id = threadIdx.x % WARP_SIZE;
    const int warp_row = warp_id / BLOCK_ROW_WARPS * WARP_ROWS;
    const int warp_col = warp_id % BLOCK_ROW_WARPS * WARP_COLS;

    uint32_t RC[WARP_COL_TILES][WARP_ROW_TILES][2];
#pragma unroll
    for (int i = 0; i < WARP_COL_TILES; ++i) {
#pragma unroll
        for (int j = 0; j < WARP_ROW_TILES; ++j) {
            RC[i][j][0] = 0;
            RC[i][j][1] = 0;
        }
    }

    const size_t chunks = div_ceil(K, CHUNK_K);
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < chunks) load_stage(smem + s * STAGE_HALFS, A, B, block_row, block_col, s * CHUNK_K, K);
        CP_ASYNC_COMMIT_GROUP();
    }

    for (size_t t = 0; t < chunks; ++t) {
        CP_ASYNC_WAIT_GROUP(STAGES - 2);
        __syncthreads();

        const size_t next = t + STAGES - 1;
        if (next < chunks) load_stage(smem + next % STAGES * STAGE_HALFS, A, B, block_row, block_col, next * CHUNK_K, K);
        CP_ASYNC_COMMIT_GROUP();

        const half *sa = smem + t % STAGES * STAGE_HALFS;
        const half *sb = sa + BLOCK_ROWS * LDS;
#pragma unroll
        for (int kk = 0; kk < CHUNK_K; kk += MMA_K) {
            uint32_t RA[WARP_COL_TILES][4];
            uint32_t RB[WARP_ROW_TILES][2];
#pragma unroll
            for (int i = 0; i < WARP_COL_TILES; ++i) {
                uint32_t addr = (uint32_t)__cvta_generic_to_shared(
                    sa + (warp_row + i * MMA_M + lane_id % 16) * LDS + kk + lane_id / 16 * 8);
                LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], addr);
            }
#pragma unroll
            for (int j = 0; j < WARP_ROW_TILES; ++j) {
                uint32_t addr = (uint32_t)__cvta_generic_to_shared(
                    sb + (warp_col + j * MMA_N + lane_id % 8) * LDS + kk + lane_id / 8 % 2 * 8);
                LDMATRIX_X2(RB[j][0], RB[j][1], addr);
            }
#pragma unroll
            for (int i = 0; i < WARP_COL_TILES; ++i) {
#pragma unroll
                for (int j = 0; j < WARP_ROW_TILES; ++j) {
                    HMMA16816(RC[i][j][0], RC[i][j][1], RA[i][0], RA[i][1], RA[i][2], RA[i][3], RB[j][0], RB[j][1],
                              RC[i][j][0], RC[i][j][1]);
                }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < WARP_COL_TILES; ++i) {
#pragma unroll
        for (int j = 0; j < WARP_ROW_TILES; ++j) {
            size_t r = block_row + warp_row + i * MMA_M + lane_id / 4;
            size_t c = block_col + warp_col + j * MMA_N + lane_id % 4 * 2;
            *(uint32_t *)(C + r * N + c) = RC[i][j][0];
            *(uint32_t *)(C + (r + 8) * N + c) = RC[i][j][1];
        }
    }
}

size_t initMmaAsyncStage() {
    int dev_id = 0;
    HGEMM_CHECK_CUDART_ERROR(cudaGetDevice(&dev_id));

    cudaDeviceProp dev_prop;
    HGEMM_CHECK_CUDART_ERROR(cudaGetDeviceProperties(&dev_prop, dev_id));

    size_t smem_max_size = STAGES * STAGE_HALFS * sizeof(half);
    HLOG("smem_max_size: %.0f KBytes (%zu Bytes)", static_cast<double>(smem_max_size) / 1024, smem_max_size);

    HGEMM_CHECK_GT(dev_prop.sharedMemPerMultiprocessor, smem_max_size);
    HGEMM_CHECK_CUDART_ERROR(
        cudaFuncSetAttribute(mmaAsyncStageKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_max_size));

    return smem_max_size;
}

void mmaAsyncStage(half *A, half *B, half *C, size_t M, size_t N, size_t K) {
    static size_t smem_max_size = initMmaAsyncStage();

    dim3 block(THREADS_PER_BLOCK);
    dim3 grid(div_ceil(N, BLOCK_COLS), div_ceil(M, BLOCK_ROWS));

    mmaAsyncStageKernel<<<grid, block, smem_max_size>>>(A, B, C, M, N, K);
}
