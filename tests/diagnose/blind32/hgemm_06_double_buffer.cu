/*
 * Step 6 of "how fast can a hand written HGEMM be": registers on both sides of shared memory.
 *
 *   D = alpha * A * B + beta * C        A: M x K, B: K x N, C, D: M x N, all row major, all __half, sums in fp32
 *
 *   step 1  naive wmma                         step 4  ldmatrix + mma.m16n8k16 instead of wmma
 *   step 2  shared memory tiles                step 5  xor swizzle, no bank conflicts
 *   step 3  warp tiles                         step 6  this: the next tile of global memory waits in registers while the
 *                                                      tensor cores work, and so does the next k-step of fragments
 *
 * M, N and K have to be multiples of the block tile (M_BLOCK, N_BLOCK, K_BLOCK). There is a remainder kernel in step 8.
 */
#include <cuda_fp16.h>
#include <cstdint>

#define M_BLOCK 128
#define N_BLOCK 128
#define K_BLOCK 32
#define M_WARP 64
#define N_WARP 32
#define MMA_M 16
#define MMA_N 8
#define MMA_K 16

#define WARPS_M (M_BLOCK / M_WARP)
#define WARPS_N (N_BLOCK / N_WARP)
#define NUM_THREADS (WARPS_M * WARPS_N * 32)

#define M_TILES (M_WARP / MMA_M)    // mma tiles of a warp along m
#define N_TILES (N_WARP / MMA_N)    // and along n
#define K_STEPS (K_BLOCK / MMA_K)

// 16 byte chunks in one row of a tile
#define A_CHUNKS (K_BLOCK / 8)
#define B_CHUNKS (N_BLOCK / 8)
// chunks that one thread copies
#define A_COPIES (M_BLOCK * A_CHUNKS / NUM_THREADS)
#define B_COPIES (K_BLOCK * B_CHUNKS / NUM_THREADS)

#define FLOAT4(p) (*reinterpret_cast<float4 *>(&(p)))
#define CONST_FLOAT4(p) (*reinterpret_cast<const float4 *>(&(p)))

// Where a chunk lies. Rows of A have 64 bytes: two of them span all banks, so that the row pair picks the pattern.
#define SWIZZLE_A(row, chunk) ((row) * K_BLOCK + (((chunk) ^ (((row) >> 1) & 3)) << 3))
#define SWIZZLE_B(row, chunk) ((row) * N_BLOCK + (((chunk) ^ ((row) & 7)) << 3))

#define LDMATRIX_X4(R, addr)                                                                  \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"         \
                 : "=r"((R)[0]), "=r"((R)[1]), "=r"((R)[2]), "=r"((R)[3])                     \
                 : "r"(addr))
#define LDMATRIX_X4_T(R, addr)                                                                \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"   \
                 : "=r"((R)[0]), "=r"((R)[1]), "=r"((R)[2]), "=r"((R)[3])                     \
                 : "r"(addr))
#define HMMA16816(C, A, B)                                                                    \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "                         \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"          \
                 : "+f"((C)[0]), "+f"((C)[1]), "+f"((C)[2]), "+f"((C)[3])                     \
                 : "r"((A)[0]), "r"((A)[1]), "r"((A)[2]), "r"((A)[3]), "r"((B)[0]), "r"((B)[1]))

__device__ __forceinline__ uint32_t smem_addr(const half *p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// global -> registers
__device__ __forceinline__ void fetch_tile(const half *gA, const half *gB, int lda, int ldb, float4 (&rA)[A_COPIES],
                                           float4 (&rB)[B_COPIES])
{
#pragma unroll
    for (int i = 0; i < A_COPIES; i++)
    {
        const int idx = threadIdx.x + i * NUM_THREADS;
        rA[i] = CONST_FLOAT4(gA[(size_t)(idx / A_CHUNKS) * lda + (idx % A_CHUNKS) * 8]);
    }
#pragma unroll
    for (int i = 0; i < B_COPIES; i++)
    {
        const int idx = threadIdx.x + i * NUM_THREADS;
        rB[i] = CONST_FLOAT4(gB[(size_t)(idx / B_CHUNKS) * ldb + (idx % B_CHUNKS) * 8]);
    }
}

// registers -> shared
__device__ __forceinline__ void store_tile(half *sA, half *sB, const float4 (&rA)[A_COPIES],
                                           const float4 (&rB)[B_COPIES])
{
#pragma unroll
    for (int i = 0; i < A_COPIES; i++)
    {
        const int idx = threadIdx.x + i * NUM_THREADS;
        FLOAT4(sA[SWIZZLE_A(idx / A_CHUNKS, idx % A_CHUNKS)]) = rA[i];
    }
#pragma unroll
    for (int i = 0; i < B_COPIES; i++)
    {
        const int idx = threadIdx.x + i * NUM_THREADS;
        FLOAT4(sB[SWIZZLE_B(idx / B_CHUNKS, idx % B_CHUNKS)]) = rB[i];
    }
}

// shared -> fragments of one k-step
__device__ __forceinline__ void load_fragments(const half *sA, const half *sB, int warp_m, int warp_n, int k_step,
                                               uint32_t (&fA)[M_TILES][4], uint32_t (&fB)[N_TILES][2])
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
    {
        const int row = warp_m * M_WARP + m * MMA_M + (lane & 15);
        const int chunk = k_step * 2 + (lane >> 4);
        LDMATRIX_X4(fA[m], smem_addr(sA + SWIZZLE_A(row, chunk)));
    }
#pragma unroll
    for (int n = 0; n < N_TILES; n += 2)
    {
        const int row = k_step * MMA_K + (lane & 15);
        const int chunk = warp_n * (N_WARP / 8) + n + (lane >> 4);
        uint32_t r[4];
        LDMATRIX_X4_T(r, smem_addr(sB + SWIZZLE_B(row, chunk)));
        fB[n][0] = r[0];
        fB[n][1] = r[1];
        fB[n + 1][0] = r[2];
        fB[n + 1][1] = r[3];
    }
}

