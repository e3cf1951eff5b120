// Split-K half GEMM for skinny problems (small M, N, long K), atomicAdd reduction in fp32.
#include <cassert>
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

namespace splitk {

constexpr int MMA = 16;
constexpr int CTA_M = 32;
constexpr int CTA_N = 64;
constexpr int CTA_K = 64;
constexpr int NUM_WARPS = (CTA_M / MMA) * (CTA_N / MMA) / 2;   // every warp: 1 x 2 tiles
constexpr int THREADS = 32 * NUM_WARPS;

__host__ __device__ constexpr int cdiv(int a, int b) { return (a + b - 1) / b; }

// C must be zero-filled before the launch.
// blockIdx.z selects a slice [k_begin, k_end) of K; slices are multiples of CTA_K except the last.
__global__ void hgemm_splitk(const __half *A, const __half *B, float *C, int M, int N, int K, int k_per_split)
{
    __shared__ __align__(32) __half sa[CTA_M * (CTA_K + 8)];
    __shared__ __align__(32) __half sb[CTA_K * (CTA_N + 8)];
    __shared__ __align__(32) float sc[CTA_M * CTA_N];

    const int k_begin = blockIdx.z * k_per_split;
    const int k_end = min(K, k_begin + k_per_split);
    const int m0 = blockIdx.y * CTA_M, n0 = blockIdx.x * CTA_N;
    const int warp_id = threadIdx.x / 32;
    const int wm = warp_id / 2, wn = warp_id % 2;

    wmma::fragment<wmma::accumulator, MMA, MMA, MMA, float> acc[2];
    wmma::fill_fragment(acc[0], 0.0f);
    wmma::fill_fragment(acc[1], 0.0f);

    for (int k0 = k_begin; k0 < k_end; k0 += CTA_K) {
        for (int idx = threadIdx.x; idx < CTA_M * CTA_K; idx += THREADS) {
            int r = idx / CTA_K, c = idx % CTA_K;
            sa[r * (CTA_K + 8) + c] =
                (m0 + r < M && k0 + c < k_end) ? A[(size_t)(m0 + r) * K + (k0 + c)] : __half(0.0f);
        }
        for (int idx = threadIdx.x; idx < CTA_K * CTA_N; idx += THREADS) {
            int r = idx / CTA_N, c = idx % CTA_N;
            sb[r * (CTA_N + 8) + c] =
                (k0 + r < k_end && n0 + c < N) ? B[(size_t)(k0 + r) * N + (n0 + c)] : __half(0.0f);
        }
        __syncthreads();

        for (int kk = 0; kk < CTA_K / MMA; ++kk) {
            wmma::fragment<wmma::matrix_a, MMA, MMA, MMA, __half, wmma::row_major> fa;
            wmma::load_matrix_sync(fa, sa + wm * MMA * (CTA_K + 8) + kk * MMA, CTA_K + 8);
            for (int t = 0; t < 2; ++t) {
                wmma::fragment<wmma::matrix_b, MMA, MMA, MMA, __half, wmma::row_major> fb;
                wmma::load_matrix_sync(fb, sb + kk * MMA * (CTA_N + 8) + (wn * 2 + t) * MMA, CTA_N + 8);
                wmma::mma_sync(acc[t], fa, fb, acc[t]);
            }
        }
        __syncthreads();
    }

    for (int t = 0; t < 2; ++t)
        wmma::store_matrix_sync(sc + wm * MMA * CTA_N + (wn * 2 + t) * MMA, acc[t], CTA_N, wmma::mem_row_major);
    __syncthreads();

    for (int idx = threadIdx.x; idx < CTA_M * CTA_N; idx += THREADS) {
        int r = idx / CTA_N, c = idx % CTA_N;
        if (m0 + r < M && n0 + c < N) {
            if (gridDim.z == 1)
                C[(size_t)(m0 + r) * N + n0 + c] = sc[idx];
            else
                atomicAdd(&C[(size_t)(m0 + r) * N + n0 + c], sc[idx]);
        }
    }
}

int choose_splits(int M, int N, int K, int sm_count)
{
    int tiles = cdiv(M, CTA_M) * cdiv(N, CTA_N);
    int splits = 1;
    while (splits < 16 && tiles * splits < sm_count && K / (splits * 2) >= CTA_K) splits *= 2;
    return splits;
}

void gemm(const __half *A, const __half *B, float *C, int M, int N, int K, cudaStream_t stream)
{
    int device = 0, sms = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    const int splits = choose_splits(M, N, K, sms);
    const int k_per_split = cdiv(cdiv(K, splits), CTA_K) * CTA_K;
    cudaMemsetAsync(C, 0, sizeof(float) * M * N, stream);
    dim3 grid(cdiv(N, CTA_N), cdiv(M, CTA_M), cdiv(K, k_per_split));
    hgemm_splitk<<<grid, THREADS, 0, stream>>>(A, B, C, M, N, K, k_per_split);
}

}  // namespace splitk
