#include <torch/extension.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <mma.h>

// y = relu(x W^T + b) like nn.Linear followed by ReLU; x [tokens, in], W [out, in], b [out], y [tokens, out]
namespace fused {
using nvcuda::wmma::accumulator;
using nvcuda::wmma::fragment;

template <typename scalar_t, int kBM = 64, int kBN = 64, int kBK = 32>
__global__ void linear_relu_kernel(const scalar_t *__restrict__ x, const scalar_t *__restrict__ w,
                                   const scalar_t *__restrict__ bias, scalar_t *__restrict__ y,
                                   const int64_t tokens, const int64_t in_features, const int64_t out_features)
{
    constexpr int kPad = 8;
    union Smem {
        struct { scalar_t xs[kBM][kBK + kPad]; scalar_t ws[kBN][kBK + kPad]; } in;
        float out[kBM][kBN + 4];
    };
    __shared__ __align__(32) Smem sm;

    const int tid = threadIdx.y * blockDim.x + threadIdx.x;
    const int nthreads = blockDim.x * blockDim.y;
    const int warp = threadIdx.y;                 // 8 warps: 4 x 2
    const int wy = warp >> 1, wx = warp & 1;
    const int64_t t0 = (int64_t)blockIdx.y * kBM, o0 = (int64_t)blockIdx.x * kBN;

    fragment<accumulator, 16, 16, 16, float> acc[2];
    nvcuda::wmma::fill_fragment(acc[0], 0.f);
    nvcuda::wmma::fill_fragment(acc[1], 0.f);

    for (int64_t k0 = 0; k0 < in_features; k0 += kBK) {
        for (int i = tid; i < kBM * kBK; i += nthreads) {
            const int r = i / kBK, c = i - r * kBK;
            const bool ok = t0 + r < tokens && k0 + c < in_features;
            sm.in.xs[r][c] = ok ? x[(t0 + r) * in_features + k0 + c] : scalar_t(0.f);
        }
        for (int i = tid; i < kBN * kBK; i += nthreads) {
            const int r = i / kBK, c = i - r * kBK;
            const bool ok = o0 + r < out_features && k0 + c < in_features;
            sm.in.ws[r][c] = ok ? w[(o0 + r) * in_features + k0 + c] : scalar_t(0.f);
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < kBK / 16; ++kk) {
            fragment<nvcuda::wmma::matrix_a, 16, 16, 16, scalar_t, nvcuda::wmma::row_major> fx;
            nvcuda::wmma::load_matrix_sync(fx, &sm.in.xs[wy * 16][kk * 16], kBK + kPad);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                fragment<nvcuda::wmma::matrix_b, 16, 16, 16, scalar_t, nvcuda::wmma::col_major> fw;
                nvcuda::wmma::load_matrix_sync(fw, &sm.in.ws[wx * 32 + j * 16][kk * 16], kBK + kPad);
                nvcuda::wmma::mma_sync(acc[j], fx, fw, acc[j]);
            }
        }
        __syncthreads();
    }

    for (int j = 0; j < 2; ++j)
        nvcuda::wmma::store_matrix_sync(&sm.out[wy * 16][wx * 32 + j * 16], acc[j], kBN + 4, nvcuda::wmma::mem_row_major);
    __syncthreads();

    for (int i = tid; i < kBM * kBN; i += nthreads) {
        const int r = i / kBN, c = i % kBN;
        if (t0 + r < tokens && o0 + c < out_features) {
            const float v = sm.out[r][c] + static_cast<float>(bias[o0 + c]);
            y[(t0 + r) * out_features + o0 + c] = scalar_t(v > 0.f ? v : 0.f);
        }
    }
}
}  // namespace fused

torch::Tensor linear_relu(const torch::Tensor &x, const torch::Tensor &w, const torch::Tensor &b)
{
    const at::cuda::OptionalCUDAGuard guard(device_of(x));
    TORCH_CHECK(x.dim() == 2 && w.size(1) == x.size(1));
    auto y = torch::empty({x.size(0), w.size(0)}, x.options());
    dim3 block(32, 8);
    dim3 grid((w.size(0) + 63) / 64, (x.size(0) + 63) / 64);
    fused::linear_relu_kernel<__half><<<grid, block>>>(
        (const __half *)x.data_ptr(), (const __half *)w.data_ptr(), (const __half *)b.data_ptr(),
        (__half *)y.data_ptr(), x.size(0), x.size(1), w.size(0));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("linear_relu", &linear_relu, "relu(x @ w.T + b)"); }
