// Half GEMM, half accumulators, permuted (XOR) shared memory, asynchronous copies.
// A row-major M x K, B column-major K x N, C row-major M x N.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#define BLOCK_ROWS 128
#define BLOCK_COLS 64
#define CHUNK 32  // K of a stage, 64 bytes: four vectors of 16 bytes
#define STAGES 3
#define WARPS_PER_BLOCK 4
#define THREADS_PER_BLOCK (WARPS_PER_BLOCK * 32)

inline __device__ __host__ size_t div_ceil(size_t a, size_t b) { return (a % b != 0) ? (a / b + 1) : (a / b); }

// vector v of row r lies at v ^ (r / 2 % 4)
static __device__ __forceinline__ int swz(int r, int v) { return r * CHUNK + ((v ^ ((r >> 1) & 3)) << 3); }

__global__ void mma_permuted_kernel(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C,
                                    size_t M, size_t N, size_t K) {
    extern __shared__ half smem[];
    const int STAGE_ELEMS = (BLOCK_ROWS + BLOCK_COLS) * CHUNK;

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t row0 = (size_t)blockIdx.y * BLOCK_ROWS, col0 = (size_t)blockIdx.x * BLOCK_COLS;
    const int k_chunks = (int)(K / CHUNK);

    uint32_t RC[2][8][2];  // a warp: 32 rows, 64 columns
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) RC[i][j][0] = RC[i][j][1] = 0;

#define FETCH(chunk)                                                                                          \
    {                                                                                                         \
        half *dst = smem + ((chunk) % STAGES) * STAGE_ELEMS;                                                  \
        for (int i = threadIdx.x; i < (BLOCK_ROWS + BLOCK_COLS) * 4; i += THREADS_PER_BLOCK) {                \
            int r = i / 4, v = i % 4;                                                                         \
            const half *src = r < BLOCK_ROWS ? A + (row0 + r) * K + (size_t)(chunk) * CHUNK + v * 8           \
                                             : B + (col0 + r - BLOCK_ROWS) * K + (size_t)(chunk) * CHUNK + v * 8; \
            uint32_t to = (uint32_t)__cvta_generic_to_shared(dst + swz(r, v));                                \
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(src));                    \
        }                                                                                                     \
        asm volatile("cp.async.commit_group;");                                                               \
    }

    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < k_chunks) FETCH(s) else asm volatile("cp.async.commit_group;");
    }

    for (int chunk = 0; chunk < k_chunks; ++chunk) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        if (chunk + STAGES - 1 < k_chunks) FETCH(chunk + STAGES - 1) else asm volatile("cp.async.commit_group;");

        const half *sA = smem + (chunk % STAGES) * STAGE_ELEMS;
        const half *sB = sA + BLOCK_ROWS * CHUNK;
#pragma unroll
        for (int ks = 0; ks < CHUNK / 16; ++ks) {
            uint32_t RA[2][4], RB[8][2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                int r = warp * 32 + i * 16 + lane % 16;
                uint32_t at = (uint32_t)__cvta_generic_to_shared(sA + swz(r, ks * 2 + lane / 16));
                asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(RA[i][0]), "=r"(RA[i][1]), "=r"(RA[i][2]), "=r"(RA[i][3])
                             : "r"(at));
            }
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                int r = BLOCK_ROWS + j * 8 + lane % 8;
                uint32_t at = (uint32_t)__cvta_generic_to_shared(smem + (chunk % STAGES) * STAGE_ELEMS +
                                                                 swz(r, ks * 2 + (lane / 8) % 2));
                asm volatile("ldmatrix.sync.aligned.x2.m8n8.shared.b16 {%0, %1}, [%2];"
                             : "=r"(RB[j][0]), "=r"(RB[j][1])
                             : "r"(at));
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j)
                    asm volatile(
                        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, "
                        "%1};"
                        : "+r"(RC[i][j][0]), "+r"(RC[i][j][1])
                        : "r"(RA[i][0]), "r"(RA[i][1]), "r"(RA[i][2]), "r"(RA[i][3]), "r"(RB[j][0]), "r"(RB[j][1]));
        }
        (void)sB;
    }

#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            half *to = C + (row0 + warp * 32 + i * 16 + lane / 4) * N + col0 + j * 8 + lane % 4 * 2;
            *(uint32_t *)to = RC[i][j][0];
            *(uint32_t *)(to + 8 * N) = RC[i][j][1];
        }
}

size_t init_mma_permuted() {
    int dev_id = 0;
    cudaGetDevice(&dev_id);
    cudaDeviceProp dev_prop;
    cudaGetDeviceProperties(&dev_prop, dev_id);
    size_t smem_max_size = STAGES * (BLOCK_ROWS + BLOCK_COLS) * CHUNK * sizeof(half);
    cudaFuncSetAttribute(mma_permuted_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem_max_size);
    return smem_max_size;
}

void mma_permuted(half *A, half *B, half *C, size_t M, size_t N, size_t K) {
    static size_t smem_max_size = init_mma_permuted();
    dim3 block(THREADS_PER_BLOCK);
    dim3 grid(div_ceil(N, BLOCK_COLS), div_ceil(M, BLOCK_ROWS));
    mma_permuted_kernel<<<grid, block, smem_max_size>>>(A, B, C, M, N, K);
}
