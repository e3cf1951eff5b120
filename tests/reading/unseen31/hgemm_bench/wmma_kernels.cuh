#pragma once
// C = A * B, half in, half out, fp32 accumulation, everything row major.
//   A [M, K]   B [K, N]   C [M, N]
//
//   0  ref      one thread per element
//   1  naive    one warp per 16x16 tile, fragments straight from global memory (M, N, K % 16 == 0)
//   2  smem     128x128x32 block tile in shared memory (M, N % 128 == 0, K % 32 == 0)
//   3  async    2 with two buffers and cp.async (sm_80, falls back to plain copies before)

#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <mma.h>

namespace hgemm {

using nvcuda::wmma::accumulator;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::mem_row_major;
using nvcuda::wmma::row_major;
namespace wmma = nvcuda::wmma;

constexpr int WM = 16, WN = 16, WK = 16;

using FragA = fragment<matrix_a, WM, WN, WK, half, row_major>;
using FragB = fragment<matrix_b, WM, WN, WK, half, row_major>;
using FragC = fragment<accumulator, WM, WN, WK, float>;

constexpr int div_up(int a, int b) { return (a + b - 1) / b; }

__global__ void ref_kernel(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C, int M,
                           int N, int K) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += __half2float(A[row * K + k]) * __half2float(B[k * N + col]);
    C[row * N + col] = __float2half(sum);
}

// The layout of the elements in a fragment is unspecified, so the conversion to half goes
// through 16x16 floats of shared memory that belong to this warp alone.
constexpr int STAGE_LD = WN + 4;

__device__ __forceinline__ void store_tile(half *C, int ldc, const FragC &acc, float *stage) {
    const int lane = threadIdx.x % 32;
    wmma::store_matrix_sync(stage, acc, STAGE_LD, mem_row_major);
    __syncwarp();
    const int r = lane / 2, c = (lane % 2) * 8;
    const float *s = stage + r * STAGE_LD + c;
    __align__(16) half2 h[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) h[i] = __floats2half2_rn(s[2 * i], s[2 * i + 1]);
    *reinterpret_cast<uint4 *>(C + r * ldc + c) = *reinterpret_cast<const uint4 *>(h);
    __syncwarp();
}

// ------------------------------------------------------------------------------------ 1
constexpr int NAIVE_WARPS = 4;

__global__ void naive_kernel(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C, int M,
                             int N, int K) {
    __shared__ __align__(32) float stage[NAIVE_WARPS][WM * STAGE_LD];
    const int warp = threadIdx.x / 32;
    const int row = blockIdx.y * WM;
    const int col = (blockIdx.x * NAIVE_WARPS + warp) * WN;
    if (row >= M || col >= N) return;

    FragA a;
    FragB b;
    FragC acc;
    wmma::fill_fragment(acc, 0.f);
    for (int k = 0; k < K; k += WK) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, N);
        wmma::mma_sync(acc, a, b, acc);
    }
    store_tile(C + row * N + col, N, acc, stage[warp]);
}

// ------------------------------------------------------------------------------------ 2, 3
constexpr int BM = 128, BN = 128, BK = 32;
constexpr int WARPS_M = 2, WARPS_N = 4;
constexpr int THREADS = WARPS_M * WARPS_N * 32;
constexpr int WARP_ROWS = BM / WARPS_M;    // 64
constexpr int WARP_COLS = BN / WARPS_N;    // 32
constexpr int FM = WARP_ROWS / WM;         // 4
constexpr int FN = WARP_COLS / WN;         // 2
constexpr int LDA_S = BK + 8, LDB_S = BN + 8;

