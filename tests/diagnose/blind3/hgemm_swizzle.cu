// HGEMM from scratch, kernel 9: mma.sync + ldmatrix + cp.async, 3 stages, XOR swizzle.
// C[M,N] = A[M,K] * B[K,N], all row major, all half.  M: any, N: multiple of 8, K: multiple of 32.
//
// nvcc -O3 -std=c++17 -arch=sm_80 hgemm_swizzle.cu -o hgemm && ./hgemm 4096 4096 4096

#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define BM 64
#define BN 64
#define BK 32
#define STAGES 3
#define WARP_SIZE 32
#define NUM_WARPS 4
#define NUM_THREADS (NUM_WARPS * WARP_SIZE)

#define A_TILE (BM * BK)
#define B_TILE (BK * BN)
#define STAGE_HALFS (A_TILE + B_TILE)
#define SMEM_BYTES (STAGES * STAGE_HALFS * 2)

#define div_ceil(a, b) (((a) + (b) - 1) / (b))

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                              \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"  \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                              \
                 : "r"(addr))

#define LDMATRIX_X2_T(R0, R1, addr)                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"    \
                 : "=r"(R0), "=r"(R1)                                                  \
                 : "r"(addr))

#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1)                    \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "                  \
                 "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};\n"                   \
                 : "=r"(RD0), "=r"(RD1)                                                \
                 : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0), "r"(RC1))

#define CP_ASYNC_CG(dst, src, bytes, valid)                                            \
    asm volatile("cp.async.cg.shared.global [%0], [%1], %2, %3;\n" ::"r"(dst), "l"(src), "n"(bytes), "r"(valid))

#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

// offsets in halfs; 16-byte chunks are permuted so that 8 rows of ldmatrix hit 8 different bank groups
__device__ __forceinline__ int swizzle_a(int row, int col) {
    return row * BK + ((((col >> 3) ^ (row >> 1)) & 3) << 3) + (col & 7);
}

__device__ __forceinline__ int swizzle_b(int row, int col) {
    return row * BN + ((((col >> 3) ^ row) & 7) << 3) + (col & 7);
}

__device__ __forceinline__ void load_stage(const half *A, const half *B, uint32_t smem, int stage, int k0, int bm, int bn,
                                           int M, int N, int K) {
    const int tid = threadIdx.x;
    const uint32_t sa = smem + stage * STAGE_HALFS * sizeof(half);
    const uint32_t sb = sa + A_TILE * sizeof(half);
#pragma unroll
    for (int i = 0; i < A_TILE / 8 / NUM_THREADS; ++i) {
        int chunk = tid + i * NUM_THREADS;
        int row = chunk / (BK / 8);
        int col = chunk % (BK / 8) * 8;
        int gm = bm + row;
        int valid = gm < M ? 16 : 0;
        const half *src = A + (size_t)(gm < M ? gm : 0) * K + k0 + col;
        CP_ASYNC_CG(sa + swizzle_a(row, col) * 2, src, 16, valid);
    }
#pragma unroll
    for (int i = 0; i < B_TILE / 8 / NUM_THREADS; ++i) {
        int chunk = tid + i * NUM_THREADS;
        int row = chunk / (BN / 8);
        int col = chunk % (BN / 8) * 8;
        int gn = bn + col;
        int valid = gn < N ? 16 : 0;
        const half *src = B + (size_t)(k0 + row) * N + (gn < N ? gn : 0);
        CP_ASYNC_CG(sb + swizzle_b(row, col) * 2, src, 16, valid);
    }
}

