// y = x W^T + (alpha / r) * (x A^T) B^T, the LoRA update as a second pass over y.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// C[M, N] = scale * A[M, K] * B[N, K]^T (+ C)
template <typename out_t, bool kAccumulate>
__global__ void gemm_nt(const half* __restrict__ A, const half* __restrict__ B, out_t* __restrict__ C, int M, int N,
                        int K, float scale) {
  __shared__ float buf[4][256];
  const int w = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int m = (blockIdx.y * 2 + w / 2) * 16, n = (blockIdx.x * 2 + w % 2) * 16;
  if (m >= M || n >= N) return;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.f);
  for (int k = 0; k < K; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::load_matrix_sync(fa, A + m * K + k, K);
    wmma::load_matrix_sync(fb, B + n * K + k, K);
    wmma::mma_sync(acc, fa, fb, acc);
  }
  wmma::store_matrix_sync(buf[w], acc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = lane; i < 256; i += 32) {
    out_t* c = C + (m + i / 16) * N + n + i % 16;
    float v = scale * buf[w][i];
    if constexpr (kAccumulate) v += static_cast<float>(*c);
    *c = static_cast<out_t>(v);
  }
}

torch::Tensor lora_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor lora_A, torch::Tensor lora_B,
                           double alpha) {
  TORCH_CHECK(x.scalar_type() == at::kHalf, "x must be half");
  const int tokens = x.size(0), in = x.size(1), out = weight.size(0), rank = lora_A.size(0);
  TORCH_CHECK(tokens % 16 == 0 && in % 16 == 0 && out % 16 == 0 && rank % 16 == 0);
  auto y = torch::empty({tokens, out}, x.options());
  auto down = torch::empty({tokens, rank}, x.options());
  auto stream = at::cuda::getCurrentCUDAStream();
  auto ptr = [](torch::Tensor& t) { return reinterpret_cast<half*>(t.data_ptr<at::Half>()); };
  auto grid = [](int m, int n) { return dim3((n + 31) / 32, (m + 31) / 32); };

  gemm_nt<half, false><<<grid(tokens, out), 128, 0, stream>>>(ptr(x), ptr(weight), ptr(y), tokens, out, in, 1.f);
  gemm_nt<half, false><<<grid(tokens, rank), 128, 0, stream>>>(ptr(x), ptr(lora_A), ptr(down), tokens, rank, in, 1.f);
  gemm_nt<half, true><<<grid(tokens, out), 128, 0, stream>>>(ptr(down), ptr(lora_B), ptr(y), tokens, out, rank,
                                                            static_cast<float>(alpha / rank));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &lora_forward); }
