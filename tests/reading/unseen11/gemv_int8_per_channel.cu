// W8A16 GEMV for decoding: y[n] = scale[n] * sum_k x[k] * W[n, k]  + bias[n]
// one warp per output row, 16 int8 weights per load
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

#define FULL_MASK 0xffffffffu
#define ROWS_PER_BLOCK 4

template <int kVec>
struct alignas(kVec) CharVec { signed char v[kVec]; };

template <bool HAS_BIAS>
__global__ void gemv_w8a16_kernel(const __nv_bfloat16* __restrict__ x, const signed char* __restrict__ W, const float* __restrict__ scale,
                                  const __nv_bfloat16* __restrict__ bias, __nv_bfloat16* __restrict__ y, int N, int K) {
  const int row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.y;
  if (row >= N) return;
  using Vec = CharVec<16>;
  const Vec* w = reinterpret_cast<const Vec*>(W + (size_t)row * K);
  float sum = 0.f;
  for (int i = threadIdx.x; i < K / 16; i += 32) {
    const Vec wv = w[i];
    const uint4* xp = reinterpret_cast<const uint4*>(x + i * 16);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint4 raw = xp[h];
      const __nv_bfloat162* xb = reinterpret_cast<const __nv_bfloat162*>(&raw);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 f = __bfloat1622float2(xb[j]);
        sum += f.x * static_cast<float>(wv.v[h * 8 + 2 * j]);
        sum += f.y * static_cast<float>(wv.v[h * 8 + 2 * j + 1]);
      }
    }
  }
#pragma unroll
  for (int off = 16; off > 0; off >>= 1) sum += __shfl_xor_sync(FULL_MASK, sum, off);
  if (threadIdx.x == 0) {
    float out = sum * scale[row];
    if (HAS_BIAS) out += __bfloat162float(bias[row]);
    y[row] = __float2bfloat16(out);
  }
}

torch::Tensor gemv_w8a16(torch::Tensor x, torch::Tensor W, torch::Tensor scale, c10::optional<torch::Tensor> bias) {
  TORCH_CHECK(x.dim() == 1 && W.dim() == 2 && x.size(0) == W.size(1));
  TORCH_CHECK(W.scalar_type() == torch::kChar && x.scalar_type() == torch::kBFloat16);
  const int N = W.size(0), K = W.size(1);
  TORCH_CHECK(K % 16 == 0);
  auto y = torch::empty({N}, x.options());
  const dim3 block(32, ROWS_PER_BLOCK), grid((N + ROWS_PER_BLOCK - 1) / ROWS_PER_BLOCK);
  auto stream = at::cuda::getCurrentCUDAStream();
  auto xp = reinterpret_cast<const __nv_bfloat16*>(x.data_ptr());
  auto yp = reinterpret_cast<__nv_bfloat16*>(y.data_ptr());
  if (bias.has_value())
    gemv_w8a16_kernel<true><<<grid, block, 0, stream>>>(xp, W.data_ptr<int8_t>(), scale.data_ptr<float>(), reinterpret_cast<const __nv_bfloat16*>(bias->data_ptr()), yp, N, K);
  else
    gemv_w8a16_kernel<false><<<grid, block, 0, stream>>>(xp, W.data_ptr<int8_t>(), scale.data_ptr<float>(), nullptr, yp, N, K);
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("gemv_w8a16", &gemv_w8a16); }
