// Tensor Core を使った Split-K GEMM の比較ベンチマーク
//
//   C[M,N] (float) = A[M,K] (half, 行優先) x B[K,N] (half, 行優先)
//
//   0: wmma_naive         1 warp = 16x16 タイル, 分割なし
//   1: wmma_splitk_atomic K を gridDim.z 個に分け, atomicAdd で足し込む (C は事前に 0 クリア)
//   2: wmma_splitk_ws     K を分けて部分和をワークスペースに書き, 別カーネルで総和をとる
//
// M, N, K は 16 の倍数. K は分割数で割り切れなくてもよい.
//
// nvcc -O3 -arch=sm_80 splitk_wmma_bench.cu -o splitk
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

using namespace nvcuda;

#define CUDA_SAFE_CALL(call)                                                           \
    do {                                                                               \
        cudaError_t err = call;                                                        \
        if (cudaSuccess != err) {                                                      \
            fprintf(stderr, "CUDA error in %s:%d : %s\n", __FILE__, __LINE__,          \
                    cudaGetErrorString(err));                                          \
            exit(EXIT_FAILURE);                                                        \
        }                                                                              \
    } while (0)

constexpr int T = 16;
constexpr int WARPS_PER_BLOCK = 4;

using FragA = wmma::fragment<wmma::matrix_a, T, T, T, half, wmma::row_major>;
using FragB = wmma::fragment<wmma::matrix_b, T, T, T, half, wmma::row_major>;
using FragC = wmma::fragment<wmma::accumulator, T, T, T, float>;

// [k_begin, k_end) の範囲だけ積算する
__device__ inline void accumulate(FragC &acc, const half *A, const half *B, int row, int col, int k_begin, int k_end,
                                  int N, int K)
{
    FragA fa;
    FragB fb;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = k_begin; k < k_end; k += T) {
        wmma::load_matrix_sync(fa, A + (size_t)row * K + k, K);
        wmma::load_matrix_sync(fb, B + (size_t)k * N + col, N);
        wmma::mma_sync(acc, fa, fb, acc);
    }
}

__global__ void wmma_naive(const half *A, const half *B, float *C, int M, int N, int K)
{
    const int tile_n = blockIdx.x * WARPS_PER_BLOCK + threadIdx.x / 32;
    const int tile_m = blockIdx.y;
    if (tile_n * T >= N) return;

    FragC acc;
    accumulate(acc, A, B, tile_m * T, tile_n * T, 0, K, N, K);
    wmma::store_matrix_sync(C + (size_t)tile_m * T * N + tile_n * T, acc, N, wmma::mem_row_major);
}

__global__ void wmma_splitk_atomic(const half *A, const half *B, float *C, int M, int N, int K, int k_per_split)
{
    __shared__ __align__(32) float buf[WARPS_PER_BLOCK][T * T];
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int tile_n = blockIdx.x * WARPS_PER_BLOCK + warp;
    const int tile_m = blockIdx.y;
    if (tile_n * T >= N) return;   // ブロック全体の同期は使わないので warp 単位で抜けてよい

    const int k_begin = blockIdx.z * k_per_split;
    const int k_end = min(K, k_begin + k_per_split);

    FragC acc;
    accumulate(acc, A, B, tile_m * T, tile_n * T, k_begin, k_end, N, K);

    wmma::store_matrix_sync(buf[warp], acc, T, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < T * T; i += 32) {
        const int r = i / T, c = i % T;
        atomicAdd(&C[(size_t)(tile_m * T + r) * N + tile_n * T + c], buf[warp][i]);
    }
}

__global__ void wmma_splitk_ws(const half *A, const half *B, float *ws, int M, int N, int K, int k_per_split)
{
    const int tile_n = blockIdx.x * WARPS_PER_BLOCK + threadIdx.x / 32;
    const int tile_m = blockIdx.y;
    if (tile_n * T >= N) return;

    const int k_begin = blockIdx.z * k_per_split;
    const int k_end = min(K, k_begin + k_per_split);

    // 範囲が空のときは 0 が書かれる
    FragC acc;
    accumulate(acc, A, B, tile_m * T, tile_n * T, k_begin, k_end, N, K);
    float *dst = ws + (size_t)blockIdx.z * M * N;
    wmma::store_matrix_sync(dst + (size_t)tile_m * T * N + tile_n * T, acc, N, wmma::mem_row_major);
}