__global__ void __launch_bounds__(NUM_THREADS)
hgemm_mma_stages_swizzle_kernel(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C, int M, int N,
                                int K) {
    extern __shared__ __align__(128) half smem_buf[];
    const uint32_t smem = static_cast<uint32_t>(__cvta_generic_to_shared(smem_buf));

    const int bm = blockIdx.y * BM;
    const int bn = blockIdx.x * BN;
    const int warp_id = threadIdx.x / WARP_SIZE;
    const int lane = threadIdx.x % WARP_SIZE;
    const int warp_m = warp_id & 1;
    const int warp_n = warp_id >> 1;

    uint32_t RC[2][4][2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) RC[i][j][0] = RC[i][j][1] = 0;

    const int num_tiles = K / BK;

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < num_tiles) load_stage(A, B, smem, s, s * BK, bm, bn, M, N, K);
        CP_ASYNC_COMMIT_GROUP();
    }

    for (int t = 0; t < num_tiles; ++t) {
        CP_ASYNC_WAIT_GROUP(STAGES - 2);
        __syncthreads();

        const int next = t + STAGES - 1;
        if (next < num_tiles) load_stage(A, B, smem, next % STAGES, next * BK, bm, bn, M, N, K);
        CP_ASYNC_COMMIT_GROUP();

        const uint32_t sa = smem + (t % STAGES) * STAGE_HALFS * sizeof(half);
        const uint32_t sb = sa + A_TILE * sizeof(half);
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            uint32_t RA[2][4], RB[4][2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                int row = warp_m * 32 + i * 16 + lane % 16;
                int col = k + lane / 16 * 8;
                LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], sa + swizzle_a(row, col) * 2);
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                int row = k + lane % 16;
                int col = warp_n * 32 + j * 8;
                LDMATRIX_X2_T(RB[j][0], RB[j][1], sb + swizzle_b(row, col) * 2);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    HMMA16816(RC[i][j][0], RC[i][j][1], RA[i][0], RA[i][1], RA[i][2], RA[i][3], RB[j][0], RB[j][1],
                              RC[i][j][0], RC[i][j][1]);
        }
    }

    // c0,c1 in row lane/4, c2,c3 eight rows below
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            int row = bm + warp_m * 32 + i * 16 + lane / 4;
            int col = bn + warp_n * 32 + j * 8 + lane % 4 * 2;
            if (col < N) {
                if (row < M) *reinterpret_cast<uint32_t *>(C + (size_t)row * N + col) = RC[i][j][0];
                if (row + 8 < M) *reinterpret_cast<uint32_t *>(C + (size_t)(row + 8) * N + col) = RC[i][j][1];
            }
        }
    }
}

void hgemm(const half *A, const half *B, half *C, int M, int N, int K, cudaStream_t stream = 0) {
    dim3 block(NUM_THREADS);
    dim3 grid(div_ceil(N, BN), div_ceil(M, BM));
    cudaFuncSetAttribute(hgemm_mma_stages_swizzle_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM_BYTES);
    hgemm_mma_stages_swizzle_kernel<<<grid, block, SMEM_BYTES, stream>>>(A, B, C, M, N, K);
}

int main(int argc, char **argv) {
    int M = argc > 3 ? atoi(argv[1]) : 1024, N = argc > 3 ? atoi(argv[2]) : 1024, K = argc > 3 ? atoi(argv[3]) : 1024;
    half *hA = (half *)malloc(sizeof(half) * M * K), *hB = (half *)malloc(sizeof(half) * K * N);
    half *hC = (half *)malloc(sizeof(half) * M * N);
    for (int i = 0; i < M * K; ++i) hA[i] = __float2half(rand() % 1000 / 1000.f - 0.5f);
    for (int i = 0; i < K * N; ++i) hB[i] = __float2half(rand() % 1000 / 1000.f - 0.5f);
    half *A, *B, *C;
    cudaMalloc(&A, sizeof(half) * M * K);
    cudaMalloc(&B, sizeof(half) * K * N);
    cudaMalloc(&C, sizeof(half) * M * N);
    cudaMemcpy(A, hA, sizeof(half) * M * K, cudaMemcpyHostToDevice);
    cudaMemcpy(B, hB, sizeof(half) * K * N, cudaMemcpyHostToDevice);

    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    hgemm(A, B, C, M, N, K);
    cudaEventRecord(start);
    for (int i = 0; i < 10; ++i) hgemm(A, B, C, M, N, K);
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    float ms;
    cudaEventElapsedTime(&ms, start, stop);
    printf("%d x %d x %d: %.1f TFLOPS\n", M, N, K, 2.0 * M * N * K * 10 / ms * 1e-9);

    cudaMemcpy(hC, C, sizeof(half) * M * N, cudaMemcpyDeviceToHost);
    float worst = 0;
    for (int t = 0; t < 100; ++t) {
        int m = rand() % M, n = rand() % N;
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += __half2float(hA[m * K + k]) * __half2float(hB[k * N + n]);
        worst = fmaxf(worst, fabsf(sum - __half2float(hC[m * N + n])));
    }
    printf("max error of 100 samples: %f\n", worst);
    return 0;
}
