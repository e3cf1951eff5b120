// gemm_epilogue_functors - small header-style GEMM with pluggable epilogues.
//
//   D = Epilogue(A * B^T, bias)        A: M x K row major, B: N x K row major (nn.Linear weight)
//
// No host code: instantiate what you need, see the bottom of the file.
#pragma once
#include <cuda_fp16.h>
#include <mma.h>

namespace tinygemm {

template <typename T> struct Identity {
    __device__ T operator()(T x) const { return x; }
};
template <typename T> struct Relu {
    __device__ T operator()(T x) const { return x > T(0) ? x : T(0); }
};
template <typename T> struct GeluTanh {
    __device__ T operator()(T x) const {
        const T kBeta = T(0.7978845608028654), kKappa = T(0.044715);
        return T(0.5) * x * (T(1) + tanhf(kBeta * (x + kKappa * x * x * x)));
    }
};

template <int kBlockM_, int kBlockN_, int kBlockK_, int kWarpsM_, int kWarpsN_>
struct TileShape {
    static constexpr int kBlockM = kBlockM_, kBlockN = kBlockN_, kBlockK = kBlockK_;
    static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_;
    static constexpr int kThreads = kWarpsM * kWarpsN * 32;
    static constexpr int kFragM = kBlockM / kWarpsM / 16, kFragN = kBlockN / kWarpsN / 16;
};

template <class Tile, class Activation>
__device__ void linear_tile(const half* __restrict__ A, const half* __restrict__ B, const half* __restrict__ bias,
                            half* __restrict__ D, int M, int N, int K, half* smemA, half* smemB, float* stage) {
    using namespace nvcuda::wmma;
    const int m0 = blockIdx.y * Tile::kBlockM, n0 = blockIdx.x * Tile::kBlockN;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int wm = warp % Tile::kWarpsM, wn = warp / Tile::kWarpsM;
    constexpr int ld = Tile::kBlockK + 8;

    fragment<accumulator, 16, 16, 16, float> acc[Tile::kFragM][Tile::kFragN];
    for (auto& row : acc)
        for (auto& f : row) fill_fragment(f, 0.f);

    for (int k0 = 0; k0 < K; k0 += Tile::kBlockK) {
        for (int i = threadIdx.x; i < Tile::kBlockM * Tile::kBlockK; i += Tile::kThreads) {
            const int r = i / Tile::kBlockK, c = i % Tile::kBlockK;
            smemA[r * ld + c] = (m0 + r < M && k0 + c < K) ? A[(size_t)(m0 + r) * K + k0 + c] : half(0.f);
        }
        for (int i = threadIdx.x; i < Tile::kBlockN * Tile::kBlockK; i += Tile::kThreads) {
            const int r = i / Tile::kBlockK, c = i % Tile::kBlockK;
            smemB[r * ld + c] = (n0 + r < N && k0 + c < K) ? B[(size_t)(n0 + r) * K + k0 + c] : half(0.f);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < Tile::kBlockK; k += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> a[Tile::kFragM];
            fragment<matrix_b, 16, 16, 16, half, col_major> b[Tile::kFragN];
#pragma unroll
            for (int i = 0; i < Tile::kFragM; ++i)
                load_matrix_sync(a[i], smemA + (wm * Tile::kFragM + i) * 16 * ld + k, ld);
#pragma unroll
            for (int j = 0; j < Tile::kFragN; ++j)
                load_matrix_sync(b[j], smemB + (wn * Tile::kFragN + j) * 16 * ld + k, ld);
#pragma unroll
            for (int i = 0; i < Tile::kFragM; ++i)
#pragma unroll
                for (int j = 0; j < Tile::kFragN; ++j) mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    Activation act;
    float* mine = stage + warp * 16 * 16;
#pragma unroll
    for (int i = 0; i < Tile::kFragM; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::kFragN; ++j) {
            store_matrix_sync(mine, acc[i][j], 16, mem_row_major);
            __syncwarp();
            const int gm = m0 + (wm * Tile::kFragM + i) * 16, gn = n0 + (wn * Tile::kFragN + j) * 16;
            for (int e = lane; e < 256; e += 32) {
                const int r = gm + e / 16, c = gn + e % 16;
                if (r < M && c < N) {
                    const float x = mine[e] + (bias ? __half2float(bias[c]) : 0.f);
                    D[(size_t)r * N + c] = __float2half_rn(act(x));
                }
            }
            __syncwarp();
        }
    }
}

template <class Tile, class Activation>
__global__ void __launch_bounds__(Tile::kThreads)
linear_kernel(const half* A, const half* B, const half* bias, half* D, int M, int N, int K) {
    __shared__ half smemA[Tile::kBlockM * (Tile::kBlockK + 8)];
    __shared__ half smemB[Tile::kBlockN * (Tile::kBlockK + 8)];
    __shared__ float stage[Tile::kThreads / 32 * 256];
    linear_tile<Tile, Activation>(A, B, bias, D, M, N, K, smemA, smemB, stage);
}

using DefaultTile = TileShape<64, 64, 32, 2, 2>;

}  // namespace tinygemm

template __global__ void tinygemm::linear_kernel<tinygemm::DefaultTile, tinygemm::GeluTanh<float>>(
    const half*, const half*, const half*, half*, int, int, int);
