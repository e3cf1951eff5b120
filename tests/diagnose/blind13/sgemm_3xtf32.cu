// Single-precision GEMM on TF32 tensor cores with error compensation ("3xTF32"):
//
//     a = a_hi + a_lo,  b = b_hi + b_lo     (each part a TF32 number)
//     a * b  ~  a_hi * b_hi + (a_hi * b_lo + a_lo * b_hi)
//
// The small products have an accumulator of their own, added at the end.
//     C = alpha * A * B + beta * C,  row-major, any sizes
#include <cuda_runtime.h>
#include <mma.h>

namespace wm = nvcuda::wmma;

template <int BM_, int BN_, int BK_, int WM_, int WN_>
struct TileShape {
    static constexpr int BM = BM_, BN = BN_, BK = BK_, WM = WM_, WN = WN_;
    static constexpr int warps_n = BN / WN;
    static constexpr int threads = (BM / WM) * (BN / WN) * 32;
    static constexpr int lda = BK + 4, ldb = BN + 4, ldc = BN + 4;
};

using Shape = TileShape<64, 32, 16, 32, 16>;

template <class Frag>
__device__ void split(const Frag &value, Frag &hi, Frag &lo) {
#pragma unroll
    for (int t = 0; t < value.num_elements; ++t) {
        hi.x[t] = wm::__float_to_tf32(value.x[t]);
        lo.x[t] = wm::__float_to_tf32(value.x[t] - hi.x[t]);
    }
}

template <class S>
__global__ void sgemm_3xtf32(int m, int n, int k, float alpha, const float *__restrict__ A, int lda,
                             const float *__restrict__ B, int ldb, float beta, float *__restrict__ C, int ldc) {
    __shared__ __align__(32) float as[S::BM * S::lda];
    __shared__ __align__(32) float bs[S::BK * S::ldb];
    __shared__ __align__(32) float cs[S::BM * S::ldc];

    const int warp = threadIdx.x / 32;
    const int wm0 = warp / S::warps_n * S::WM;
    const int wn0 = warp % S::warps_n * S::WN;
    const int bm0 = blockIdx.y * S::BM, bn0 = blockIdx.x * S::BN;

    using FragA = wm::fragment<wm::matrix_a, 16, 16, 8, wm::precision::tf32, wm::row_major>;
    using FragB = wm::fragment<wm::matrix_b, 16, 16, 8, wm::precision::tf32, wm::row_major>;
    using FragC = wm::fragment<wm::accumulator, 16, 16, 8, float>;

    constexpr int MI = S::WM / 16;
    FragC big[MI], small[MI];
    for (int i = 0; i < MI; ++i) {
        wm::fill_fragment(big[i], 0.f);
        wm::fill_fragment(small[i], 0.f);
    }

    for (int k0 = 0; k0 < k; k0 += S::BK) {
        for (int e = threadIdx.x; e < S::BM * S::BK; e += S::threads) {
            const int r = e / S::BK, c = e % S::BK;
            const bool inside = bm0 + r < m && k0 + c < k;
            as[r * S::lda + c] = inside ? A[(size_t)(bm0 + r) * lda + k0 + c] : 0.f;
        }
        for (int e = threadIdx.x; e < S::BK * S::BN; e += S::threads) {
            const int r = e / S::BN, c = e % S::BN;
            const bool inside = k0 + r < k && bn0 + c < n;
            bs[r * S::ldb + c] = inside ? B[(size_t)(k0 + r) * ldb + bn0 + c] : 0.f;
        }
        __syncthreads();

        for (int kk = 0; kk < S::BK; kk += 8) {
            FragB b, b_hi, b_lo;
            wm::load_matrix_sync(b, bs + kk * S::ldb + wn0, S::ldb);
            split(b, b_hi, b_lo);
            for (int i = 0; i < MI; ++i) {
                FragA a, a_hi, a_lo;
                wm::load_matrix_sync(a, as + (wm0 + i * 16) * S::lda + kk, S::lda);
                split(a, a_hi, a_lo);
                wm::mma_sync(small[i], a_lo, b_hi, small[i]);
                wm::mma_sync(small[i], a_hi, b_lo, small[i]);
                wm::mma_sync(big[i], a_hi, b_hi, big[i]);
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < MI; ++i) {
        for (int t = 0; t < big[i].num_elements; ++t) big[i].x[t] += small[i].x[t];
        wm::store_matrix_sync(cs + (wm0 + i * 16) * S::ldc + wn0, big[i], S::ldc, wm::mem_row_major);
    }
    __syncthreads();

    for (int e = threadIdx.x; e < S::BM * S::BN; e += S::threads) {
        const int r = e / S::BN, c = e % S::BN;
        if (bm0 + r < m && bn0 + c < n) {
            float &out = C[(size_t)(bm0 + r) * ldc + bn0 + c];
            out = alpha * cs[r * S::ldc + c] + beta * out;
        }
    }
}

template __global__ void sgemm_3xtf32<Shape>(int, int, int, float, const float *, int, const float *, int, float,
                                             float *, int);