__global__ void __launch_bounds__(NUM_THREADS)
hgemm_kernel6(const half *__restrict__ A, const half *__restrict__ B, const half *__restrict__ C,
              half *__restrict__ D, float alpha, float beta, int M, int N, int K)
{
    __shared__ __align__(128) half sA[2][M_BLOCK * K_BLOCK];
    __shared__ __align__(128) half sB[2][K_BLOCK * N_BLOCK];

    const int warp = threadIdx.x / 32;
    const int warp_m = warp / WARPS_N;
    const int warp_n = warp % WARPS_N;
    const int block_m = blockIdx.y * M_BLOCK;
    const int block_n = blockIdx.x * N_BLOCK;

    const half *gA = A + (size_t)block_m * K;
    const half *gB = B + block_n;

    float4 rA[A_COPIES];
    float4 rB[B_COPIES];
    uint32_t fA[2][M_TILES][4];
    uint32_t fB[2][N_TILES][2];
    float acc[M_TILES][N_TILES][4];

#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int n = 0; n < N_TILES; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                acc[m][n][i] = 0.0f;

    // prologue: first tile, first k-step
    fetch_tile(gA, gB, K, N, rA, rB);
    store_tile(sA[0], sB[0], rA, rB);
    __syncthreads();
    load_fragments(sA[0], sB[0], warp_m, warp_n, 0, fA[0], fB[0]);

    const int num_tiles = K / K_BLOCK;
    for (int tile = 0; tile < num_tiles; tile++)
    {
        const int cur = tile & 1;
        const bool has_next = tile + 1 < num_tiles;
        if (has_next)
        {
            gA += K_BLOCK;
            gB += (size_t)K_BLOCK * N;
            fetch_tile(gA, gB, K, N, rA, rB);
        }

#pragma unroll
        for (int k = 0; k < K_STEPS; k++)
        {
            const int reg = k & 1;
            if (k + 1 < K_STEPS)
            {
                load_fragments(sA[cur], sB[cur], warp_m, warp_n, k + 1, fA[reg ^ 1], fB[reg ^ 1]);
            }
            else if (has_next)
            {
                // the other buffer was read last before the previous barrier: one barrier per tile is enough
                store_tile(sA[cur ^ 1], sB[cur ^ 1], rA, rB);
                __syncthreads();
                load_fragments(sA[cur ^ 1], sB[cur ^ 1], warp_m, warp_n, 0, fA[reg ^ 1], fB[reg ^ 1]);
            }
#pragma unroll
            for (int m = 0; m < M_TILES; m++)
#pragma unroll
                for (int n = 0; n < N_TILES; n++)
                    HMMA16816(acc[m][n], fA[reg][m], fB[reg][n]);
        }
    }

    // epilogue
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
    {
#pragma unroll
        for (int n = 0; n < N_TILES; n++)
        {
            const int col = block_n + warp_n * N_WARP + n * MMA_N + (lane & 3) * 2;
#pragma unroll
            for (int h = 0; h < 2; h++)
            {
                const int row = block_m + warp_m * M_WARP + m * MMA_M + (lane >> 2) + h * 8;
                const float2 c = __half22float2(*reinterpret_cast<const half2 *>(C + (size_t)row * N + col));
                const float x = alpha * acc[m][n][2 * h] + beta * c.x;
                const float y = alpha * acc[m][n][2 * h + 1] + beta * c.y;
                *reinterpret_cast<half2 *>(D + (size_t)row * N + col) = __floats2half2_rn(x, y);
            }
        }
    }
}

void run_kernel6(const half *A, const half *B, const half *C, half *D, float alpha, float beta, int M, int N, int K)
{
    dim3 grid(N / N_BLOCK, M / M_BLOCK);
    hgemm_kernel6<<<grid, NUM_THREADS>>>(A, B, C, D, alpha, beta, M, N, K);
}
