// Split-K HGEMM: C = A * B for small M, N and large K.
//
// Each z-slice of the grid computes partial sums over its share of K into a float workspace
// [split_k][M][N]; a second kernel adds the slices up and converts to half.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace wmma = nvcuda::wmma;

static inline int ceilDiv(int a, int b) { return (a + b - 1) / b; }

template <int BM, int BN, int BK>
__global__ void gemmSplitK(const half* __restrict__ A, const half* __restrict__ B,
                           float* __restrict__ workspace, int M, int N, int K, int kPerSplit) {
    constexpr int WARPS_N = BN / 32;
    constexpr int THREADS = (BM / 32) * WARPS_N * 32;
    __shared__ __align__(32) half As[BM][BK + 8];
    __shared__ __align__(32) half Bs[BK][BN + 8];

    const int bm = blockIdx.y * BM, bn = blockIdx.x * BN;
    const int kBegin = blockIdx.z * kPerSplit;
    const int kEnd = min(K, kBegin + kPerSplit);
    const int warp = threadIdx.x / 32;
    const int wm = warp / WARPS_N * 32, wn = warp % WARPS_N * 32;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) wmma::fill_fragment(acc[i][j], 0.0f);

    for (int k0 = kBegin; k0 < kEnd; k0 += BK) {
        for (int i = threadIdx.x * 8; i < BM * BK; i += THREADS * 8) {
            int r = i / BK, c = i % BK;
            *reinterpret_cast<float4*>(&As[r][c]) =
                *reinterpret_cast<const float4*>(&A[(size_t)(bm + r) * K + k0 + c]);
        }
        for (int i = threadIdx.x * 8; i < BK * BN; i += THREADS * 8) {
            int r = i / BN, c = i % BN;
            *reinterpret_cast<float4*>(&Bs[r][c]) =
                *reinterpret_cast<const float4*>(&B[(size_t)(k0 + r) * N + bn + c]);
        }
        __syncthreads();
        for (int k = 0; k < BK; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
            for (int i = 0; i < 2; i++) wmma::load_matrix_sync(a[i], &As[wm + i * 16][k], BK + 8);
            for (int j = 0; j < 2; j++) wmma::load_matrix_sync(b[j], &Bs[k][wn + j * 16], BN + 8);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    float* slice = workspace + (size_t)blockIdx.z * M * N;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(slice + (size_t)(bm + wm + i * 16) * N + bn + wn + j * 16, acc[i][j], N,
                                    wmma::mem_row_major);
}

__global__ void reduceSplitK(const float* __restrict__ workspace, half* __restrict__ C, int MN, int splits) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= MN) return;
    float sum = 0.0f;
    for (int s = 0; s < splits; s++) sum += workspace[(size_t)s * MN + idx];
    C[idx] = __float2half(sum);
}

// M, N multiples of 64, K of 32; workspace holds splits * M * N floats
void splitKGemm(const half* A, const half* B, half* C, float* workspace, int M, int N, int K, int splits,
                cudaStream_t stream = 0) {
    constexpr int BM = 64, BN = 64, BK = 32;
    // the share of each slice is a whole number of k-tiles, the last one may be smaller
    int kPerSplit = ceilDiv(ceilDiv(K, BK), splits) * BK;
    dim3 grid(N / BN, M / BM, splits);
    gemmSplitK<BM, BN, BK><<<grid, (BM / 32) * (BN / 32) * 32, 0, stream>>>(A, B, workspace, M, N, K, kPerSplit);
    reduceSplitK<<<ceilDiv(M * N, 256), 256, 0, stream>>>(workspace, C, M * N, splits);
}

int main(int argc, char** argv) {
    int M = 64, N = 128, K = 1024, splits = 5;
    if (argc > 3) { M = atoi(argv[1]); N = atoi(argv[2]); K = atoi(argv[3]); }
    if (argc > 4) splits = atoi(argv[4]);

    std::vector<half> A((size_t)M * K), B((size_t)K * N), C((size_t)M * N);
    for (auto& x : A) x = __float2half(rand() / (float)RAND_MAX * 2 - 1);
    for (auto& x : B) x = __float2half(rand() / (float)RAND_MAX * 2 - 1);

    half *dA, *dB, *dC;
    float* dWorkspace;
    cudaMalloc(&dA, A.size() * sizeof(half));
    cudaMalloc(&dB, B.size() * sizeof(half));
    cudaMalloc(&dC, C.size() * sizeof(half));
    cudaMalloc(&dWorkspace, (size_t)splits * M * N * sizeof(float));
    cudaMemcpy(dA, A.data(), A.size() * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(dB, B.data(), B.size() * sizeof(half), cudaMemcpyHostToDevice);

    splitKGemm(dA, dB, dC, dWorkspace, M, N, K, splits);
    cudaError_t err = cudaDeviceSynchronize();
    if (err != cudaSuccess) {
        printf("kernel failed: %s\n", cudaGetErrorString(err));
        return 1;
    }
    cudaMemcpy(C.data(), dC, C.size() * sizeof(half), cudaMemcpyDeviceToHost);

    float maxErr = 0.0f;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double ref = 0.0;
            for (int k = 0; k < K; k++) ref += (double)__half2float(A[(size_t)i * K + k]) * __half2float(B[(size_t)k * N + j]);
            float err = (float)(std::fabs(ref - __half2float(C[(size_t)i * N + j])) / (1.0 + std::fabs(ref)));
            if (!(err <= maxErr)) maxErr = err;
        }
    printf("M=%d N=%d K=%d splits=%d max relative error %.5f %s\n", M, N, K, splits, maxErr,
           maxErr < 2e-3f ? "ok" : "MISMATCH");

    cudaFree(dA);
    cudaFree(dB);
    cudaFree(dC);
    cudaFree(dWorkspace);
    return maxErr < 2e-3f ? 0 : 1;
}
