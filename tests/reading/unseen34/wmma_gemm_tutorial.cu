// wmma_gemm_tutorial.cu
//
// Companion code for the blog post "Tensor Cores from zero: three WMMA GEMMs and how far
// they are from cuBLAS".
//
//   C (M x N, fp32)  =  A (M x K, fp16)  *  B (K x N, fp16)       everything row-major
//
//   v0  naive          one thread = one element of C, no tensor cores (sanity reference)
//   v1  wmma naive     one warp = one 16x16 tile, operands straight from global memory
//   v2  wmma + smem    64x64 block tile, 4 warps, operands staged in shared memory
//   v3  wmma + async   128x128 block tile, 8 warps, double buffered with memcpy_async
//
// All of v1..v3 assume M, N multiples of 128 and K a multiple of 32. I do not handle ragged
// edges here on purpose, see part 2 of the series.
//
// nvcc -O3 -arch=sm_80 wmma_gemm_tutorial.cu -lcublas -o wmma_gemm && ./wmma_gemm
// usage: ./wmma_gemm [M N K]

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

#define CUDA_CHECK(call)                                                              \
    do {                                                                              \
        cudaError_t err_ = (call);                                                    \
        if (err_ != cudaSuccess) {                                                    \
            fprintf(stderr, "CUDA error %s at %s:%d\n", cudaGetErrorString(err_),     \
                    __FILE__, __LINE__);                                              \
            exit(EXIT_FAILURE);                                                       \
        }                                                                             \
    } while (0)

#define CUBLAS_CHECK(call)                                                            \
    do {                                                                              \
        cublasStatus_t st_ = (call);                                                  \
        if (st_ != CUBLAS_STATUS_SUCCESS) {                                           \
            fprintf(stderr, "cuBLAS error %d at %s:%d\n", (int)st_, __FILE__, __LINE__); \
            exit(EXIT_FAILURE);                                                       \
        }                                                                             \
    } while (0)

#define DIV_UP(a, b) (((a) + (b) - 1) / (b))

constexpr int WMMA_M = 16;
constexpr int WMMA_N = 16;
constexpr int WMMA_K = 16;

// ------------------------------------------------------------------------------------
// v0: the kernel everybody writes first
// ------------------------------------------------------------------------------------
__global__ void gemm_v0_naive(const half *A, const half *B, float *C, int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k)
        acc += __half2float(A[row * K + k]) * __half2float(B[k * N + col]);
    C[row * N + col] = acc;
}

// ------------------------------------------------------------------------------------
// v1: one warp computes one 16x16 tile of C
// blockDim = (128, 4): 4 warps along M (threadIdx.x / 32), 4 warps along N (threadIdx.y)
// ------------------------------------------------------------------------------------
__global__ void gemm_v1_wmma(const half *A, const half *B, float *C, int M, int N, int K) {
    int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
    int warpN = blockIdx.y * blockDim.y + threadIdx.y;

    int row = warpM * WMMA_M;
    int col = warpN * WMMA_N;
    if (row >= M || col >= N) return;   // the whole warp leaves together

    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> b_frag;
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;
    wmma::fill_fragment(c_frag, 0.0f);

    for (int k = 0; k < K; k += WMMA_K) {
        wmma::load_matrix_sync(a_frag, A + row * K + k, K);
        wmma::load_matrix_sync(b_frag, B + k * N + col, N);
        wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
    }
    wmma::store_matrix_sync(C + row * N + col, c_frag, N, wmma::mem_row_major);
}

// ------------------------------------------------------------------------------------
// v2: 64x64 block tile in shared memory, 4 warps in a 2x2 grid, every warp owns 32x32
// The +8 halfs of padding shift each row by 16 bytes (4 banks).
// ------------------------------------------------------------------------------------
constexpr int V2_BM = 64, V2_BN = 64, V2_BK = 32;
constexpr int V2_LDA = V2_BK + 8;
constexpr int V2_LDB = V2_BN + 8;

