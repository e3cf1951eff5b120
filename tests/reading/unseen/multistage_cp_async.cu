// hgemm, 128x128x32 tile, 3-stage cp.async pipeline, xor-swizzled shared memory,
// mma.m16n8k16, grouped rasterisation of the (1-D) grid for L2 locality.
//
// A: M x K row-major. B: K x N "column-major", i.e. N rows of K contiguous halves.
// C: M x N row-major.  M % 128 == N % 128 == K % 32 == 0 -- checked in launch().
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdlib>
#include <cstdio>

#define HOST_DEVICE_INLINE __device__ __host__ inline
#define DEVICE_INLINE __device__ inline

HOST_DEVICE_INLINE int div_ceil(int a, int b) { return (a % b != 0) ? (a / b + 1) : (a / b); }

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                             \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                             \
                 : "r"(addr))
#define HMMA16816(RD, RA, RB0, RB1)                                                                          \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, " \
                 "{%0,%1,%2,%3};\n"                                                                          \
                 : "+f"(RD[0]), "+f"(RD[1]), "+f"(RD[2]), "+f"(RD[3])                                        \
                 : "r"(RA[0]), "r"(RA[1]), "r"(RA[2]), "r"(RA[3]), "r"(RB0), "r"(RB1))
#define CP_ASYNC_CG(dst, src) asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n" ::"r"(dst), "l"(src))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(N) asm volatile("cp.async.wait_group %0;\n" ::"n"(N))

static const int BM = 128;
static const int BN = 128;
static const int BK = 32;
static const int STAGES = 3;
static const int GROUP_M = 4;
static const int WARPS = 8;                     // 2 x 4, warp tile 64 x 32
static const int STAGE_HALVES = (BM + BN) * BK;

// A row of the tile is 64 bytes = four 16-byte chunks. Two rows share a 128-byte
// bank line, so the chunk index is xor-ed with (row / 2) % 4.
DEVICE_INLINE int swz(int row, int chunk) { return row * BK + ((chunk ^ ((row >> 1) & 3)) << 3); }

__global__ void __launch_bounds__(WARPS * 32, 2)
hgemm_mma_multistage(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C, size_t M, size_t N,
                     size_t K)
{
    extern __shared__ __align__(128) half smem[];

    // grouped ordering as in the Triton tutorial
    const int tiles_m = M / BM, tiles_n = N / BN;
    const int per_group = GROUP_M * tiles_n;
    const int first_m = blockIdx.x / per_group * GROUP_M;
    const int group_m = min(tiles_m - first_m, GROUP_M);
    const int tile_m = first_m + blockIdx.x % per_group % group_m;
    const int tile_n = blockIdx.x % per_group / group_m;

    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int wm = warp / 4 * 64;
    const int wn = warp % 4 * 32;

    const half *gA = A + (size_t)tile_m * BM * K;
    const half *gB = B + (size_t)tile_n * BN * K;

    const uint32_t smem_base = __cvta_generic_to_shared(smem);
    // 128 rows x 4 chunks = 512 copies per operand, 256 threads -> 2 each
    const int ld_row = threadIdx.x / 4, ld_chunk = threadIdx.x % 4;

#define ISSUE_STAGE(s, kt)                                                                                    \
    do {                                                                                                      \
        const uint32_t a_dst = smem_base + (s)*STAGE_HALVES * 2;                                              \
        const uint32_t b_dst = a_dst + BM * BK * 2;                                                           \
        for (int h = 0; h < 2; ++h) {                                                                         \
            const int r = ld_row + h * 64;                                                                    \
            CP_ASYNC_CG(a_dst + swz(r, ld_chunk) * 2, gA + (size_t)r * K + (kt)*BK + ld_chunk * 8);           \
            CP_ASYNC_CG(b_dst + swz(r, ld_chunk) * 2, gB + (size_t)r * K + (kt)*BK + ld_chunk * 8);           \
        }                                                                                                     \
    } while (0)

    float RC[4][4][4] = {{{0.f}}};
    const int k_tiles = K / BK;

    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < k_tiles) ISSUE_STAGE(s, s);
        CP_ASYNC_COMMIT_GROUP();
    }

    for (int kt = 0; kt < k_tiles; ++kt) {
        CP_ASYNC_WAIT_GROUP(STAGES - 2);
        __syncthreads();

        // the stage freed in the previous iteration is refilled while we compute
        if (kt + STAGES - 1 < k_tiles) ISSUE_STAGE((kt + STAGES - 1) % STAGES, kt + STAGES - 1);
        CP_ASYNC_COMMIT_GROUP();

        const uint32_t sa = smem_base + kt % STAGES * STAGE_HALVES * 2;
        const uint32_t sb = sa + BM * BK * 2;
#pragma unroll
        for (int kk = 0; kk < BK / 16; ++kk) {
            uint32_t RA[4][4], RB[2][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = wm + i * 16 + lane % 16;
                LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], sa + swz(row, kk * 2 + lane / 16) * 2);
            }
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int row = wn + j * 16 + lane % 8 + lane / 16 * 8;
                LDMATRIX_X4(RB[j][0], RB[j][1], RB[j][2], RB[j][3], sb + swz(row, kk * 2 + lane / 8 % 2) * 2);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    HMMA16816(RC[i][j], RA[i], RB[j / 2][j % 2 * 2], RB[j / 2][j % 2 * 2 + 1]);
        }
    }

#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const size_t row = (size_t)tile_m * BM + wm + i * 16 + lane / 4;
            const size_t col = (size_t)tile_n * BN + wn + j * 8 + lane % 4 * 2;
            *(half2 *)&C[row * N + col] = __floats2half2_rn(RC[i][j][0], RC[i][j][1]);
            *(half2 *)&C[(row + 8) * N + col] = __floats2half2_rn(RC[i][j][2], RC[i][j][3]);
        }
    }
}

static size_t init_smem()
{
    int dev_id = 0;
    cudaGetDevice(&dev_id);
    cudaDeviceProp dev_prop;
    cudaGetDeviceProperties(&dev_prop, dev_id);
    size_t smem_max_size = STAGES * STAGE_HALVES * sizeof(half);
    if (smem_max_size > dev_prop.sharedMemPerMultiprocessor) {
        fprintf(stderr, "need %zu bytes of shared memory\n", smem_max_size);
        exit(EXIT_FAILURE);
    }
    cudaFuncSetAttribute(hgemm_mma_multistage, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_max_size);
    return smem_max_size;
}

void launch(half *A, half *B, half *C, size_t M, size_t N, size_t K)
{
    static size_t smem_max_size = init_smem();
    if (M % BM || N % BN || K % BK) {
        fprintf(stderr, "unsupported size %zu %zu %zu\n", M, N, K);
        return;
    }
    dim3 block(WARPS * 32);
    dim3 grid(div_ceil(M, BM) * div_ceil(N, BN));
    hgemm_mma_multistage<<<grid, block, smem_max_size>>>(A, B, C, M, N, K);
}
