/*
 * hgemm_wmma_bench.cu
 *
 * Half precision GEMM on Tensor Cores with the WMMA API, three steps:
 *
 *   v1  one warp per 16x16 tile, everything straight from global memory
 *   v2  128x128x32 block tile in shared memory, 8 warps
 *   v3  v2 + double buffering with cp.async
 *
 * C (float, MxN) = A (half, MxK) * B (half, KxN), all row-major.
 *
 * Build:  nvcc -O3 -arch=sm_80 hgemm_wmma_bench.cu -lcublas -o hgemm_wmma_bench
 * Run:    ./hgemm_wmma_bench [M N K]      (M, N multiples of 128, K multiple of 32)
 */
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

#define CUDA_CHECK(call)                                                     \
    do {                                                                     \
        cudaError_t err_ = (call);                                           \
        if (err_ != cudaSuccess) {                                           \
            fprintf(stderr, "CUDA error %s at %s:%d\n",                      \
                    cudaGetErrorString(err_), __FILE__, __LINE__);           \
            exit(EXIT_FAILURE);                                              \
        }                                                                    \
    } while (0)

#define CUBLAS_CHECK(call)                                                   \
    do {                                                                     \
        cublasStatus_t st_ = (call);                                         \
        if (st_ != CUBLAS_STATUS_SUCCESS) {                                  \
            fprintf(stderr, "cuBLAS error %d at %s:%d\n", (int)st_,          \
                    __FILE__, __LINE__);                                     \
            exit(EXIT_FAILURE);                                              \
        }                                                                    \
    } while (0)

constexpr int WMMA_M = 16;
constexpr int WMMA_N = 16;
constexpr int WMMA_K = 16;

// ---------------------------------------------------------------- v1: naive
// block = (128, 4): 4 warps along M (x), 4 along N (y)
__global__ void hgemm_v1_naive(const half *A, const half *B, float *C,
                               int M, int N, int K) {
    int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
    int warpN = blockIdx.y * blockDim.y + threadIdx.y;
    int row = warpM * WMMA_M;
    int col = warpN * WMMA_N;
    if (row >= M || col >= N) return;

    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> b_frag;
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;
    wmma::fill_fragment(c_frag, 0.0f);

    for (int k = 0; k < K; k += WMMA_K) {
        wmma::load_matrix_sync(a_frag, A + (size_t)row * K + k, K);
        wmma::load_matrix_sync(b_frag, B + (size_t)k * N + col, N);
        wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
    }
    wmma::store_matrix_sync(C + (size_t)row * N + col, c_frag, N, wmma::mem_row_major);
}

// ------------------------------------------------- v2: shared memory tiling
constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = 32;
constexpr int PAD = 8;            // 16 bytes, kills most of the bank conflicts
constexpr int LDA_S = BK + PAD;   // 40
constexpr int LDB_S = BN + PAD;   // 136
constexpr int THREADS = 256;      // 8 warps: 2 (M) x 4 (N), 64x32 per warp

__global__ void __launch_bounds__(THREADS)
hgemm_v2_smem(const half *__restrict__ A, const half *__restrict__ B,
              float *__restrict__ C, int M, int N, int K) {
    __shared__ __align__(128) half As[BM * LDA_S];
    __shared__ __align__(128) half Bs[BK * LDB_S];

    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int wm = warp / 4;
    const int wn = warp % 4;
    const int bm = blockIdx.y * BM;
    const int bn = blockIdx.x * BN;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[4][2];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) wmma::fill_fragment(acc[i][j], 0.0f);

    for (int k0 = 0; k0 < K; k0 += BK) {
        // 128x32 and 32x128 halves, 16 bytes per thread and step
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int idx = tid + i * THREADS;
            int ar = idx >> 2, ac = (idx & 3) * 8;
            *(int4 *)&As[ar * LDA_S + ac] =
                *(const int4 *)&A[(size_t)(bm + ar) * K + k0 + ac];
            int br = idx >> 4, bc = (idx & 15) * 8;
            *(int4 *)&Bs[br * LDB_S + bc] =
                *(const int4 *)&B[(size_t)(k0 + br) * N + bn + bc];
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[4];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
#pragma unroll
            for (int i = 0; i < 4; i++)
                wmma::load_matrix_sync(a[i], &As[(wm * 64 + i * 16) * LDA_S + kk], LDA_S);
#pragma unroll
            for (int j = 0; j < 2; j++)
                wmma::load_matrix_sync(b[j], &Bs[kk * LDB_S + wn * 32 + j * 16], LDB_S);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 2; j++)
                    wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();  // everyone is done with the tile before it is overwritten
    }

