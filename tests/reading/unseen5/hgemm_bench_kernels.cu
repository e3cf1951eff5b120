// HGEMM variants, one launch function each. C[M,N] = A[M,K] * B[K,N], everything row major half.
#pragma once
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#define OFFSET(row, col, ld) ((row) * (ld) + (col))
#define FLOAT4(pointer) (reinterpret_cast<float4 *>(&(pointer))[0])

using namespace nvcuda;

__device__ __host__ inline int div_ceil(int a, int b) { return (a % b != 0) ? (a / b + 1) : (a / b); }

// ---------------------------------------------------------------- 1: one warp, one tile
__global__ void hgemmNaiveWmma(half *__restrict__ a, half *__restrict__ b, half *__restrict__ c, const int M,
                               const int N, const int K) {
    const int load_a_gmem_m = blockIdx.y * 16;
    const int load_b_gmem_n = blockIdx.x * 16;
    if (load_a_gmem_m >= M || load_b_gmem_n >= N) return;

    wmma::fragment<wmma::accumulator, 16, 16, 16, half> c_frag;
    wmma::fill_fragment(c_frag, __float2half(0.0f));
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_frag;

    for (int bk = 0; bk < div_ceil(K, 16); ++bk) {
        wmma::load_matrix_sync(a_frag, a + OFFSET(load_a_gmem_m, bk * 16, K), K);
        wmma::load_matrix_sync(b_frag, b + OFFSET(bk * 16, load_b_gmem_n, N), N);
        wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
    }
    wmma::store_matrix_sync(c + OFFSET(load_a_gmem_m, load_b_gmem_n, N), c_frag, N, wmma::mem_row_major);
}

// ---------------------------------------------------------------- 2: 128x128x32 through shared memory, registers
__global__ void hgemmShared128(half *__restrict__ a, half *__restrict__ b, half *__restrict__ c, const int M,
                               const int N, const int K) {
    const int BM = 128, BN = 128, BK = 32;
    const int APAD = 8, BPAD = 8;

    int bx = blockIdx.x, by = blockIdx.y;
    int tid = threadIdx.x;
    int wid = tid >> 5;

    __shared__ half s_a[BM][BK + APAD];
    __shared__ half s_b[BK][BN + BPAD];

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> frag_a[2][4];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> frag_b[2][2];
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> frag_c[4][2];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) wmma::fill_fragment(frag_c[i][j], 0.0);

    int load_a_smem_m = (tid >> 2) << 1;
    int load_a_smem_k = (tid & 3) << 3;
    int load_b_smem_k = (tid >> 4) << 1;
    int load_b_smem_n = (tid & 15) << 3;

    int load_a_gmem_addr = OFFSET(by * BM + load_a_smem_m, load_a_smem_k, K);
    int load_b_gmem_addr = OFFSET(load_b_smem_k, bx * BN + load_b_smem_n, N);

    // 8 warps: 2 rows of 64, 4 columns of 32
    int comp_c_frag_m = wid & 1;
    int comp_c_frag_n = wid >> 1;

    for (int bk = 0; bk < K / BK; bk++) {
        FLOAT4(s_a[load_a_smem_m][load_a_smem_k]) = FLOAT4(a[load_a_gmem_addr]);
        FLOAT4(s_a[load_a_smem_m + 1][load_a_smem_k]) = FLOAT4(a[load_a_gmem_addr + K]);
        FLOAT4(s_b[load_b_smem_k][load_b_smem_n]) = FLOAT4(b[load_b_gmem_addr]);
        FLOAT4(s_b[load_b_smem_k + 1][load_b_smem_n]) = FLOAT4(b[load_b_gmem_addr + N]);
        load_a_gmem_addr += BK;
        load_b_gmem_addr += BK * N;
        __syncthreads();

#pragma unroll
        for (int k = 0; k < 2; k++) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                wmma::load_matrix_sync(frag_a[k][i], &s_a[comp_c_frag_m * 64 + i * 16][k * 16], BK + APAD);
#pragma unroll
            for (int j = 0; j < 2; j++)
                wmma::load_matrix_sync(frag_b[k][j], &s_b[k * 16][comp_c_frag_n * 32 + j * 16], BN + BPAD);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int j = 0; j < 2; j++) {
                wmma::mma_sync(frag_c[i][j], frag_a[0][i], frag_b[0][j], frag_c[i][j]);
                wmma::mma_sync(frag_c[i][j], frag_a[1][i], frag_b[1][j], frag_c[i][j]);
            }
        }
        __syncthreads();
    }

    int store_c_gmem_m = by * BM + comp_c_frag_m * 64;
    int store_c_gmem_n = bx * BN + comp_c_frag_n * 32;
    int store_c_gmem_addr = OFFSET(store_c_gmem_m, store_c_gmem_n, N);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(&c[store_c_gmem_addr + i * 16 * N + j * 16], frag_c[i][j], N,
                                    wmma::mem_row_major);
}

