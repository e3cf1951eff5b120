/*
 * Step by step HGEMM on tensor cores.
 *
 *   C[M][N] = A[M][K] * B[N][K]^T      (A row major, B stored "transposed", i.e. K contiguous)
 *   half in, float accumulate, float out
 *
 *   v0  naive CUDA cores
 *   v1  one warp, one 16x16 tile, straight from global memory
 *   v2  128x128 block tile through shared memory, 8 warps, each 2x4 wmma tiles
 *
 * nvcc -arch=sm_80 -O3 hgemm_tn_stepwise.cu -o hgemm && ./hgemm [M N K]
 */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

#define CUDA_CHECK(call)                                                              \
    do {                                                                              \
        cudaError_t err__ = (call);                                                   \
        if (err__ != cudaSuccess) {                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err__)); \
            exit(EXIT_FAILURE);                                                       \
        }                                                                             \
    } while (0)

#define DIV_CEIL(a, b) (((a) + (b)-1) / (b))
#define FLOAT4(p) (*reinterpret_cast<float4 *>(&(p)))
#define CFLOAT4(p) (*reinterpret_cast<const float4 *>(&(p)))

__global__ void hgemm_v0_naive(const half *A, const half *B, float *C, int M, int N, int K) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    int m = blockIdx.y * blockDim.y + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += __half2float(A[m * K + k]) * __half2float(B[n * K + k]);
    C[m * N + n] = sum;
}

// M, N, K multiples of 16; 32 threads per block
__global__ void hgemm_v1_wmma(const half *__restrict__ A, const half *__restrict__ B, float *__restrict__ C,
                              int M, int N, int K) {
    const int load_m = blockIdx.y * 16;
    const int load_n = blockIdx.x * 16;
    if (load_m >= M || load_n >= N) return;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.f);

    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + load_m * K + k, K);
        wmma::load_matrix_sync(b, B + load_n * K + k, K);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + load_m * N + load_n, c, N, wmma::mem_row_major);
}

// M, N multiples of 128, K multiple of 16; 256 threads per block
template <const int WMMA_M = 16, const int WMMA_N = 16, const int WMMA_K = 16, const int WARPS_M = 4,
          const int WARPS_N = 2, const int WARP_TILE_M = 2, const int WARP_TILE_N = 4, const int PAD = 8>