__global__ void __launch_bounds__(128)
gemm_v2_wmma_smem(const half *A, const half *B, float *C, int M, int N, int K) {
    __shared__ __align__(128) half As[V2_BM * V2_LDA];
    __shared__ __align__(128) half Bs[V2_BK * V2_LDB];

    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int wm = (warp / 2) * 32;
    const int wn = (warp % 2) * 32;
    const int bm = blockIdx.y * V2_BM;
    const int bn = blockIdx.x * V2_BN;

    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> a[2];
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> b[2];
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) wmma::fill_fragment(c[i][j], 0.0f);

    for (int k0 = 0; k0 < K; k0 += V2_BK) {
        // A tile: 64 rows x 4 int4,  B tile: 32 rows x 8 int4
#pragma unroll
        for (int it = 0; it < 2; ++it) {
            int idx = tid + it * 128;
            int ar = idx / 4, ac = (idx % 4) * 8;
            *reinterpret_cast<int4 *>(&As[ar * V2_LDA + ac]) =
                *reinterpret_cast<const int4 *>(&A[(bm + ar) * K + k0 + ac]);
            int br = idx / 8, bc = (idx % 8) * 8;
            *reinterpret_cast<int4 *>(&Bs[br * V2_LDB + bc]) =
                *reinterpret_cast<const int4 *>(&B[(k0 + br) * N + bn + bc]);
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < V2_BK; kk += WMMA_K) {
            for (int i = 0; i < 2; ++i)
                wmma::load_matrix_sync(a[i], &As[(wm + i * 16) * V2_LDA + kk], V2_LDA);
            for (int j = 0; j < 2; ++j)
                wmma::load_matrix_sync(b[j], &Bs[kk * V2_LDB + wn + j * 16], V2_LDB);
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) wmma::mma_sync(c[i][j], a[i], b[j], c[i][j]);
        }
        __syncthreads();   // nobody may overwrite the tiles while they are still read
    }

    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            wmma::store_matrix_sync(&C[(bm + wm + i * 16) * N + bn + wn + j * 16], c[i][j], N,
                                    wmma::mem_row_major);
}

// ------------------------------------------------------------------------------------
// v3: 128x128x32 tile, 8 warps (2 x 4), warp tile 64x32, two stages filled by cp.async
// smem: 2 * 128 * 40 * 2 B + 2 * 32 * 136 * 2 B = 37888 B, fits the static limit
// ------------------------------------------------------------------------------------
constexpr int V3_BM = 128, V3_BN = 128, V3_BK = 32;
constexpr int V3_LDA = V3_BK + 8;
constexpr int V3_LDB = V3_BN + 8;

__global__ void __launch_bounds__(256)
gemm_v3_wmma_async(const half *__restrict__ A, const half *__restrict__ B,
                   float *__restrict__ C, int M, int N, int K) {
    __shared__ __align__(128) half As[2][V3_BM * V3_LDA];
    __shared__ __align__(128) half Bs[2][V3_BK * V3_LDB];

    const int tid = threadIdx.x;
    const int warp = tid >> 5;
    const int wm = (warp >> 2) * 64;
    const int wn = (warp & 3) * 32;
    const int bm = blockIdx.y * V3_BM;
    const int bn = blockIdx.x * V3_BN;

    auto load_stage = [&](int stage, int k0) {
#pragma unroll
        for (int it = 0; it < 2; ++it) {
            int idx = tid + it * 256;                  // 512 pieces of 16 bytes per operand
            int ar = idx >> 2, ac = (idx & 3) * 8;
            __pipeline_memcpy_async(&As[stage][ar * V3_LDA + ac], &A[(bm + ar) * K + k0 + ac], 16);
            int br = idx >> 4, bc = (idx & 15) * 8;
            __pipeline_memcpy_async(&Bs[stage][br * V3_LDB + bc], &B[(k0 + br) * N + bn + bc], 16);
        }
    };

    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c[4][2];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) wmma::fill_fragment(c[i][j], 0.0f);

    const int num_tiles = K / V3_BK;
    load_stage(0, 0);
    __pipeline_commit();

    for (int t = 0; t < num_tiles; ++t) {
        if (t + 1 < num_tiles) load_stage((t + 1) & 1, (t + 1) * V3_BK);
        __pipeline_commit();          // an empty group in the last iteration keeps the count
        __pipeline_wait_prior(1);     // tile t has landed, tile t + 1 may still be in flight
        __syncthreads();

        const half *as = As[t & 1];
        const half *bs = Bs[t & 1];
#pragma unroll
        for (int kk = 0; kk < V3_BK; kk += WMMA_K) {
            wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> a[4];
            wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> b[2];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                wmma::load_matrix_sync(a[i], as + (wm + i * 16) * V3_LDA + kk, V3_LDA);
#pragma unroll
            for (int j = 0; j < 2; ++j)
                wmma::load_matrix_sync(b[j], bs + kk * V3_LDB + wn + j * 16, V3_LDB);
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j) wmma::mma_sync(c[i][j], a[i], b[j], c[i][j]);
        }
        __syncthreads();              // stage t & 1 is refilled in the next iteration
    }

#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            float *dst = C + (size_t)(bm + wm + i * 16) * N + bn + wn + j * 16;
            wmma::store_matrix_sync(dst, c[i][j], N, wmma::mem_row_major);
        }
}

// ------------------------------------------------------------------------------------
// host side
// ------------------------------------------------------------------------------------
typedef void (*launch_fn)(const half *, const half *, float *, int, int, int);