__global__ void reduce_ws(const float *ws, float *C, int MN, int splits)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < MN; i += gridDim.x * blockDim.x) {
        float sum = 0.0f;
        for (int s = 0; s < splits; s++) sum += ws[(size_t)s * MN + i];
        C[i] = sum;
    }
}

static float time_ms(const std::function<void()> &f, int iters = 50)
{
    cudaEvent_t s, e;
    CUDA_SAFE_CALL(cudaEventCreate(&s));
    CUDA_SAFE_CALL(cudaEventCreate(&e));
    f();
    CUDA_SAFE_CALL(cudaEventRecord(s));
    for (int i = 0; i < iters; i++) f();
    CUDA_SAFE_CALL(cudaEventRecord(e));
    CUDA_SAFE_CALL(cudaEventSynchronize(e));
    float ms;
    CUDA_SAFE_CALL(cudaEventElapsedTime(&ms, s, e));
    return ms / iters;
}

int main(int argc, char **argv)
{
    const int M = 64, N = 208, K = 8208;
    const int splits = argc > 1 ? atoi(argv[1]) : 12;
    // 分割の幅は 16 の倍数に切り上げる
    const int k_tiles = K / T;
    const int k_per_split = (k_tiles + splits - 1) / splits * T;

    std::mt19937 rng(1);
    std::uniform_real_distribution<float> dist(-1.f, 1.f);
    std::vector<half> hA((size_t)M * K), hB((size_t)K * N);
    for (auto &v : hA) v = __float2half(dist(rng));
    for (auto &v : hB) v = __float2half(dist(rng));

    std::vector<float> ref((size_t)M * N, 0.f), out((size_t)M * N);
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                ref[(size_t)i * N + j] += __half2float(hA[(size_t)i * K + k]) * __half2float(hB[(size_t)k * N + j]);

    half *A, *B;
    float *C, *ws;
    CUDA_SAFE_CALL(cudaMalloc(&A, hA.size() * sizeof(half)));
    CUDA_SAFE_CALL(cudaMalloc(&B, hB.size() * sizeof(half)));
    CUDA_SAFE_CALL(cudaMalloc(&C, out.size() * sizeof(float)));
    CUDA_SAFE_CALL(cudaMalloc(&ws, out.size() * sizeof(float) * splits));
    CUDA_SAFE_CALL(cudaMemcpy(A, hA.data(), hA.size() * sizeof(half), cudaMemcpyHostToDevice));
    CUDA_SAFE_CALL(cudaMemcpy(B, hB.data(), hB.size() * sizeof(half), cudaMemcpyHostToDevice));

    const dim3 block(32 * WARPS_PER_BLOCK);
    const unsigned gx = (N / T + WARPS_PER_BLOCK - 1) / WARPS_PER_BLOCK;
    const dim3 grid1(gx, M / T), gridk(gx, M / T, splits);

    const std::function<void()> variants[] = {
        [&] { wmma_naive<<<grid1, block>>>(A, B, C, M, N, K); },
        [&] {
            cudaMemsetAsync(C, 0, sizeof(float) * M * N);
            wmma_splitk_atomic<<<gridk, block>>>(A, B, C, M, N, K, k_per_split);
        },
        [&] {
            wmma_splitk_ws<<<gridk, block>>>(A, B, ws, M, N, K, k_per_split);
            reduce_ws<<<(M * N + 255) / 256, 256>>>(ws, C, M * N, splits);
        },
    };
    const char *names[] = {"naive", "splitk_atomic", "splitk_workspace"};

    for (int v = 0; v < 3; v++) {
        const float ms = time_ms(variants[v]);
        CUDA_SAFE_CALL(cudaGetLastError());
        CUDA_SAFE_CALL(cudaMemcpy(out.data(), C, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
        float err = 0.f;
        for (size_t i = 0; i < out.size(); i++) err = std::max(err, std::fabs(out[i] - ref[i]));
        printf("%-18s %8.4f ms  %7.2f TFLOPS  max err %g\n", names[v], ms, 2.0 * M * N * K / ms * 1e-9, err);
    }
    return 0;
}
