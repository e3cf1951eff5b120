// Triangular matrix multiply, C = alpha * op(L) * B, out of place (cuBLAS' trmm with side = left, uplo = lower).
// Row major everywhere. What lies above the diagonal of L is never looked at (callers keep other factors there).
//
//   nvcc -arch=sm_80 -O3 trmm_tf32.cu
//
#include <cuda_runtime.h>
#include <mma.h>

namespace wm = nvcuda::wmma;

constexpr int BM = 64;
constexpr int BN = 64;
constexpr int BK = 16;
constexpr int NT = 128;              // 2 x 2 warps, each 32 x 32
constexpr int LDA_S = BK + 4;
constexpr int LDB_S = BN + 4;
constexpr int LDC_S = BN + 4;

using FragA = wm::fragment<wm::matrix_a, 16, 16, 8, wm::precision::tf32, wm::row_major>;
using FragB = wm::fragment<wm::matrix_b, 16, 16, 8, wm::precision::tf32, wm::row_major>;
using FragC = wm::fragment<wm::accumulator, 16, 16, 8, float>;

// one element of op(L), rows and columns counted in op(L)
template <bool kTrans, bool kUnit>
__device__ __forceinline__ float tri_element(const float* __restrict__ L, int ldl, int i, int k, int m)
{
    if (i >= m || k >= m) return 0.0f;
    if (kUnit && i == k) return 1.0f;
    if (kTrans)
        return k >= i ? L[(size_t)k * ldl + i] : 0.0f;
    return k <= i ? L[(size_t)i * ldl + k] : 0.0f;
}

template <bool kTrans, bool kUnit>
__global__ void __launch_bounds__(NT)
trmm_left_lower(int m, int n, float alpha,
                const float* __restrict__ L, int ldl,
                const float* __restrict__ B, int ldb,
                float* __restrict__ C, int ldc)
{
    // the epilogue's tile takes the place of both operands
    __shared__ __align__(32) float smem[BM * LDC_S];
    float* sA = smem;                       // BM x BK
    float* sB = smem + BM * LDA_S;          // BK x BN
    static_assert(BM * LDA_S + BK * LDB_S <= BM * LDC_S, "operands do not fit");

    const int tid = threadIdx.x;
    const int warp_m = (tid / 32) / 2;
    const int warp_n = (tid / 32) % 2;

    // long rows of blocks first, so that the tail of the grid is short
    const int tile_m = kTrans ? blockIdx.y : gridDim.y - 1 - blockIdx.y;
    const int row0 = tile_m * BM;
    const int col0 = blockIdx.x * BN;

    // op(L) is zero outside of these columns
    const int k_begin = kTrans ? row0 : 0;
    const int k_end = kTrans ? m : min(m, row0 + BM);

    FragC acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            wm::fill_fragment(acc[i][j], 0.0f);

    float regA[BM * BK / NT];
    float regB[BK * BN / NT];

    auto fetch = [&](int k0) {
        #pragma unroll
        for (int s = 0; s < BM * BK / NT; ++s) {
            const int e = tid + s * NT;
            // neighbouring threads read neighbouring words in both cases
            const int r = kTrans ? e % BM : e / BK;
            const int c = kTrans ? e / BM : e % BK;
            regA[s] = tri_element<kTrans, kUnit>(L, ldl, row0 + r, k0 + c, m);
        }
        #pragma unroll
        for (int s = 0; s < BK * BN / NT; ++s) {
            const int e = tid + s * NT;
            const int k = k0 + e / BN;
            const int col = col0 + e % BN;
            regB[s] = (k < m && col < n) ? B[(size_t)k * ldb + col] : 0.0f;
        }
    };

    auto stash = [&]() {
        #pragma unroll
        for (int s = 0; s < BM * BK / NT; ++s) {
            const int e = tid + s * NT;
            const int r = kTrans ? e % BM : e / BK;
            const int c = kTrans ? e / BM : e % BK;
            sA[r * LDA_S + c] = wm::__float_to_tf32(regA[s]);
        }
        #pragma unroll
        for (int s = 0; s < BK * BN / NT; ++s) {
            const int e = tid + s * NT;
            sB[(e / BN) * LDB_S + e % BN] = wm::__float_to_tf32(regB[s]);
        }
    };

    fetch(k_begin);
    for (int k0 = k_begin; k0 < k_end; k0 += BK) {
        stash();
        __syncthreads();
        if (k0 + BK < k_end)
            fetch(k0 + BK);                 // overlaps with the products below

        #pragma unroll
        for (int kk = 0; kk < BK; kk += 8) {
            FragA a[2];
            FragB b[2];
            #pragma unroll
            for (int i = 0; i < 2; ++i)
                wm::load_matrix_sync(a[i], sA + (warp_m * 32 + i * 16) * LDA_S + kk, LDA_S);
            #pragma unroll
            for (int j = 0; j < 2; ++j)
                wm::load_matrix_sync(b[j], sB + kk * LDB_S + warp_n * 32 + j * 16, LDB_S);
            #pragma unroll
            for (int i = 0; i < 2; ++i)
                #pragma unroll
                for (int j = 0; j < 2; ++j)
                    wm::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            for (int e = 0; e < acc[i][j].num_elements; ++e)
                acc[i][j].x[e] *= alpha;
            wm::store_matrix_sync(smem + (warp_m * 32 + i * 16) * LDC_S + warp_n * 32 + j * 16,
                                  acc[i][j], LDC_S, wm::mem_row_major);
        }
    __syncthreads();

    for (int e = tid; e < BM * BN; e += NT) {
        const int r = e / BN, c = e % BN;
        if (row0 + r < m && col0 + c < n)
            C[(size_t)(row0 + r) * ldc + col0 + c] = smem[r * LDC_S + c];
    }
}

void trmm(bool trans, bool unit, int m, int n, float alpha, const float* L, int ldl, const float* B, int ldb,
          float* C, int ldc, cudaStream_t stream)
{
    dim3 grid((n + BN - 1) / BN, (m + BM - 1) / BM);
    if (trans && unit) trmm_left_lower<true, true><<<grid, NT, 0, stream>>>(m, n, alpha, L, ldl, B, ldb, C, ldc);
    else if (trans) trmm_left_lower<true, false><<<grid, NT, 0, stream>>>(m, n, alpha, L, ldl, B, ldb, C, ldc);
    else if (unit) trmm_left_lower<false, true><<<grid, NT, 0, stream>>>(m, n, alpha, L, ldl, B, ldb, C, ldc);
    else trmm_left_lower<false, false><<<grid, NT, 0, stream>>>(m, n, alpha, L, ldl, B, ldb, C, ldc);
}
