#include <torch/extension.h>
#include <cuda_runtime.h>

template <typename scalar_t>
__global__ void depthwise_conv3x3_kernel(const scalar_t* __restrict__ input, const scalar_t* __restrict__ weight,
                                         const scalar_t* __restrict__ bias, scalar_t* __restrict__ output, int batch,
                                         int channels, int height, int width, int out_h, int out_w, int stride, int padding) {
  const int total = batch * channels * out_h * out_w;
  for (int idx = blockIdx.x * blockDim.x + threadIdx.x; idx < total; idx += blockDim.x * gridDim.x) {
    const int ow = idx % out_w;
    const int oh = idx / out_w % out_h;
    const int c = idx / out_w / out_h % channels;
    const int n = idx / out_w / out_h / channels;
    float acc = bias != nullptr ? static_cast<float>(bias[c]) : 0.f;
#pragma unroll
    for (int kh = 0; kh < 3; ++kh) {
      const int ih = oh * stride - padding + kh;
      if (ih < 0 || ih >= height) continue;
#pragma unroll
      for (int kw = 0; kw < 3; ++kw) {
        const int iw = ow * stride - padding + kw;
        if (iw < 0 || iw >= width) continue;
        acc += static_cast<float>(input[((n * channels + c) * height + ih) * width + iw]) * static_cast<float>(weight[c * 9 + kh * 3 + kw]);
      }
    }
    output[idx] = static_cast<scalar_t>(acc);
  }
}

torch::Tensor depthwise_conv3x3(torch::Tensor input, torch::Tensor weight, c10::optional<torch::Tensor> bias, int64_t stride, int64_t padding) {
  const int n = input.size(0), c = input.size(1), h = input.size(2), w = input.size(3);
  const int oh = (h + 2 * padding - 3) / stride + 1, ow = (w + 2 * padding - 3) / stride + 1;
  auto output = torch::empty({n, c, oh, ow}, input.options());
  const int threads = 256, blocks = (n * c * oh * ow + threads - 1) / threads;
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(input.scalar_type(), "depthwise_conv3x3", ([&] {
    depthwise_conv3x3_kernel<scalar_t><<<blocks, threads>>>(input.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(),
        bias.has_value() ? bias->data_ptr<scalar_t>() : nullptr, output.data_ptr<scalar_t>(), n, c, h, w, oh, ow, stride, padding);
  }));
  return output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &depthwise_conv3x3); }
