// Gradients of a linear layer y = x W^T: dx = dy W, dW = dy^T x. bf16 in, fp32 sums.
#include <torch/types.h>
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <mma.h>

namespace {

using nvcuda::wmma::fragment;
namespace w = nvcuda::wmma;
typedef __nv_bfloat16 T;

// dx[B, I] = dy[B, O] W[O, I]
__global__ void linear_backward_input(const T* dy, const T* weight, T* dx, int B, int O, int I) {
    __shared__ float s[16 * 16];
    const int b = blockIdx.x * 16, i = blockIdx.y * 16;
    fragment<w::accumulator, 16, 16, 16, float> acc;
    w::fill_fragment(acc, 0.f);
    for (int o = 0; o < O; o += 16) {
        fragment<w::matrix_a, 16, 16, 16, T, w::row_major> fa;
        fragment<w::matrix_b, 16, 16, 16, T, w::row_major> fb;
        w::load_matrix_sync(fa, dy + b * O + o, O);
        w::load_matrix_sync(fb, weight + o * I + i, I);
        w::mma_sync(acc, fa, fb, acc);
    }
    w::store_matrix_sync(s, acc, 16, w::mem_row_major);
    __syncwarp();
    for (int e = threadIdx.x; e < 256; e += 32) dx[(b + e / 16) * I + i + e % 16] = __float2bfloat16(s[e]);
}

// dW[O, I] = dy[B, O]^T x[B, I]
__global__ void linear_backward_weight(const T* dy, const T* x, float* dweight, int B, int O, int I) {
    const int o = blockIdx.x * 16, i = blockIdx.y * 16;
    fragment<w::accumulator, 16, 16, 16, float> acc;
    w::fill_fragment(acc, 0.f);
    for (int b = 0; b < B; b += 16) {
        fragment<w::matrix_a, 16, 16, 16, T, w::col_major> fa;
        fragment<w::matrix_b, 16, 16, 16, T, w::row_major> fb;
        w::load_matrix_sync(fa, dy + b * O + o, O);
        w::load_matrix_sync(fb, x + b * I + i, I);
        w::mma_sync(acc, fa, fb, acc);
    }
    w::store_matrix_sync(dweight + o * I + i, acc, I, w::mem_row_major);
}

}  // namespace

std::vector<torch::Tensor> linear_backward(torch::Tensor dy, torch::Tensor x, torch::Tensor weight) {
    const int B = dy.size(0), O = dy.size(1), I = x.size(1);
    auto dx = torch::empty_like(x);
    auto dweight = torch::zeros({O, I}, x.options().dtype(torch::kFloat));
    linear_backward_input<<<dim3(B / 16, I / 16), 32>>>(
        reinterpret_cast<const T*>(dy.data_ptr<at::BFloat16>()),
        reinterpret_cast<const T*>(weight.data_ptr<at::BFloat16>()),
        reinterpret_cast<T*>(dx.data_ptr<at::BFloat16>()), B, O, I);
    linear_backward_weight<<<dim3(O / 16, I / 16), 32>>>(
        reinterpret_cast<const T*>(dy.data_ptr<at::BFloat16>()),
        reinterpret_cast<const T*>(x.data_ptr<at::BFloat16>()), dweight.data_ptr<float>(), B, O, I);
    return {dx, dweight};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("linear_backward", &linear_backward, "linear backward (CUDA)"); }