__global__ void __launch_bounds__(256)
hgemm_v2_wmma_smem(const half *__restrict__ A, const half *__restrict__ B, float *__restrict__ C, int M, int N,
                   int K) {
    constexpr int BM = WMMA_M * WARPS_M * WARP_TILE_M;  // 128
    constexpr int BN = WMMA_N * WARPS_N * WARP_TILE_N;  // 128
    constexpr int BK = WMMA_K;                          // 16

    __shared__ __align__(32) half s_a[BM][BK + PAD];
    __shared__ __align__(32) half s_b[BN][BK + PAD];

    const int tid     = threadIdx.x;
    const int warp_id = tid / 32;
    const int warp_m  = warp_id / WARPS_N;  // 0..3
    const int warp_n  = warp_id % WARPS_N;  // 0..1

    // two threads per row, eight halves each
    const int ld_row = tid / 2;
    const int ld_col = (tid % 2) * 8;
    const int gm     = blockIdx.y * BM + ld_row;
    const int gn     = blockIdx.x * BN + ld_row;

    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc[WARP_TILE_M][WARP_TILE_N];
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
        for (int j = 0; j < WARP_TILE_N; ++j) wmma::fill_fragment(acc[i][j], 0.f);

    for (int k0 = 0; k0 < K; k0 += BK) {
        FLOAT4(s_a[ld_row][ld_col]) = CFLOAT4(A[gm * K + k0 + ld_col]);
        FLOAT4(s_b[ld_row][ld_col]) = CFLOAT4(B[gn * K + k0 + ld_col]);
        __syncthreads();

        wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> fa[WARP_TILE_M];
        wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> fb[WARP_TILE_N];
#pragma unroll
        for (int i = 0; i < WARP_TILE_M; ++i)
            wmma::load_matrix_sync(fa[i], &s_a[(warp_m * WARP_TILE_M + i) * WMMA_M][0], BK + PAD);
#pragma unroll
        for (int j = 0; j < WARP_TILE_N; ++j)
            wmma::load_matrix_sync(fb[j], &s_b[(warp_n * WARP_TILE_N + j) * WMMA_N][0], BK + PAD);
#pragma unroll
        for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
            for (int j = 0; j < WARP_TILE_N; ++j) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
        for (int j = 0; j < WARP_TILE_N; ++j) {
            const int row = blockIdx.y * BM + (warp_m * WARP_TILE_M + i) * WMMA_M;
            const int col = blockIdx.x * BN + (warp_n * WARP_TILE_N + j) * WMMA_N;
            wmma::store_matrix_sync(C + row * N + col, acc[i][j], N, wmma::mem_row_major);
        }
}

typedef void (*launch_fn)(const half *, const half *, float *, int, int, int);

void run_v0(const half *A, const half *B, float *C, int M, int N, int K) {
    dim3 block(16, 16);
    hgemm_v0_naive<<<dim3(DIV_CEIL(N, 16), DIV_CEIL(M, 16)), block>>>(A, B, C, M, N, K);
}
void run_v1(const half *A, const half *B, float *C, int M, int N, int K) {
    hgemm_v1_wmma<<<dim3(N / 16, M / 16), 32>>>(A, B, C, M, N, K);
}
void run_v2(const half *A, const half *B, float *C, int M, int N, int K) {
    hgemm_v2_wmma_smem<><<<dim3(N / 128, M / 128), 256>>>(A, B, C, M, N, K);
}

int main(int argc, char **argv) {
    int M = 256, N = 384, K = 128;
    if (argc == 4) {
        M = atoi(argv[1]);
        N = atoi(argv[2]);
        K = atoi(argv[3]);
    }
    if (M % 128 || N % 128 || K % 16) {
        fprintf(stderr, "M and N must be multiples of 128, K of 16\n");
        return 1;
    }
    std::vector<half> hA(M * K), hB(N * K);
    std::vector<float> hC(M * N), ref(M * N);
    srand(2024);
    for (auto &x : hA) x = __float2half(rand() / (float)RAND_MAX - 0.5f);
    for (auto &x : hB) x = __float2half(rand() / (float)RAND_MAX - 0.5f);
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            float s = 0.f;
            for (int k = 0; k < K; ++k) s += __half2float(hA[m * K + k]) * __half2float(hB[n * K + k]);
            ref[m * N + n] = s;
        }

    half *dA, *dB;
    float *dC;
    CUDA_CHECK(cudaMalloc(&dA, hA.size() * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&dB, hB.size() * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&dC, hC.size() * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(dA, hA.data(), hA.size() * sizeof(half), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(dB, hB.data(), hB.size() * sizeof(half), cudaMemcpyHostToDevice));

    const char *names[3] = {"v0 naive", "v1 wmma", "v2 wmma smem"};
    launch_fn fns[3]     = {run_v0, run_v1, run_v2};
    int bad              = 0;
    for (int v = 0; v < 3; ++v) {
        CUDA_CHECK(cudaMemset(dC, 0, hC.size() * sizeof(float)));
        cudaEvent_t t0, t1;
        CUDA_CHECK(cudaEventCreate(&t0));
        CUDA_CHECK(cudaEventCreate(&t1));
        CUDA_CHECK(cudaEventRecord(t0));
        fns[v](dA, dB, dC, M, N, K);
        CUDA_CHECK(cudaEventRecord(t1));
        CUDA_CHECK(cudaEventSynchronize(t1));
        CUDA_CHECK(cudaGetLastError());
        float ms = 0.f;
        CUDA_CHECK(cudaEventElapsedTime(&ms, t0, t1));
        CUDA_CHECK(cudaMemcpy(hC.data(), dC, hC.size() * sizeof(float), cudaMemcpyDeviceToHost));
        float max_err = 0.f;
        for (int i = 0; i < M * N; ++i) max_err = fmaxf(max_err, fabsf(hC[i] - ref[i]));
        printf("%-14s  %8.3f ms  max err %.3e  %s\n", names[v], ms, max_err, max_err < 1e-2f ? "PASS" : "FAIL");
        bad += max_err >= 1e-2f;
    }
    cudaFree(dA);
    cudaFree(dB);
    cudaFree(dC);
    return bad;
}
