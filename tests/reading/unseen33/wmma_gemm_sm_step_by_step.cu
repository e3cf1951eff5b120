/*
 * Tensor Core 学习笔记 (2) : WMMA API, 从 naive 到 shared memory
 *
 *   C[M,N] (fp32) = A[M,K] (fp16, row-major) * B[K,N] (fp16, row-major)
 *
 * v0: 每个线程算一个元素 (不用 Tensor Core, 当作 GPU 上的参考)
 * v1: 每个 warp 算一个 16x16 的 tile, 直接从 global memory 取 fragment
 * v2: 128x128x32 的 block tile, 共享内存 + padding 避免 bank conflict
 * v3: 在 v2 的基础上加 double buffer (cp.async)
 *
 * 编译: nvcc -O3 -arch=sm_80 wmma_gemm_sm_step_by_step.cu -lcublas -o wmma_gemm
 * 运行: ./wmma_gemm            (缺省 M=N=K=1024)
 *
 * 注意: v1 要求 M, N, K 是 16 的倍数;  v2/v3 要求 M, N 是 128 的倍数, K 是 32 的倍数.
 */
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cstdint>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cublas_v2.h>
#include <mma.h>

using namespace nvcuda;

#define CHECK_CUDA(call)                                                       \
    do {                                                                       \
        cudaError_t err_ = (call);                                             \
        if (err_ != cudaSuccess) {                                             \
            fprintf(stderr, "CUDA error %s:%d: %s\n", __FILE__, __LINE__,      \
                    cudaGetErrorString(err_));                                 \
            exit(EXIT_FAILURE);                                                \
        }                                                                      \
    } while (0)

#define CHECK_CUBLAS(call)                                                     \
    do {                                                                       \
        cublasStatus_t st_ = (call);                                           \
        if (st_ != CUBLAS_STATUS_SUCCESS) {                                    \
            fprintf(stderr, "cuBLAS error %s:%d: %d\n", __FILE__, __LINE__,    \
                    (int)st_);                                                 \
            exit(EXIT_FAILURE);                                                \
        }                                                                      \
    } while (0)

#define OFFSET(row, col, ld) ((row) * (ld) + (col))
#define FLOAT4(value) (reinterpret_cast<float4 *>(&(value))[0])
#define CONST_FLOAT4(value) (reinterpret_cast<const float4 *>(&(value))[0])

const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

// ---------------------------------------------------------------- v0
__global__ void gemm_naive(const half *__restrict__ a, const half *__restrict__ b,
                           float *__restrict__ c, int M, int N, int K) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    int m = blockIdx.y * blockDim.y + threadIdx.y;
    if (m < M && n < N) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++)
            sum += __half2float(a[OFFSET(m, k, K)]) * __half2float(b[OFFSET(k, n, N)]);
        c[OFFSET(m, n, N)] = sum;
    }
}

// ---------------------------------------------------------------- v1
// 一个 block 有 4 个 warp (2x2), 每个 warp 负责一个 16x16
__global__ void wmma_gemm_global(const half *__restrict__ a, const half *__restrict__ b,
                                 float *__restrict__ c, int M, int N, int K) {
    const int warp_id = threadIdx.x / warpSize;
    const int tile_m = blockIdx.y * 2 + warp_id / 2;
    const int tile_n = blockIdx.x * 2 + warp_id % 2;

    // 整个 warp 一起退出, 不会有 divergence
    if (tile_m * WMMA_M >= M || tile_n * WMMA_N >= N) return;

    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> frag_a;
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> frag_b;
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> frag_c;
    wmma::fill_fragment(frag_c, 0.0f);

    for (int k = 0; k < K; k += WMMA_K) {
        wmma::load_matrix_sync(frag_a, a + OFFSET(tile_m * WMMA_M, k, K), K);
        wmma::load_matrix_sync(frag_b, b + OFFSET(k, tile_n * WMMA_N, N), N);
        wmma::mma_sync(frag_c, frag_a, frag_b, frag_c);
    }
    wmma::store_matrix_sync(c + OFFSET(tile_m * WMMA_M, tile_n * WMMA_N, N), frag_c, N,
                            wmma::mem_row_major);
}