static void run_v0(const half *A, const half *B, float *C, int M, int N, int K) {
    dim3 block(32, 8), grid(DIV_UP(N, 32), DIV_UP(M, 8));
    gemm_v0_naive<<<grid, block>>>(A, B, C, M, N, K);
}
static void run_v1(const half *A, const half *B, float *C, int M, int N, int K) {
    dim3 block(128, 4);
    dim3 grid(DIV_UP(M, WMMA_M * 4), DIV_UP(N, WMMA_N * 4));
    gemm_v1_wmma<<<grid, block>>>(A, B, C, M, N, K);
}
static void run_v2(const half *A, const half *B, float *C, int M, int N, int K) {
    dim3 grid(N / V2_BN, M / V2_BM);
    gemm_v2_wmma_smem<<<grid, 128>>>(A, B, C, M, N, K);
}
static void run_v3(const half *A, const half *B, float *C, int M, int N, int K) {
    dim3 grid(N / V3_BN, M / V3_BM);
    gemm_v3_wmma_async<<<grid, 256>>>(A, B, C, M, N, K);
}

static cublasHandle_t g_handle;
static void run_cublas(const half *A, const half *B, float *C, int M, int N, int K) {
    // row-major C = A * B is column-major C^T = B^T * A^T
    const float alpha = 1.0f, beta = 0.0f;
    CUBLAS_CHECK(cublasGemmEx(g_handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &alpha, B, CUDA_R_16F, N,
                              A, CUDA_R_16F, K, &beta, C, CUDA_R_32F, N, CUBLAS_COMPUTE_32F,
                              CUBLAS_GEMM_DEFAULT));
}

static float max_rel_err(const std::vector<float> &x, const std::vector<float> &ref) {
    float e = 0.0f;
    for (size_t i = 0; i < x.size(); ++i) {
        float d = fabsf(x[i] - ref[i]) / (fabsf(ref[i]) + 1.0f);
        if (d > e || std::isnan(d)) e = d;
    }
    return e;
}

static void bench(int M, int N, int K) {
    if (M % 128 || N % 128 || K % 32) {
        printf("M, N must be multiples of 128 and K of 32 (got %d %d %d)\n", M, N, K);
        return;
    }
    std::vector<half> hA((size_t)M * K), hB((size_t)K * N);
    for (auto &v : hA) v = __float2half((rand() % 2001 - 1000) / 1000.0f);
    for (auto &v : hB) v = __float2half((rand() % 2001 - 1000) / 1000.0f);

    half *dA, *dB;
    float *dC;
    CUDA_CHECK(cudaMalloc((void **)&dA, hA.size() * sizeof(half)));
    CUDA_CHECK(cudaMalloc((void **)&dB, hB.size() * sizeof(half)));
    CUDA_CHECK(cudaMalloc((void **)&dC, (size_t)M * N * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(dA, hA.data(), hA.size() * sizeof(half), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(dB, hB.data(), hB.size() * sizeof(half), cudaMemcpyHostToDevice));

    const char *names[] = {"v0 naive", "v1 wmma", "v2 wmma+smem", "v3 wmma+async", "cublas"};
    launch_fn fns[] = {run_v0, run_v1, run_v2, run_v3, run_cublas};
    std::vector<float> ref((size_t)M * N), out((size_t)M * N);

    printf("M=%d N=%d K=%d\n", M, N, K);
    for (int f = 0; f < 5; ++f) {
        CUDA_CHECK(cudaMemset(dC, 0, out.size() * sizeof(float)));
        fns[f](dA, dB, dC, M, N, K);   // warm-up, and the result that is checked
        CUDA_CHECK(cudaGetLastError());
        CUDA_CHECK(cudaDeviceSynchronize());
        CUDA_CHECK(cudaMemcpy(out.data(), dC, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
        if (f == 0) ref = out;
        float err = max_rel_err(out, ref);

        const int iters = (f == 0) ? 2 : 20;
        cudaEvent_t beg, end;
        CUDA_CHECK(cudaEventCreate(&beg));
        CUDA_CHECK(cudaEventCreate(&end));
        CUDA_CHECK(cudaEventRecord(beg, 0));
        for (int i = 0; i < iters; ++i) fns[f](dA, dB, dC, M, N, K);
        CUDA_CHECK(cudaEventRecord(end, 0));
        CUDA_CHECK(cudaEventSynchronize(end));
        float ms = 0.0f;
        CUDA_CHECK(cudaEventElapsedTime(&ms, beg, end));
        double tflops = 2.0 * M * N * K * iters / (ms * 1e-3) * 1e-12;
        printf("  %-14s %9.3f ms %8.2f TFLOPS   max rel err %.2e %s\n", names[f], ms / iters, tflops,
               err, err < 1e-3f ? "ok" : "MISMATCH");
        CUDA_CHECK(cudaEventDestroy(beg));
        CUDA_CHECK(cudaEventDestroy(end));
    }
    CUDA_CHECK(cudaFree(dA));
    CUDA_CHECK(cudaFree(dB));
    CUDA_CHECK(cudaFree(dC));
}

int main(int argc, char **argv) {
    CUBLAS_CHECK(cublasCreate(&g_handle));
    if (argc == 4) {
        bench(atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
    } else {
        for (int s = 512; s <= 4096; s *= 2) bench(s, s, s);
    }
    CUBLAS_CHECK(cublasDestroy(g_handle));
    return 0;
}
