// softmax backward: dx = (dy - sum(dy * y)) * y, per row; one warp per row, rows up to any length
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

template <typename scalar_t>
__global__ void softmax_backward_kernel(const scalar_t* __restrict__ grad_output, const scalar_t* __restrict__ output,
                                        scalar_t* __restrict__ grad_input, const float scale, const int64_t rows, const int64_t cols) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const scalar_t* dy = grad_output + row * cols;
  const scalar_t* y = output + row * cols;
  scalar_t* dx = grad_input + row * cols;
  float dot = 0.f;
  for (int64_t c = threadIdx.x; c < cols; c += 32) dot += static_cast<float>(dy[c]) * static_cast<float>(y[c]);
  for (int offset = 16; offset > 0; offset >>= 1) dot += __shfl_xor_sync(0xffffffffu, dot, offset);
  for (int64_t c = threadIdx.x; c < cols; c += 32)
    dx[c] = static_cast<scalar_t>(scale * (static_cast<float>(dy[c]) - dot) * static_cast<float>(y[c]));
}

torch::Tensor softmax_backward(torch::Tensor grad_output, torch::Tensor output, double scale) {
  TORCH_CHECK(grad_output.sizes() == output.sizes());
  auto grad_input = torch::empty_like(output);
  const int64_t cols = output.size(-1), rows = output.numel() / cols;
  const dim3 block(32, 4);
  const dim3 grid((rows + 3) / 4);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(output.scalar_type(), "softmax_backward", ([&] {
    softmax_backward_kernel<scalar_t><<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(
        grad_output.data_ptr<scalar_t>(), output.data_ptr<scalar_t>(), grad_input.data_ptr<scalar_t>(),
        static_cast<float>(scale), rows, cols);
  }));
  return grad_input;
}
