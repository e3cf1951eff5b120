// C[b] += A[b] * B[b] for many matrices of at most 32 x 32: one warp per matrix, no block-wide barriers.
#include <cuda_bf16.h>
#include <mma.h>

namespace small {

using bf16 = __nv_bfloat16;
namespace wmma = nvcuda::wmma;

template <int kMax, int kWarps>
struct Smem {
    static constexpr int kLdOperand = kMax + 8;
    static constexpr int kLdResult = kMax + 4;
    alignas(32) bf16 a[kWarps][kMax * kLdOperand];
    alignas(32) bf16 b[kWarps][kMax * kLdOperand];
    alignas(32) float c[kWarps][kMax * kLdResult];
};

/// Copies a rows x cols matrix into the corner of a kMax x kMax tile, zeros elsewhere.
template <int kMax, int kLd>
__device__ __forceinline__ void fill_tile(bf16 *tile, const bf16 *src, int rows, int cols, int lane) {
    for (int r = 0; r < kMax; ++r) {
        for (int c = lane; c < kMax; c += 32) {
            bf16 v = __float2bfloat16(0.f);
            if (r < rows && c < cols) v = src[r * cols + c];
            tile[r * kLd + c] = v;
        }
    }
}

template <int kMax, int kWarps>
__global__ void batched_gemm_small(const bf16 *__restrict__ A, const bf16 *__restrict__ B, float *__restrict__ C,
                                   int batch, int m, int n, int k) {
    using S = Smem<kMax, kWarps>;
    __shared__ S smem;

    const int warp = threadIdx.y;
    const int lane = threadIdx.x;
    const int index = blockIdx.x * kWarps + warp;
    if (index >= batch) return;

    bf16 *a_tile = smem.a[warp];
    bf16 *b_tile = smem.b[warp];
    float *c_tile = smem.c[warp];
    float *c_out = C + (size_t)index * m * n;

    fill_tile<kMax, S::kLdOperand>(a_tile, A + (size_t)index * m * k, m, k, lane);
    fill_tile<kMax, S::kLdOperand>(b_tile, B + (size_t)index * k * n, k, n, lane);
    for (int i = lane; i < kMax * kMax; i += 32) {
        const int r = i / kMax, c = i % kMax;
        c_tile[r * S::kLdResult + c] = r < m && c < n ? c_out[r * n + c] : 0.f;
    }
    __syncwarp();

    // tiles that lie wholly outside are not computed
    for (int i = 0; i < m; i += 16) {
        for (int j = 0; j < n; j += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::load_matrix_sync(acc, c_tile + i * S::kLdResult + j, S::kLdResult, wmma::mem_row_major);
            for (int p = 0; p < k; p += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fa;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> fb;
                wmma::load_matrix_sync(fa, a_tile + i * S::kLdOperand + p, S::kLdOperand);
                wmma::load_matrix_sync(fb, b_tile + p * S::kLdOperand + j, S::kLdOperand);
                wmma::mma_sync(acc, fa, fb, acc);
            }
            wmma::store_matrix_sync(c_tile + i * S::kLdResult + j, acc, S::kLdResult, wmma::mem_row_major);
        }
    }
    __syncwarp();

    for (int i = lane; i < m * n; i += 32) {
        const int r = i / n, c = i % n;
        c_out[i] = c_tile[r * S::kLdResult + c];
    }
}

}  // namespace small

template __global__ void small::batched_gemm_small<32, 4>(const small::bf16 *, const small::bf16 *, float *, int, int, int, int);
