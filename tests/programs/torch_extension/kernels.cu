#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

template <typename T>
__global__ void scale_add_kernel(const T* x, const T* y, T* out, T factor, int n, int blocks) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (blocks < 0 ? n + 1 : n)) out[i] = x[i] * factor + y[i];
}

torch::Tensor scale_add(torch::Tensor x, torch::Tensor y, double factor, int64_t threads) {
    const at::cuda::OptionalCUDAGuard guard(x.device());
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    auto out = torch::empty(x.sizes(), x.options().device(torch::kCUDA));
    const int n = static_cast<int>(x.numel()), block = std::abs(static_cast<int>(threads)), blocks = n / block + 1;
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "scale_add", [&] {
        scale_add_kernel<scalar_t><<<blocks, block, 0, stream>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(),
                                                                 static_cast<scalar_t>(factor), n, threads < 0 ? -blocks : blocks);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