// ---------------------------------------------------------------- v2
// 256 线程 = 8 warps, 排成 2 (m) x 4 (n), 每个 warp 负责 64x32
__global__ void __launch_bounds__(256)
wmma_gemm_smem(const half *__restrict__ a, const half *__restrict__ b,
               float *__restrict__ c, int M, int N, int K) {
    const int BM = 128;
    const int BN = 128;
    const int BK = 32;
    const int APAD = 8;
    const int BPAD = 8;

    __shared__ half s_a[BM][BK + APAD];
    __shared__ half s_b[BK][BN + BPAD];

    const int tid = threadIdx.x;
    const int wid = tid >> 5;
    const int bm0 = blockIdx.y * BM;
    const int bn0 = blockIdx.x * BN;

    // A tile: 128x32, 每个线程搬 2 行 x 8 个 half
    const int load_a_m = (tid >> 2) << 1;
    const int load_a_k = (tid & 3) << 3;
    // B tile: 32x128, 每个线程搬 2 行 x 8 个 half
    const int load_b_k = (tid >> 4) << 1;
    const int load_b_n = (tid & 15) << 3;

    const int comp_m = (wid & 1) * 64;
    const int comp_n = (wid >> 1) * 32;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> frag_a[4];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> frag_b[2];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> frag_c[4][2];

#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) wmma::fill_fragment(frag_c[i][j], 0.0f);

    for (int bk = 0; bk < K; bk += BK) {
        FLOAT4(s_a[load_a_m    ][load_a_k]) = CONST_FLOAT4(a[OFFSET(bm0 + load_a_m,     bk + load_a_k, K)]);
        FLOAT4(s_a[load_a_m + 1][load_a_k]) = CONST_FLOAT4(a[OFFSET(bm0 + load_a_m + 1, bk + load_a_k, K)]);
        FLOAT4(s_b[load_b_k    ][load_b_n]) = CONST_FLOAT4(b[OFFSET(bk + load_b_k,     bn0 + load_b_n, N)]);
        FLOAT4(s_b[load_b_k + 1][load_b_n]) = CONST_FLOAT4(b[OFFSET(bk + load_b_k + 1, bn0 + load_b_n, N)]);

        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                wmma::load_matrix_sync(frag_a[i], &s_a[comp_m + i * 16][kk], BK + APAD);
#pragma unroll
            for (int j = 0; j < 2; j++)
                wmma::load_matrix_sync(frag_b[j], &s_b[kk][comp_n + j * 16], BN + BPAD);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 2; j++)
                    wmma::mma_sync(frag_c[i][j], frag_a[i], frag_b[j], frag_c[i][j]);
        }

        // 下一轮要覆盖 s_a / s_b, 必须等所有 warp 算完
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(&c[OFFSET(bm0 + comp_m + i * 16, bn0 + comp_n + j * 16, N)],
                                    frag_c[i][j], N, wmma::mem_row_major);
}

// ---------------------------------------------------------------- v3
__device__ __forceinline__ void cp_async_16(void *smem, const void *gmem) {
    uint32_t s = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;\n" ::"r"(s), "l"(gmem));
}

__global__ void __launch_bounds__(256)
wmma_gemm_smem_async(const half *__restrict__ a, const half *__restrict__ b,
                     float *__restrict__ c, int M, int N, int K) {
    const int BM = 128;
    const int BN = 128;
    const int BK = 32;
    const int LDA_S = BK + 8;
    const int LDB_S = BN + 8;

    __shared__ half s_a[2][BM * LDA_S];   // 2 * 10240 B
    __shared__ half s_b[2][BK * LDB_S];   // 2 *  8704 B

    const int tid = threadIdx.x;
    const int wid = tid >> 5;
    const int bm0 = blockIdx.y * BM;
    const int bn0 = blockIdx.x * BN;

    const int ra = (tid >> 2) << 1, ca = (tid & 3) << 3;
    const int rb = (tid >> 4) << 1, cb = (tid & 15) << 3;

    const int comp_m = (wid & 1) * 64;
    const int comp_n = (wid >> 1) * 32;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[4];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb[2];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc[4][2];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++) wmma::fill_fragment(fc[i][j], 0.0f);

    const int k_tiles = K / BK;

    // 预取第 0 个 tile
    {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            cp_async_16(&s_a[0][OFFSET(ra + r, ca, LDA_S)], &a[OFFSET(bm0 + ra + r, ca, K)]);
            cp_async_16(&s_b[0][OFFSET(rb + r, cb, LDB_S)], &b[OFFSET(rb + r, bn0 + cb, N)]);
        }
        asm volatile("cp.async.commit_group;\n" ::);
        asm volatile("cp.async.wait_group 0;\n" ::);
        __syncthreads();
    }

    for (int t = 0; t < k_tiles; t++) {
        const int cur = t & 1;
        const int nxt = cur ^ 1;

        if (t + 1 < k_tiles) {
            const int bk = (t + 1) * BK;
#pragma unroll
            for (int r = 0; r < 2; r++) {
                cp_async_16(&s_a[nxt][OFFSET(ra + r, ca, LDA_S)], &a[OFFSET(bm0 + ra + r, bk + ca, K)]);
                cp_async_16(&s_b[nxt][OFFSET(rb + r, cb, LDB_S)], &b[OFFSET(bk + rb + r, bn0 + cb, N)]);
            }
            asm volatile("cp.async.commit_group;\n" ::);
        }

#pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                wmma::load_matrix_sync(fa[i], &s_a[cur][OFFSET(comp_m + i * 16, kk, LDA_S)], LDA_S);
#pragma unroll
            for (int j = 0; j < 2; j++)
                wmma::load_matrix_sync(fb[j], &s_b[cur][OFFSET(kk, comp_n + j * 16, LDB_S)], LDB_S);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 2; j++) wmma::mma_sync(fc[i][j], fa[i], fb[j], fc[i][j]);
        }

        asm volatile("cp.async.wait_group 0;\n" ::);
        __syncthreads();
    }

    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(&c[OFFSET(bm0 + comp_m + i * 16, bn0 + comp_n + j * 16, N)],
                                    fc[i][j], N, wmma::mem_row_major);
}