// one BK deep step of a warp
__device__ __forceinline__ void mma_step(const half *As, const half *Bs, FragC (&acc)[FM][FN], int wrow, int wcol) {
#pragma unroll
    for (int kk = 0; kk < BK; kk += WK) {
        FragA a[FM];
        FragB b[FN];
#pragma unroll
        for (int i = 0; i < FM; ++i) wmma::load_matrix_sync(a[i], As + (wrow + i * WM) * LDA_S + kk, LDA_S);
#pragma unroll
        for (int j = 0; j < FN; ++j) wmma::load_matrix_sync(b[j], Bs + kk * LDB_S + wcol + j * WN, LDB_S);
#pragma unroll
        for (int i = 0; i < FM; ++i)
#pragma unroll
            for (int j = 0; j < FN; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
}

__global__ void __launch_bounds__(THREADS)
    smem_kernel(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C, int M, int N, int K) {
    __shared__ __align__(32) half As[BM * LDA_S];
    __shared__ __align__(32) half Bs[BK * LDB_S];
    __shared__ __align__(32) float stage[THREADS / 32][WM * STAGE_LD];

    const int tid = threadIdx.x, warp = tid / 32;
    const int wrow = (warp / WARPS_N) * WARP_ROWS, wcol = (warp % WARPS_N) * WARP_COLS;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;

    FragC acc[FM][FN];
#pragma unroll
    for (int i = 0; i < FM; ++i)
#pragma unroll
        for (int j = 0; j < FN; ++j) wmma::fill_fragment(acc[i][j], 0.f);

    for (int k0 = 0; k0 < K; k0 += BK) {
        // 8 halves per access: 4 accesses for a row of A, 16 for one of B
#pragma unroll
        for (int i = tid; i < BM * BK / 8; i += THREADS) {
            const int r = i / (BK / 8), c = i % (BK / 8) * 8;
            *reinterpret_cast<uint4 *>(&As[r * LDA_S + c]) = *reinterpret_cast<const uint4 *>(&A[r * K + k0 + c]);
        }
#pragma unroll
        for (int i = tid; i < BK * BN / 8; i += THREADS) {
            const int r = i / (BN / 8), c = i % (BN / 8) * 8;
            *reinterpret_cast<uint4 *>(&Bs[r * LDB_S + c]) = *reinterpret_cast<const uint4 *>(&B[(k0 + r) * N + c]);
        }
        __syncthreads();
        mma_step(As, Bs, acc, wrow, wcol);
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < FM; ++i)
#pragma unroll
        for (int j = 0; j < FN; ++j)
            store_tile(C + (wrow + i * WM) * N + wcol + j * WN, N, acc[i][j], stage[warp]);
}

__global__ void __launch_bounds__(THREADS)
    async_kernel(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C, int M, int N, int K) {
    __shared__ __align__(32) half As[2][BM * LDA_S];
    __shared__ __align__(32) half Bs[2][BK * LDB_S];
    __shared__ __align__(32) float stage[THREADS / 32][WM * STAGE_LD];

    const int tid = threadIdx.x, warp = tid / 32;
    const int wrow = (warp / WARPS_N) * WARP_ROWS, wcol = (warp % WARPS_N) * WARP_COLS;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;

    auto fetch = [&](int buf, int k0) {
#pragma unroll
        for (int i = tid; i < BM * BK / 8; i += THREADS) {
            const int r = i / (BK / 8), c = i % (BK / 8) * 8;
            __pipeline_memcpy_async(&As[buf][r * LDA_S + c], &A[r * K + k0 + c], 16);
        }
#pragma unroll
        for (int i = tid; i < BK * BN / 8; i += THREADS) {
            const int r = i / (BN / 8), c = i % (BN / 8) * 8;
            __pipeline_memcpy_async(&Bs[buf][r * LDB_S + c], &B[(k0 + r) * N + c], 16);
        }
        __pipeline_commit();
    };

    FragC acc[FM][FN];
#pragma unroll
    for (int i = 0; i < FM; ++i)
#pragma unroll
        for (int j = 0; j < FN; ++j) wmma::fill_fragment(acc[i][j], 0.f);

    fetch(0, 0);
    const int steps = K / BK;
    for (int s = 0; s < steps; ++s) {
        // my copies of step s are done, and after the barrier everybody's; the barrier also says
        // that all warps are through with step s - 1, whose buffer is filled next
        __pipeline_wait_prior(0);
        __syncthreads();
        if (s + 1 < steps) fetch((s + 1) % 2, (s + 1) * BK);
        mma_step(As[s % 2], Bs[s % 2], acc, wrow, wcol);
    }

#pragma unroll
    for (int i = 0; i < FM; ++i)
#pragma unroll
        for (int j = 0; j < FN; ++j)
            store_tile(C + (wrow + i * WM) * N + wcol + j * WN, N, acc[i][j], stage[warp]);
}

inline void launch(int which, const half *A, const half *B, half *C, int M, int N, int K, cudaStream_t s = 0) {
    switch (which) {
    case 0: ref_kernel<<<dim3(div_up(N, 32), div_up(M, 8)), dim3(32, 8), 0, s>>>(A, B, C, M, N, K); break;
    case 1:
        naive_kernel<<<dim3(div_up(N, WN * NAIVE_WARPS), div_up(M, WM)), NAIVE_WARPS * 32, 0, s>>>(A, B, C, M, N, K);
        break;
    case 2: smem_kernel<<<dim3(N / BN, M / BM), THREADS, 0, s>>>(A, B, C, M, N, K); break;
    case 3: async_kernel<<<dim3(N / BN, M / BM), THREADS, 0, s>>>(A, B, C, M, N, K); break;
    }
}

inline const char *name(int which) {
    static const char *names[] = {"ref", "wmma_naive", "wmma_smem", "wmma_async"};
    return names[which];
}

inline bool supported(int which, int M, int N, int K) {
    if (which == 0) return true;
    if (which == 1) return M % 16 == 0 && N % 16 == 0 && K % 16 == 0;
    return M % BM == 0 && N % BN == 0 && K % BK == 0;
}

}  // namespace hgemm
