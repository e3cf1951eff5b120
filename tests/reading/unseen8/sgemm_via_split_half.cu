// fp32 matrices on half tensor cores: each value is cut into a high and a low half, three products make up for the loss.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using nvcuda::wmma::mem_row_major;

namespace kernels {

template <int BM, int BN, int BK>
class SplitTile {
  public:
    __device__ static void load(const float* src, int ld, int rows, int cols, half* hi, half* lo, int r_max, int c_max) {
        for (int i = threadIdx.x; i < rows * cols; i += blockDim.x) {
            const int r = i / cols, c = i % cols;
            const float v = (r < r_max && c < c_max) ? src[(size_t)r * ld + c] : 0.f;
            const half h = __float2half_rn(v);
            hi[i] = h;
            lo[i] = __float2half_rn((v - __half2float(h)) * 2048.f);
        }
    }
};

template <int BM, int BN, int BK>
__global__ void sgemm_split_half(int M, int N, int K, float alpha, const float* A, const float* B, float beta,
                                 float* C) {
    namespace w = nvcuda::wmma;
    __shared__ half a_hi[BM * BK], a_lo[BM * BK], b_hi[BK * BN], b_lo[BK * BN];
    __shared__ float out[BM * BN];
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int wr = warp / (BN / 16) * 16, wc = warp % (BN / 16) * 16;

    w::fragment<w::accumulator, 16, 16, 16, float> big, small;
    w::fill_fragment(big, 0.f);
    w::fill_fragment(small, 0.f);
    for (int k0 = 0; k0 < K; k0 += BK) {
        SplitTile<BM, BN, BK>::load(A + (size_t)m0 * K + k0, K, BM, BK, a_hi, a_lo, M - m0, K - k0);
        SplitTile<BM, BN, BK>::load(B + (size_t)k0 * N + n0, N, BK, BN, b_hi, b_lo, K - k0, N - n0);
        __syncthreads();
        for (int kk = 0; kk < BK; kk += 16) {
            w::fragment<w::matrix_a, 16, 16, 16, half, w::row_major> ah, al;
            w::fragment<w::matrix_b, 16, 16, 16, half, w::row_major> bh, bl;
            w::load_matrix_sync(ah, a_hi + wr * BK + kk, BK);
            w::load_matrix_sync(al, a_lo + wr * BK + kk, BK);
            w::load_matrix_sync(bh, b_hi + kk * BN + wc, BN);
            w::load_matrix_sync(bl, b_lo + kk * BN + wc, BN);
            w::mma_sync(big, ah, bh, big);
            w::mma_sync(small, ah, bl, small);
            w::mma_sync(small, al, bh, small);
        }
        __syncthreads();
    }
    for (int i = 0; i < big.num_elements; ++i) big.x[i] += small.x[i] * (1.f / 2048.f);
    w::store_matrix_sync(out + wr * BN + wc, big, BN, mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < BM * BN; i += blockDim.x) {
        const int r = m0 + i / BN, c = n0 + i % BN;
        if (r < M && c < N) C[(size_t)r * N + c] = alpha * out[i] + beta * C[(size_t)r * N + c];
    }
}

void run_sgemm_split_half(int M, int N, int K, float alpha, float* A, float* B, float beta, float* C) {
    constexpr int BM = 32, BN = 64, BK = 32;
    dim3 gridDim((N + BN - 1) / BN, (M + BM - 1) / BM);
    dim3 blockDim(BM / 16 * BN / 16 * 32);
    sgemm_split_half<BM, BN, BK><<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
}

}  // namespace kernels
