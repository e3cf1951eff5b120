// y = x @ dequant(qweight) + bias for small batches; 4-bit weights in GPTQ's layout.
//
//   x        [M, K]            half
//   qweight  [K / 8, N]        int32, eight rows of K in one word, the first in the lowest bits
//   qzeros   [K / GROUP, N / 8] int32, eight columns in one word, stored less one
//   scales   [K / GROUP, N]    half

#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <mma.h>

namespace gptq {

constexpr int kTileM = 8;
constexpr int kTileN = 64;
constexpr int kTileK = 64;
constexpr int kThreads = 128;
constexpr int kPitchX = kTileK + 8;
constexpr int kPitchW = kTileN + 8;

// Two warps side by side take 32 columns each; two such pairs take one half of every K tile each.
template <int GROUP, bool HAS_BIAS>
__global__ void __launch_bounds__(kThreads)
gptq_linear_kernel(const half* __restrict__ x, const int* __restrict__ qweight, const int* __restrict__ qzeros,
                   const half* __restrict__ scales, const half* __restrict__ bias, half* __restrict__ y,
                   const int M, const int N, const int K) {
    using namespace nvcuda;
    __shared__ __align__(32) half sx[kTileM * kPitchX];
    __shared__ __align__(32) half sw[kTileK * kPitchW];
    __shared__ __align__(32) float partial[2][kTileM][kTileN];

    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int warp_n = warp % 2;
    const int warp_k = warp / 2;
    const int n0 = blockIdx.x * kTileN;
    const int m0 = blockIdx.y * kTileM;

    wmma::fragment<wmma::accumulator, 8, 32, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int k0 = 0; k0 < K; k0 += kTileK) {
        // activations: 8 x 64 halves, one vector of four per thread
        {
            const int r = tid / 16;
            const int c = tid % 16 * 4;
            uint2 v = make_uint2(0, 0);
            if (m0 + r < M && k0 + c < K) v = *reinterpret_cast<const uint2*>(x + (m0 + r) * K + k0 + c);
            *reinterpret_cast<uint2*>(sx + r * kPitchX + c) = v;
        }
        // weights: 8 x 64 words of eight values
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int word = tid + i * kThreads;
            const int r = word / kTileN;
            const int c = word % kTileN;
            const int k = k0 + r * 8;
            const int n = n0 + c;
            int packed = 0;
            int zero = 0;
            half scale = __float2half(0.0f);
            if (k < K && n < N) {
                const int g = k / GROUP;
                packed = qweight[(k / 8) * N + n];
                zero = ((qzeros[g * (N / 8) + n / 8] >> ((n % 8) * 4)) & 0xF) + 1;
                scale = scales[g * N + n];
            }
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const int q = (packed >> (4 * j)) & 0xF;
                sw[(r * 8 + j) * kPitchW + c] = __hmul(__int2half_rn(q - zero), scale);
            }
        }
        __syncthreads();

        wmma::fragment<wmma::matrix_a, 8, 32, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 8, 32, 16, half, wmma::row_major> b;
#pragma unroll
        for (int kk = 0; kk < kTileK / 2; kk += 16) {
            const int k = warp_k * (kTileK / 2) + kk;
            wmma::load_matrix_sync(a, sx + k, kPitchX);
            wmma::load_matrix_sync(b, sw + k * kPitchW + warp_n * 32, kPitchW);
            wmma::mma_sync(acc, a, b, acc);
        }
        __syncthreads();
    }

    // the two halves of K meet here
    wmma::store_matrix_sync(&partial[warp_k][0][warp_n * 32], acc, kTileN, wmma::mem_row_major);
    __syncthreads();

    for (int i = tid; i < kTileM * kTileN; i += kThreads) {
        const int r = i / kTileN;
        const int c = i % kTileN;
        if (m0 + r < M && n0 + c < N) {
            float sum = partial[0][r][c] + partial[1][r][c];
            if (HAS_BIAS) sum += __half2float(bias[n0 + c]);
            y[(m0 + r) * N + n0 + c] = __float2half(sum);
        }
    }
}

template <int GROUP>
void launch(const torch::Tensor& x, const torch::Tensor& qweight, const torch::Tensor& qzeros, const torch::Tensor& scales,
            const c10::optional<torch::Tensor>& bias, torch::Tensor& y) {
    const int M = x.size(0);
    const int K = x.size(1);
    const int N = qweight.size(1);
    const dim3 grid((N + kTileN - 1) / kTileN, (M + kTileM - 1) / kTileM);
    auto stream = at::cuda::getCurrentCUDAStream();
    const half* px = reinterpret_cast<const half*>(x.data_ptr<at::Half>());
    const half* ps = reinterpret_cast<const half*>(scales.data_ptr<at::Half>());
    half* py = reinterpret_cast<half*>(y.data_ptr<at::Half>());
    if (bias.has_value()) {
        const half* pb = reinterpret_cast<const half*>(bias->data_ptr<at::Half>());
        gptq_linear_kernel<GROUP, true><<<grid, kThreads, 0, stream>>>(
            px, qweight.data_ptr<int>(), qzeros.data_ptr<int>(), ps, pb, py, M, N, K);
    } else {
        gptq_linear_kernel<GROUP, false><<<grid, kThreads, 0, stream>>>(
            px, qweight.data_ptr<int>(), qzeros.data_ptr<int>(), ps, nullptr, py, M, N, K);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace gptq

torch::Tensor gptq_linear(torch::Tensor x, torch::Tensor qweight, torch::Tensor qzeros, torch::Tensor scales,
                          c10::optional<torch::Tensor> bias, int64_t group_size) {
    TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "x must be a contiguous CUDA tensor");
    TORCH_CHECK(x.scalar_type() == torch::kHalf, "x must be half");
    TORCH_CHECK(qweight.size(0) * 8 == x.size(1), "qweight and x differ in K");
    const at::cuda::OptionalCUDAGuard guard(device_of(x));
    auto y = torch::empty({x.size(0), qweight.size(1)}, x.options());
    switch (group_size) {
        case 32: gptq::launch<32>(x, qweight, qzeros, scales, bias, y); break;
        case 128: gptq::launch<128>(x, qweight, qzeros, scales, bias, y); break;
        default: TORCH_CHECK(false, "group size ", group_size, " is not supported");
    }
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("gptq_linear", &gptq_linear, "linear layer with GPTQ weights");
}
