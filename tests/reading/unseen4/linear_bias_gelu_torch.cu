#include <torch/extension.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

namespace {

constexpr int WARP_SIZE = 32;
constexpr int TILE_M = 32;
constexpr int TILE_N = 32;
constexpr int TILE_K = 32;

__device__ __forceinline__ float gelu(float x) {
    const float kAlpha = 0.7978845608028654f;
    return 0.5f * x * (1.0f + tanhf(kAlpha * (x + 0.044715f * x * x * x)));
}

template <typename scalar_t>
struct ToHalf;
template <>
struct ToHalf<at::Half> {
    using type = half;
};

template <bool HasBias>
__global__ void fused_linear_gelu_kernel(const half *__restrict__ input, const half *__restrict__ weight,
                                         const half *__restrict__ bias, half *__restrict__ output, int batch_size,
                                         int in_features, int out_features) {
    __shared__ half s_in[TILE_M][TILE_K + 8];
    __shared__ half s_wt[TILE_N][TILE_K + 8];
    __shared__ float s_out[TILE_M][TILE_N + 4];

    const int m0 = blockIdx.x * TILE_M;
    const int n0 = blockIdx.y * TILE_N;
    const int warp_id = threadIdx.x / WARP_SIZE;
    const int wm = (warp_id / 2) * 16, wn = (warp_id % 2) * 16;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c_frag;
    wmma::fill_fragment(c_frag, 0.0f);

    for (int k0 = 0; k0 < in_features; k0 += TILE_K) {
        for (int i = threadIdx.x; i < TILE_M * TILE_K; i += blockDim.x) {
            const int r = i / TILE_K, c = i % TILE_K;
            s_in[r][c] = (m0 + r < batch_size && k0 + c < in_features) ? input[(m0 + r) * in_features + k0 + c]
                                                                       : __float2half(0.0f);
            s_wt[r][c] = (n0 + r < out_features && k0 + c < in_features) ? weight[(n0 + r) * in_features + k0 + c]
                                                                         : __float2half(0.0f);
        }
        __syncthreads();
        for (int kk = 0; kk < TILE_K; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b_frag;
            wmma::load_matrix_sync(a_frag, &s_in[wm][kk], TILE_K + 8);
            wmma::load_matrix_sync(b_frag, &s_wt[wn][kk], TILE_K + 8);
            wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
        }
        __syncthreads();
    }
    wmma::store_matrix_sync(&s_out[wm][wn], c_frag, TILE_N + 4, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < TILE_M * TILE_N; i += blockDim.x) {
        const int r = i / TILE_N, c = i % TILE_N;
        if (m0 + r < batch_size && n0 + c < out_features) {
            float v = s_out[r][c];
            if (HasBias) v += __half2float(bias[n0 + c]);
            output[(m0 + r) * out_features + n0 + c] = __float2half(gelu(v));
        }
    }
}

}  // namespace

at::Tensor fused_linear_gelu(const at::Tensor &input, const at::Tensor &weight, const c10::optional<at::Tensor> &bias) {
    TORCH_CHECK(input.dim() == 2);
    const auto batch_size = input.size(0);
    const auto in_features = input.size(1);
    const auto out_features = weight.size(0);
    auto output = at::empty({batch_size, out_features}, input.options());

    const dim3 block(4 * WARP_SIZE);
    const dim3 grid((batch_size + TILE_M - 1) / TILE_M, (out_features + TILE_N - 1) / TILE_N);
    const half *in_ptr = reinterpret_cast<const half *>(input.data_ptr<at::Half>());
    const half *w_ptr = reinterpret_cast<const half *>(weight.data_ptr<at::Half>());
    half *out_ptr = reinterpret_cast<half *>(output.data_ptr<at::Half>());
    if (bias.has_value()) {
        fused_linear_gelu_kernel<true><<<grid, block>>>(
            in_ptr, w_ptr, reinterpret_cast<const half *>(bias->data_ptr<at::Half>()), out_ptr, batch_size, in_features,
            out_features);
    } else {
        fused_linear_gelu_kernel<false><<<grid, block>>>(in_ptr, w_ptr, nullptr, out_ptr, batch_size, in_features,
                                                         out_features);
    }
    return output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("fused_linear_gelu", &fused_linear_gelu); }
