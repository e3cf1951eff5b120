// W8A8 linear: int8 activations (per token scale) x int8 weights (per channel scale), dequantised in the epilogue.
// out[m][n] = half( acc[m][n] * x_scale[m] * w_scale[n] + bias[n] )

#include <cuda_fp16.h>
#include <mma.h>
#include <cstdint>
#include <stdexcept>

namespace {

constexpr int kWarpSize = 32;
constexpr int kBlockM = 32;
constexpr int kBlockN = 64;
constexpr int kBlockK = 64;
constexpr int kWarpsM = 2;
constexpr int kWarpsN = 2;
constexpr int kNumThreads = kWarpsM * kWarpsN * kWarpSize;
constexpr int kWarpTileN = kBlockN / kWarpsN;     // 32
constexpr int kFragsN = kWarpTileN / 16;          // 2
constexpr int kLds = kBlockK + 16;                // int8 elements
constexpr int kLdc = kBlockN + 4;                 // int32 elements

union SharedStorage {
    struct {
        int8_t x[kBlockM * kLds];
        int8_t w[kBlockN * kLds];
    } in;
    int32_t acc[kBlockM * kLdc];
};

__device__ __forceinline__ void ldg_tile(int8_t* smem, const int8_t* __restrict__ gmem, int rows, int row_begin,
                                         int row_end, int k_begin, int k) {
    // one int4 = 16 int8
    const int vec_per_row = kBlockK / 16;
    for (int v = threadIdx.x; v < rows * vec_per_row; v += kNumThreads) {
        const int r = v / vec_per_row;
        const int c = (v - r * vec_per_row) * 16;
        int4 val = {0, 0, 0, 0};
        if (row_begin + r < row_end && k_begin + c < k)
            val = __ldg(reinterpret_cast<const int4*>(gmem + (int64_t)(row_begin + r) * k + k_begin + c));
        *reinterpret_cast<int4*>(smem + r * kLds + c) = val;
    }
}

template <bool HAS_BIAS>
__global__ __launch_bounds__(kNumThreads) void w8a8_linear_kernel(const int8_t* __restrict__ x,
                                                                  const int8_t* __restrict__ weight,
                                                                  const float* __restrict__ x_scale,
                                                                  const float* __restrict__ w_scale,
                                                                  const half* __restrict__ bias,
                                                                  half* __restrict__ out, int m, int n, int k) {
    using namespace nvcuda::wmma;
    __shared__ __align__(128) SharedStorage storage;

    const int warp_id = threadIdx.x / kWarpSize;
    const int warp_m = warp_id / kWarpsN;
    const int warp_n = warp_id % kWarpsN;
    const int m_begin = blockIdx.x * kBlockM;
    const int n_begin = blockIdx.y * kBlockN;

    fragment<accumulator, 16, 16, 16, int> acc[kFragsN];
    for (auto& f : acc) fill_fragment(f, 0);

    for (int k_begin = 0; k_begin < k; k_begin += kBlockK) {
        ldg_tile(storage.in.x, x, kBlockM, m_begin, m, k_begin, k);
        ldg_tile(storage.in.w, weight, kBlockN, n_begin, n, k_begin, k);
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < kBlockK / 16; ++kk) {
            fragment<matrix_a, 16, 16, 16, signed char, row_major> a;
            load_matrix_sync(a, storage.in.x + (warp_m * 16) * kLds + kk * 16, kLds);
#pragma unroll
            for (int f = 0; f < kFragsN; ++f) {
                fragment<matrix_b, 16, 16, 16, signed char, col_major> b;
                load_matrix_sync(b, storage.in.w + (warp_n * kWarpTileN + f * 16) * kLds + kk * 16, kLds);
                mma_sync(acc[f], a, b, acc[f]);
            }
        }
        __syncthreads();
    }

    // the input tiles are dead, their memory takes the accumulators
#pragma unroll
    for (int f = 0; f < kFragsN; ++f) {
        store_matrix_sync(storage.acc + (warp_m * 16) * kLdc + warp_n * kWarpTileN + f * 16, acc[f], kLdc,
                          mem_row_major);
    }
    __syncthreads();

    // two columns per thread
    for (int i = threadIdx.x; i < kBlockM * kBlockN / 2; i += kNumThreads) {
        const int r = i / (kBlockN / 2);
        const int c = (i % (kBlockN / 2)) * 2;
        const int gm = m_begin + r;
        const int gn = n_begin + c;
        if (gm >= m || gn >= n) continue;  // n is even
        const float sx = x_scale[gm];
        float y0 = static_cast<float>(storage.acc[r * kLdc + c]) * sx * w_scale[gn];
        float y1 = static_cast<float>(storage.acc[r * kLdc + c + 1]) * sx * w_scale[gn + 1];
        if (HAS_BIAS) {
            y0 += __half2float(bias[gn]);
            y1 += __half2float(bias[gn + 1]);
        }
        *reinterpret_cast<half2*>(out + (int64_t)gm * n + gn) = __floats2half2_rn(y0, y1);
    }
}

}  // namespace

void w8a8_linear(const int8_t* x, const int8_t* weight, const float* x_scale, const float* w_scale, const half* bias,
                 half* out, int m, int n, int k, cudaStream_t stream) {
    if (k % 16 != 0 || n % 2 != 0) throw std::invalid_argument("w8a8_linear: k % 16 and n % 2 must be 0");
    dim3 grid((m + kBlockM - 1) / kBlockM, (n + kBlockN - 1) / kBlockN);
    if (bias)
        w8a8_linear_kernel<true><<<grid, kNumThreads, 0, stream>>>(x, weight, x_scale, w_scale, bias, out, m, n, k);
    else
        w8a8_linear_kernel<false><<<grid, kNumThreads, 0, stream>>>(x, weight, x_scale, w_scale, bias, out, m, n, k);
}
