#include <cuda_fp16.h>
#include <mma.h>
#include <stdexcept>

namespace fused_ops {

enum class Activation : int { kNone = 0, kRelu = 1, kGelu = 2, kSilu = 3 };

template <Activation act>
__device__ __forceinline__ float apply_activation(float x);

template <>
__device__ __forceinline__ float apply_activation<Activation::kNone>(float x) { return x; }

template <>
__device__ __forceinline__ float apply_activation<Activation::kRelu>(float x) { return x > 0.f ? x : 0.f; }

// tanh approximation, as in GPT-2
template <>
__device__ __forceinline__ float apply_activation<Activation::kGelu>(float x)
{
    const float cdf = 0.5f * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
    return x * cdf;
}

template <>
__device__ __forceinline__ float apply_activation<Activation::kSilu>(float x) { return x / (1.f + __expf(-x)); }

/// Tile configuration of a thread block.
template <int BM_, int BN_, int BK_, int WARPS_M_, int WARPS_N_>
struct TileConfig
{
    static constexpr int BM = BM_, BN = BN_, BK = BK_;
    static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_;
    static constexpr int THREADS = WARPS_M * WARPS_N * 32;
    static constexpr int WM = BM / WARPS_M, WN = BN / WARPS_N;
    static constexpr int LDA = BK + 8, LDB = BN + 8, LDC = BN + 4;
    static constexpr int SMEM_AB = (BM * LDA + BK * LDB) * int(sizeof(half));
    static constexpr int SMEM_C = BM * LDC * int(sizeof(float));
    static constexpr int SMEM = SMEM_AB > SMEM_C ? SMEM_AB : SMEM_C;
};

/// output = act(alpha * input x weight + bias)
/// input [m, k], weight [k, n], bias [n] (may be null), output [m, n], all row-major
template <typename Config, Activation act>
__global__ void gemm_bias_act_kernel(half* __restrict__ output, const half* __restrict__ input,
                                     const half* __restrict__ weight, const half* __restrict__ bias, float alpha,
                                     int m, int n, int k)
{
    using namespace nvcuda::wmma;
    extern __shared__ __align__(128) unsigned char smem_raw[];
    half* sA = reinterpret_cast<half*>(smem_raw);
    half* sB = sA + Config::BM * Config::LDA;
    float* sC = reinterpret_cast<float*>(smem_raw);

    constexpr int FM = Config::WM / 16;
    constexpr int FN = Config::WN / 16;
    const int row0 = blockIdx.x * Config::BM;
    const int col0 = blockIdx.y * Config::BN;
    const int warp = threadIdx.x / 32;
    const int wm = (warp / Config::WARPS_N) * Config::WM;
    const int wn = (warp % Config::WARPS_N) * Config::WN;

    fragment<accumulator, 16, 16, 16, float> acc[FM][FN];
#pragma unroll
    for (int i = 0; i < FM; i++)
#pragma unroll
        for (int j = 0; j < FN; j++) fill_fragment(acc[i][j], 0.f);

    for (int k0 = 0; k0 < k; k0 += Config::BK) {
        for (int idx = threadIdx.x; idx < Config::BM * Config::BK; idx += Config::THREADS) {
            const int r = idx / Config::BK, c = idx % Config::BK;
            const bool in = (row0 + r < m) && (k0 + c < k);
            sA[r * Config::LDA + c] = in ? input[(size_t)(row0 + r) * k + k0 + c] : __float2half(0.f);
        }
        for (int idx = threadIdx.x; idx < Config::BK * Config::BN; idx += Config::THREADS) {
            const int r = idx / Config::BN, c = idx % Config::BN;
            const bool in = (k0 + r < k) && (col0 + c < n);
            sB[r * Config::LDB + c] = in ? weight[(size_t)(k0 + r) * n + col0 + c] : __float2half(0.f);
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < Config::BK; kk += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> a[FM];
            fragment<matrix_b, 16, 16, 16, half, row_major> b[FN];
#pragma unroll
            for (int i = 0; i < FM; i++) load_matrix_sync(a[i], sA + (wm + i * 16) * Config::LDA + kk, Config::LDA);
#pragma unroll
            for (int j = 0; j < FN; j++) load_matrix_sync(b[j], sB + kk * Config::LDB + wn + j * 16, Config::LDB);
#pragma unroll
            for (int i = 0; i < FM; i++)
#pragma unroll
                for (int j = 0; j < FN; j++) mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < FM; i++)
#pragma unroll
        for (int j = 0; j < FN; j++)
            store_matrix_sync(sC + (wm + i * 16) * Config::LDC + wn + j * 16, acc[i][j], Config::LDC, mem_row_major);
    __syncthreads();

    for (int idx = threadIdx.x; idx < Config::BM * Config::BN; idx += Config::THREADS) {
        const int r = idx / Config::BN, c = idx % Config::BN;
        if (row0 + r < m && col0 + c < n) {
            float v = alpha * sC[r * Config::LDC + c];
            if (bias != nullptr) v += __half2float(bias[col0 + c]);
            output[(size_t)(row0 + r) * n + col0 + c] = __float2half(apply_activation<act>(v));
        }
    }
}

template <typename Config, Activation act>
void launch_gemm_bias_act(half* output, const half* input, const half* weight, const half* bias, float alpha, int m,
                          int n, int k, cudaStream_t stream)
{
    dim3 grid((m + Config::BM - 1) / Config::BM, (n + Config::BN - 1) / Config::BN);
    gemm_bias_act_kernel<Config, act>
        <<<grid, Config::THREADS, Config::SMEM, stream>>>(output, input, weight, bias, alpha, m, n, k);
}

template <Activation act>
void dispatch_tile(half* output, const half* input, const half* weight, const half* bias, float alpha, int m, int n,
                   int k, cudaStream_t stream)
{
    if (m <= 32)
        launch_gemm_bias_act<TileConfig<32, 64, 32, 1, 4>, act>(output, input, weight, bias, alpha, m, n, k, stream);
    else
        launch_gemm_bias_act<TileConfig<64, 64, 32, 2, 2>, act>(output, input, weight, bias, alpha, m, n, k, stream);
}

void gemm_bias_act(half* output, const half* input, const half* weight, const half* bias, float alpha, int m, int n,
                   int k, Activation act, cudaStream_t stream)
{
    switch (act) {
        case Activation::kNone:
            dispatch_tile<Activation::kNone>(output, input, weight, bias, alpha, m, n, k, stream);
            break;
        case Activation::kRelu:
            dispatch_tile<Activation::kRelu>(output, input, weight, bias, alpha, m, n, k, stream);
            break;
        case Activation::kGelu:
            dispatch_tile<Activation::kGelu>(output, input, weight, bias, alpha, m, n, k, stream);
            break;
        case Activation::kSilu:
            dispatch_tile<Activation::kSilu>(output, input, weight, bias, alpha, m, n, k, stream);
            break;
        default:
            throw std::invalid_argument("gemm_bias_act: unknown activation");
    }
}

}  // namespace fused_ops