// ---------------------------------------------------------------- host
static float max_error(const std::vector<float> &x, const std::vector<float> &y) {
    float e = 0.0f;
    for (size_t i = 0; i < x.size(); i++) e = fmaxf(e, fabsf(x[i] - y[i]));
    return e;
}

template <typename F>
static float time_ms(F f, int repeat) {
    cudaEvent_t beg, end;
    CHECK_CUDA(cudaEventCreate(&beg));
    CHECK_CUDA(cudaEventCreate(&end));
    f();  // warm up
    CHECK_CUDA(cudaEventRecord(beg));
    for (int i = 0; i < repeat; i++) f();
    CHECK_CUDA(cudaEventRecord(end));
    CHECK_CUDA(cudaEventSynchronize(end));
    float ms = 0;
    CHECK_CUDA(cudaEventElapsedTime(&ms, beg, end));
    CHECK_CUDA(cudaEventDestroy(beg));
    CHECK_CUDA(cudaEventDestroy(end));
    return ms / repeat;
}

int main(int argc, char **argv) {
    int M = argc > 1 ? atoi(argv[1]) : 1024;
    int N = argc > 2 ? atoi(argv[2]) : 1024;
    int K = argc > 3 ? atoi(argv[3]) : 1024;
    if (M % 128 || N % 128 || K % 32) {
        printf("M, N 必须是 128 的倍数, K 必须是 32 的倍数\n");
        return 1;
    }

    std::vector<half> h_a((size_t)M * K), h_b((size_t)K * N);
    std::vector<float> h_ref((size_t)M * N), h_c((size_t)M * N);
    srand(2023);
    for (auto &x : h_a) x = __float2half(rand() / (float)RAND_MAX - 0.5f);
    for (auto &x : h_b) x = __float2half(rand() / (float)RAND_MAX - 0.5f);

    half *d_a, *d_b;
    float *d_c;
    CHECK_CUDA(cudaMalloc(&d_a, h_a.size() * sizeof(half)));
    CHECK_CUDA(cudaMalloc(&d_b, h_b.size() * sizeof(half)));
    CHECK_CUDA(cudaMalloc(&d_c, h_c.size() * sizeof(float)));
    CHECK_CUDA(cudaMemcpy(d_a, h_a.data(), h_a.size() * sizeof(half), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(d_b, h_b.data(), h_b.size() * sizeof(half), cudaMemcpyHostToDevice));

    {
        dim3 block(32, 8), grid((N + 31) / 32, (M + 7) / 8);
        gemm_naive<<<grid, block>>>(d_a, d_b, d_c, M, N, K);
        CHECK_CUDA(cudaGetLastError());
        CHECK_CUDA(cudaMemcpy(h_ref.data(), d_c, h_ref.size() * sizeof(float), cudaMemcpyDeviceToHost));
    }

    const double flop = 2.0 * M * N * K;
    auto report = [&](const char *name, float ms) {
        CHECK_CUDA(cudaGetLastError());
        CHECK_CUDA(cudaMemcpy(h_c.data(), d_c, h_c.size() * sizeof(float), cudaMemcpyDeviceToHost));
        printf("%-16s %8.4f ms  %8.2f TFLOPS  max error %g\n", name, ms, flop / ms * 1e-9,
               max_error(h_c, h_ref));
        CHECK_CUDA(cudaMemset(d_c, 0, h_c.size() * sizeof(float)));
    };

    {
        dim3 block(128), grid((N + 31) / 32, (M + 31) / 32);
        report("v1 global", time_ms([&] { wmma_gemm_global<<<grid, block>>>(d_a, d_b, d_c, M, N, K); }, 10));
    }
    {
        dim3 block(256), grid(N / 128, M / 128);
        report("v2 smem", time_ms([&] { wmma_gemm_smem<<<grid, block>>>(d_a, d_b, d_c, M, N, K); }, 10));
        report("v3 cp.async", time_ms([&] { wmma_gemm_smem_async<<<grid, block>>>(d_a, d_b, d_c, M, N, K); }, 10));
    }
    {
        cublasHandle_t handle;
        CHECK_CUBLAS(cublasCreate(&handle));
        float alpha = 1.0f, beta = 0.0f;
        // cuBLAS 是列主序, 所以算 C^T = B^T * A^T
        report("cublas", time_ms([&] {
            CHECK_CUBLAS(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &alpha,
                                      d_b, CUDA_R_16F, N, d_a, CUDA_R_16F, K, &beta,
                                      d_c, CUDA_R_32F, N, CUBLAS_COMPUTE_32F,
                                      CUBLAS_GEMM_DEFAULT_TENSOR_OP));
        }, 10));
        CHECK_CUBLAS(cublasDestroy(handle));
    }

    CHECK_CUDA(cudaFree(d_a));
    CHECK_CUDA(cudaFree(d_b));
    CHECK_CUDA(cudaFree(d_c));
    return 0;
}
