// gemm: C = alpha A B + beta C by WMMA, for five element types.
//
//   gemm_wmma<F16>    half A, B, C;  f32 accumulation       m16n16k16   alpha, beta float
//   gemm_wmma<BF16>   bfloat16 A, B, C;  f32 accumulation   m16n16k16   alpha, beta float
//   gemm_wmma<TF32>   float A, B, C;  A and B rounded to tf32 (nearest, ties away)   m16n16k8   alpha, beta float
//   gemm_wmma<S8>     signed char A, B;  int C, exact       m16n16k16   alpha, beta int
//   gemm_wmma<F64>    double A, B, C                        m8n8k4      alpha, beta double
//
// A template: instantiate what you need, as kernel.toml and its neighbours do by name.
// Row-major A [m][k], B [k][n], C [m][n], all contiguous; any m, n >= 1, k >= 0. With beta = 0, C is not read.
// Launch: grid (ceil(n / 64), ceil(m / 64)), block 128, static shared memory only.
//
// Four warps as 2 x 2, each with a 32 x 32 part of the 64 x 64 tile. Edges go through shared memory: what lies outside
// A or B is staged as zero, and each fragment of C passes through a patch of its warp, from which the lanes store
// only what exists.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int BLOCK_M = 64;
constexpr int BLOCK_N = 64;
constexpr int WARP_M = 32;
constexpr int WARP_N = 32;
constexpr int WARPS = 4;
constexpr int THREADS = WARPS * 32;

// Element is what a fragment is declared with, Input and Output what memory holds, BLOCK_K the depth of a staged tile.
struct F16 {
    using Input = half;
    using Element = half;
    using Accumulator = float;
    using Output = half;
    using Scalar = float;
    static constexpr int M = 16, N = 16, K = 16, BLOCK_K = 32;
    static __device__ Input zero() { return __float2half(0.0f); }
    static __device__ Input stage(Input x) { return x; }
    static __device__ Scalar widen(Output x) { return __half2float(x); }
    static __device__ Output narrow(Scalar x) { return __float2half(x); }
};

struct BF16 {
    using Input = __nv_bfloat16;
    using Element = __nv_bfloat16;
    using Accumulator = float;
    using Output = __nv_bfloat16;
    using Scalar = float;
    static constexpr int M = 16, N = 16, K = 16, BLOCK_K = 32;
    static __device__ Input zero() { return __float2bfloat16(0.0f); }
    static __device__ Input stage(Input x) { return x; }
    static __device__ Scalar widen(Output x) { return __bfloat162float(x); }
    static __device__ Output narrow(Scalar x) { return __float2bfloat16(x); }
};

struct TF32 {
    using Input = float;
    using Element = wmma::precision::tf32;
    using Accumulator = float;
    using Output = float;
    using Scalar = float;
    static constexpr int M = 16, N = 16, K = 8, BLOCK_K = 32;
    static __device__ Input zero() { return 0.0f; }
    static __device__ Input stage(Input x) { return wmma::__float_to_tf32(x); }
    static __device__ Scalar widen(Output x) { return x; }
    static __device__ Output narrow(Scalar x) { return x; }
};

struct S8 {
    using Input = signed char;
    using Element = signed char;
    using Accumulator = int;
    using Output = int;
    using Scalar = int;
    static constexpr int M = 16, N = 16, K = 16, BLOCK_K = 64;
    static __device__ Input zero() { return 0; }
    static __device__ Input stage(Input x) { return x; }
    static __device__ Scalar widen(Output x) { return x; }
    static __device__ Output narrow(Scalar x) { return x; }
};

struct F64 {
    using Input = double;
    using Element = double;
    using Accumulator = double;
    using Output = double;
    using Scalar = double;
    static constexpr int M = 8, N = 8, K = 4, BLOCK_K = 16;
    static __device__ Input zero() { return 0.0; }
    static __device__ Input stage(Input x) { return x; }
    static __device__ Scalar widen(Output x) { return x; }
    static __device__ Output narrow(Scalar x) { return x; }
};

