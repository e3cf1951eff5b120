#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_fp16.h>
#include <mma.h>

// y = x W^T + s * (x A^T) B^T        LoRA linear, unmerged weights, inference
//   x [M, K]   W [N, K]   A [R, K]   B [N, R]     R = 16
//
// x A^T (M x 16) is one extra tile column per block: it rides along in the main
// loop, is rounded to fp16 through shared memory and multiplied by B at the end.

namespace lora {

using namespace nvcuda;

constexpr int RANK = 16;
constexpr int BM = 64, BN = 64, BK = 32;
constexpr int LD = BK + 8;
constexpr int THREADS = (BM / 16) * 32;

typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> frag_a;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> frag_bt;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> frag_c;

template <int ROWS>
__device__ void stage(__half (*dst)[LD], const __half *src, int row0, int nrows, int k0, int K) {
    for (int i = threadIdx.x; i < ROWS * BK; i += THREADS) {
        int r = i / BK, c = i % BK;
        dst[r][c] = (row0 + r < nrows && k0 + c < K) ? src[(size_t)(row0 + r) * K + k0 + c] : __half(0.f);
    }
}

__global__ void lora_linear_kernel(const __half *x, const __half *W, const __half *A, const __half *B, __half *y,
                                   float s, int M, int N, int K) {
    __shared__ __align__(32) __half sx[BM][LD];
    __shared__ __align__(32) __half sw[BN][LD];
    __shared__ __align__(32) __half sa[RANK][LD];
    __shared__ __align__(32) __half sxa[BM][RANK + 8];
    __shared__ __align__(32) __half sb[BN][RANK + 8];
    __shared__ __align__(32) float so[BM][BN + 4];

    int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    frag_c acc[BN / 16], acc_xa;
    for (auto &f : acc) wmma::fill_fragment(f, 0.f);
    wmma::fill_fragment(acc_xa, 0.f);

    for (int k0 = 0; k0 < K; k0 += BK) {
        stage<BM>(sx, x, m0, M, k0, K);
        stage<BN>(sw, W, n0, N, k0, K);
        stage<RANK>(sa, A, 0, RANK, k0, K);
        __syncthreads();
        for (int kk = 0; kk < BK; kk += 16) {
            frag_a fx;
            frag_bt fw;
            wmma::load_matrix_sync(fx, &sx[warp * 16][kk], LD);
            wmma::load_matrix_sync(fw, &sa[0][kk], LD);
            wmma::mma_sync(acc_xa, fx, fw, acc_xa);
            for (int j = 0; j < BN / 16; ++j) {
                wmma::load_matrix_sync(fw, &sw[j * 16][kk], LD);
                wmma::mma_sync(acc[j], fx, fw, acc[j]);
            }
        }
        __syncthreads();
    }

    // second product, K = RANK
    wmma::store_matrix_sync(&so[warp * 16][0], acc_xa, BN + 4, wmma::mem_row_major);
    for (int i = threadIdx.x; i < BN * RANK; i += THREADS) {
        int r = i / RANK, c = i % RANK;
        sb[r][c] = n0 + r < N ? B[(size_t)(n0 + r) * RANK + c] : __half(0.f);
    }
    __syncwarp();
    for (int i = lane; i < 16 * RANK; i += 32) {
        int r = warp * 16 + i / RANK, c = i % RANK;
        sxa[r][c] = __float2half(s * so[r][c]);
    }
    __syncthreads();
    frag_a fxa;
    wmma::load_matrix_sync(fxa, &sxa[warp * 16][0], RANK + 8);
    for (int j = 0; j < BN / 16; ++j) {
        frag_bt fb;
        wmma::load_matrix_sync(fb, &sb[j * 16][0], RANK + 8);
        wmma::mma_sync(acc[j], fxa, fb, acc[j]);
        wmma::store_matrix_sync(&so[warp * 16][j * 16], acc[j], BN + 4, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BM * BN; i += THREADS) {
        int r = i / BN, c = i % BN;
        if (m0 + r < M && n0 + c < N) y[(size_t)(m0 + r) * N + n0 + c] = __float2half(so[r][c]);
    }
}

}  // namespace lora

at::Tensor lora_linear(at::Tensor x, at::Tensor W, at::Tensor A, at::Tensor B, double scaling) {
    TORCH_CHECK(A.size(0) == lora::RANK && B.size(1) == lora::RANK, "only rank ", lora::RANK);
    auto M = x.size(0), K = x.size(1), N = W.size(0);
    auto y = at::empty({M, N}, x.options());
    dim3 grid(at::ceil_div<int64_t>(N, lora::BN), at::ceil_div<int64_t>(M, lora::BM));
    lora::lora_linear_kernel<<<grid, lora::THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(
        (const __half *)x.data_ptr(), (const __half *)W.data_ptr(), (const __half *)A.data_ptr(),
        (const __half *)B.data_ptr(), (__half *)y.data_ptr(), (float)scaling, (int)M, (int)N, (int)K);
    return y;
}

TORCH_LIBRARY_FRAGMENT(lora, m) { m.def("linear", lora_linear); }