#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int r = bm + wm * 64 + i * 16;
            int c = bn + wn * 32 + j * 16;
            wmma::store_matrix_sync(&C[(size_t)r * N + c], acc[i][j], N, wmma::mem_row_major);
        }
}

// --------------------------------------------- v3: cp.async double buffering
__device__ __forceinline__ void cp_async16(half *dst, const half *src) {
    unsigned int s = (unsigned int)__cvta_generic_to_shared(dst);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(s), "l"(src));
}
__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;\n" ::);
}
template <int N>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N));
}

__global__ void __launch_bounds__(THREADS)
hgemm_v3_async(const half *__restrict__ A, const half *__restrict__ B,
               float *__restrict__ C, int M, int N, int K) {
    __shared__ __align__(128) half As[2][BM * LDA_S];
    __shared__ __align__(128) half Bs[2][BK * LDB_S];

    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int wm = warp / 4;
    const int wn = warp % 4;
    const int bm = blockIdx.y * BM;
    const int bn = blockIdx.x * BN;

    auto load_stage = [&](int stage, int k0) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int idx = tid + i * THREADS;
            int ar = idx >> 2, ac = (idx & 3) * 8;
            cp_async16(&As[stage][ar * LDA_S + ac], &A[(size_t)(bm + ar) * K + k0 + ac]);
            int br = idx >> 4, bc = (idx & 15) * 8;
            cp_async16(&Bs[stage][br * LDB_S + bc], &B[(size_t)(k0 + br) * N + bn + bc]);
        }
        cp_async_commit();
    };

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[4][2];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) wmma::fill_fragment(acc[i][j], 0.0f);

    const int num_k = K / BK;
    load_stage(0, 0);
    for (int t = 0; t < num_k; t++) {
        const int cur = t & 1;
        if (t + 1 < num_k) {
            load_stage(cur ^ 1, (t + 1) * BK);
            cp_async_wait<1>();   // the newest group may still be in flight
        } else {
            cp_async_wait<0>();
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[4];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
#pragma unroll
            for (int i = 0; i < 4; i++)
                wmma::load_matrix_sync(a[i], &As[cur][(wm * 64 + i * 16) * LDA_S + kk], LDA_S);
#pragma unroll
            for (int j = 0; j < 2; j++)
                wmma::load_matrix_sync(b[j], &Bs[cur][kk * LDB_S + wn * 32 + j * 16], LDB_S);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 2; j++)
                    wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int r = bm + wm * 64 + i * 16;
            int c = bn + wn * 32 + j * 16;
            wmma::store_matrix_sync(&C[(size_t)r * N + c], acc[i][j], N, wmma::mem_row_major);
        }
}

// ------------------------------------------------------------------- driver
typedef void (*launch_fn)(const half *, const half *, float *, int, int, int);

static void run_v1(const half *A, const half *B, float *C, int M, int N, int K) {
    dim3 block(128, 4);
    dim3 grid((M / WMMA_M + 3) / 4, (N / WMMA_N + 3) / 4);
    hgemm_v1_naive<<<grid, block>>>(A, B, C, M, N, K);
}
static void run_v2(const half *A, const half *B, float *C, int M, int N, int K) {
    dim3 grid(N / BN, M / BM);
    hgemm_v2_smem<<<grid, THREADS>>>(A, B, C, M, N, K);
}
static void run_v3(const half *A, const half *B, float *C, int M, int N, int K) {
    dim3 grid(N / BN, M / BM);
    hgemm_v3_async<<<grid, THREADS>>>(A, B, C, M, N, K);
}