// ---------------------------------------------------------------- 3: the same, two buffers and cp.async
__global__ void hgemmAsync128(half *__restrict__ a, half *__restrict__ b, half *__restrict__ c, const int M,
                              const int N, const int K) {
    constexpr int BM = 128, BN = 128, BK = 32;
    constexpr int LDA = BK + 8, LDB = BN + 8;
    constexpr int s_a_offset = BM * LDA, s_b_offset = BK * LDB;

    extern __shared__ half smem[];
    half *s_a = smem;
    half *s_b = smem + 2 * s_a_offset;

    int tid = threadIdx.x, wid = tid >> 5;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> frag_a[4];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> frag_b[2];
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> frag_c[4][2];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++) wmma::fill_fragment(frag_c[i][j], 0.0);

    int am = (tid >> 2) << 1, ak = (tid & 3) << 3, bk_ = (tid >> 4) << 1, bn = (tid & 15) << 3;
    int s_a_base = (int)__cvta_generic_to_shared(s_a);
    int s_b_base = (int)__cvta_generic_to_shared(s_b);
    int sa0 = s_a_base + OFFSET(am, ak, LDA) * (int)sizeof(half), sa1 = sa0 + LDA * (int)sizeof(half);
    int sb0 = s_b_base + OFFSET(bk_, bn, LDB) * (int)sizeof(half), sb1 = sb0 + LDB * (int)sizeof(half);
    int ga = OFFSET(blockIdx.y * BM + am, ak, K), gb = OFFSET(bk_, blockIdx.x * BN + bn, N);

#define CP16(dst, src) asm("cp.async.ca.shared.global [%0], [%1], 16;\n" ::"r"(dst), "l"(src))
    CP16(sa0, &a[ga]);
    CP16(sa1, &a[ga + K]);
    CP16(sb0, &b[gb]);
    CP16(sb1, &b[gb + N]);
    asm("cp.async.commit_group;\n" ::);
    asm("cp.async.wait_group 0;\n" ::);
    __syncthreads();

    int cm = (wid & 1) * 64, cn = (wid >> 1) * 32;
    for (int bk = 1; bk <= K / BK; bk++) {
        int sel = (bk & 1) ^ 1, nxt = sel ^ 1;
        if (bk < K / BK) {
            ga += BK;
            gb += BK * N;
            CP16(sa0 + nxt * s_a_offset * (int)sizeof(half), &a[ga]);
            CP16(sa1 + nxt * s_a_offset * (int)sizeof(half), &a[ga + K]);
            CP16(sb0 + nxt * s_b_offset * (int)sizeof(half), &b[gb]);
            CP16(sb1 + nxt * s_b_offset * (int)sizeof(half), &b[gb + N]);
        }
        for (int k = 0; k < BK; k += 16) {
            for (int i = 0; i < 4; i++)
                wmma::load_matrix_sync(frag_a[i], &s_a[sel * s_a_offset + OFFSET(cm + i * 16, k, LDA)], LDA);
            for (int j = 0; j < 2; j++)
                wmma::load_matrix_sync(frag_b[j], &s_b[sel * s_b_offset + OFFSET(k, cn + j * 16, LDB)], LDB);
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 2; j++) wmma::mma_sync(frag_c[i][j], frag_a[i], frag_b[j], frag_c[i][j]);
        }
        asm("cp.async.commit_group;\n" ::);
        asm("cp.async.wait_group 0;\n" ::);
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(&c[OFFSET(blockIdx.y * BM + cm + i * 16, blockIdx.x * BN + cn + j * 16, N)],
                                    frag_c[i][j], N, wmma::mem_row_major);
}

void myHGEMMNaive(half *a, half *b, half *c, const int M, const int N, const int K) {
    dim3 block(32);
    dim3 grid(div_ceil(N, 16), div_ceil(M, 16));
    hgemmNaiveWmma<<<grid, block>>>(a, b, c, M, N, K);
}

void myHGEMMShared(half *a, half *b, half *c, const int M, const int N, const int K) {
    const int BM = 128, BN = 128;
    dim3 blockDim(256);
    int BX = (N + BN - 1) / BN;
    int BY = (M + BM - 1) / BM;
    dim3 gridDim(BX, BY);
    hgemmShared128<<<gridDim, blockDim>>>(a, b, c, M, N, K);
}

void myHGEMMAsync(half *a, half *b, half *c, const int M, const int N, const int K) {
    const int BM = 128, BN = 128, BK = 32;
    dim3 blockDim(256);
    dim3 gridDim((N + BN - 1) / BN, (M + BM - 1) / BM);
    cudaFuncSetAttribute(hgemmAsync128, cudaFuncAttributeMaxDynamicSharedMemorySize, 98304);
    unsigned int dsmem = 2 * (BM * (BK + 8) + BK * (BN + 8)) * sizeof(half);
    hgemmAsync128<<<gridDim, blockDim, dsmem>>>(a, b, c, M, N, K);
}