template <class T>
__global__ void __launch_bounds__(THREADS)
    gemm_wmma(const typename T::Input* __restrict__ a, const typename T::Input* __restrict__ b,
              typename T::Output* __restrict__ c, int m, int n, int k, typename T::Scalar alpha,
              typename T::Scalar beta) {
    using Input = typename T::Input;
    using FragmentA = wmma::fragment<wmma::matrix_a, T::M, T::N, T::K, typename T::Element, wmma::row_major>;
    using FragmentB = wmma::fragment<wmma::matrix_b, T::M, T::N, T::K, typename T::Element, wmma::row_major>;
    using FragmentC = wmma::fragment<wmma::accumulator, T::M, T::N, T::K, typename T::Accumulator>;

    // Panels one fragment wide. In a plain [64][BLOCK_K] tile of bytes the second fragment would start 16 bytes into
    // the row; wmma wants 32-byte alignment. A row of a panel has 16 spare bytes against bank conflicts.
    constexpr int SPARE = 16 / sizeof(Input);
    constexpr int LD_A = T::K + SPARE;
    constexpr int LD_B = T::N + SPARE;
    constexpr int LD_C = T::N + 16 / sizeof(typename T::Accumulator);
    constexpr int PANEL_A = BLOCK_M * LD_A;
    constexpr int PANEL_B = T::BLOCK_K * LD_B;
    static_assert(PANEL_A * sizeof(Input) % 32 == 0 && PANEL_B * sizeof(Input) % 32 == 0, "panels must stay aligned");
    __shared__ __align__(32) Input sA[T::BLOCK_K / T::K * PANEL_A];
    __shared__ __align__(32) Input sB[BLOCK_N / T::N * PANEL_B];
    __shared__ __align__(32) typename T::Accumulator sC[WARPS][T::M * LD_C];

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int warp_row = warp / 2 * WARP_M;
    const int warp_col = warp % 2 * WARP_N;
    const int block_row = blockIdx.y * BLOCK_M;
    const int block_col = blockIdx.x * BLOCK_N;

    FragmentC acc[WARP_M / T::M][WARP_N / T::N];
#pragma unroll
    for (int i = 0; i < WARP_M / T::M; ++i) {
#pragma unroll
        for (int j = 0; j < WARP_N / T::N; ++j) {
            wmma::fill_fragment(acc[i][j], static_cast<typename T::Accumulator>(0));
        }
    }

    for (int first_k = 0; first_k < k; first_k += T::BLOCK_K) {
        for (int i = threadIdx.x; i < BLOCK_M * T::BLOCK_K; i += THREADS) {
            const int row = i / T::BLOCK_K;
            const int col = i % T::BLOCK_K;
            const bool inside = block_row + row < m && first_k + col < k;
            sA[col / T::K * PANEL_A + row * LD_A + col % T::K] =
                inside ? T::stage(a[static_cast<size_t>(block_row + row) * k + first_k + col]) : T::zero();
        }
        for (int i = threadIdx.x; i < T::BLOCK_K * BLOCK_N; i += THREADS) {
            const int row = i / BLOCK_N;
            const int col = i % BLOCK_N;
            const bool inside = first_k + row < k && block_col + col < n;
            sB[col / T::N * PANEL_B + row * LD_B + col % T::N] =
                inside ? T::stage(b[static_cast<size_t>(first_k + row) * n + block_col + col]) : T::zero();
        }
        __syncthreads();

        for (int kk = 0; kk < T::BLOCK_K / T::K; ++kk) {
            FragmentA fa[WARP_M / T::M];
            FragmentB fb[WARP_N / T::N];
#pragma unroll
            for (int i = 0; i < WARP_M / T::M; ++i) {
                wmma::load_matrix_sync(fa[i], sA + kk * PANEL_A + (warp_row + i * T::M) * LD_A, LD_A);
            }
#pragma unroll
            for (int j = 0; j < WARP_N / T::N; ++j) {
                wmma::load_matrix_sync(fb[j], sB + (warp_col / T::N + j) * PANEL_B + kk * T::K * LD_B, LD_B);
            }
#pragma unroll
            for (int i = 0; i < WARP_M / T::M; ++i) {
#pragma unroll
                for (int j = 0; j < WARP_N / T::N; ++j) {
                    wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < WARP_M / T::M; ++i) {
#pragma unroll
        for (int j = 0; j < WARP_N / T::N; ++j) {
            wmma::store_matrix_sync(sC[warp], acc[i][j], LD_C, wmma::mem_row_major);
            __syncwarp();
            for (int e = lane; e < T::M * T::N; e += 32) {
                const int row = block_row + warp_row + i * T::M + e / T::N;
                const int col = block_col + warp_col + j * T::N + e % T::N;
                if (row < m && col < n) {
                    typename T::Output* target = c + static_cast<size_t>(row) * n + col;
                    typename T::Scalar x = alpha * sC[warp][e / T::N * LD_C + e % T::N];
                    if (beta != 0) {
                        x += beta * T::widen(*target);
                    }
                    *target = T::narrow(x);
                }
            }
            __syncwarp();  // the patch is read before the next fragment overwrites it
        }
    }
}