int main(int argc, char **argv) {
    int M = 1024, N = 1024, K = 1024;
    if (argc == 4) { M = atoi(argv[1]); N = atoi(argv[2]); K = atoi(argv[3]); }
    if (M <= 0 || N <= 0 || K <= 0 || M % BM || N % BN || K % BK) {
        fprintf(stderr, "M and N must be multiples of 128, K a multiple of 32\n");
        return 1;
    }
    printf("M=%d N=%d K=%d\n", M, N, K);

    std::vector<half> hA((size_t)M * K), hB((size_t)K * N);
    std::vector<float> hC((size_t)M * N), hRef((size_t)M * N);
    srand(2023);
    for (auto &x : hA) x = __float2half((float)rand() / RAND_MAX - 0.5f);
    for (auto &x : hB) x = __float2half((float)rand() / RAND_MAX - 0.5f);

    half *dA, *dB;
    float *dC;
    CUDA_CHECK(cudaMalloc(&dA, hA.size() * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&dB, hB.size() * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&dC, hC.size() * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(dA, hA.data(), hA.size() * sizeof(half), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(dB, hB.data(), hB.size() * sizeof(half), cudaMemcpyHostToDevice));

    cublasHandle_t handle;
    CUBLAS_CHECK(cublasCreate(&handle));
    const float alpha = 1.0f, beta = 0.0f;
    // row-major C = A*B  <=>  column-major C^T = B^T * A^T
    CUBLAS_CHECK(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &alpha,
                              dB, CUDA_R_16F, N, dA, CUDA_R_16F, K, &beta,
                              dC, CUDA_R_32F, N, CUBLAS_COMPUTE_32F,
                              CUBLAS_GEMM_DEFAULT_TENSOR_OP));
    CUDA_CHECK(cudaMemcpy(hRef.data(), dC, hRef.size() * sizeof(float), cudaMemcpyDeviceToHost));

    const char *names[] = {"v1 naive", "v2 smem", "v3 cp.async"};
    launch_fn fns[] = {run_v1, run_v2, run_v3};
    cudaEvent_t e0, e1;
    CUDA_CHECK(cudaEventCreate(&e0));
    CUDA_CHECK(cudaEventCreate(&e1));

    int failed = 0;
    for (int v = 0; v < 3; v++) {
        CUDA_CHECK(cudaMemset(dC, 0, hC.size() * sizeof(float)));
        fns[v](dA, dB, dC, M, N, K);
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaMemcpy(hC.data(), dC, hC.size() * sizeof(float), cudaMemcpyDeviceToHost));
        double max_err = 0.0;
        for (size_t i = 0; i < hC.size(); i++)
            max_err = fmax(max_err, fabs((double)hC[i] - hRef[i]));
        bool ok = max_err < 1e-2;
        failed += !ok;

        const int reps = 20;
        CUDA_CHECK(cudaEventRecord(e0));
        for (int r = 0; r < reps; r++) fns[v](dA, dB, dC, M, N, K);
        CUDA_CHECK(cudaEventRecord(e1));
        CUDA_CHECK(cudaEventSynchronize(e1));
        float ms = 0.0f;
        CUDA_CHECK(cudaEventElapsedTime(&ms, e0, e1));
        ms /= reps;
        printf("%-12s %8.3f ms  %8.2f TFLOPS  max err %.2e  %s\n", names[v], ms,
               2.0 * M * N * K / ms * 1e-9, max_err, ok ? "PASS" : "FAIL");
    }

    cublasDestroy(handle);
    cudaEventDestroy(e0);
    cudaEventDestroy(e1);
    cudaFree(dA);
    cudaFree(dB);
    cudaFree(dC);
    return failed ? 1 : 0;
}
