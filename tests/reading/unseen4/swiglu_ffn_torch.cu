// h = silu(x @ Wg^T) * (x @ Wu^T): the gated part of a Llama feed-forward block.
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;
using bf16 = __nv_bfloat16;

__device__ __forceinline__ float silu(float v) { return v / (1.f + __expf(-v)); }

template <int TM, int TN>
__global__ void swiglu_kernel(const bf16 *__restrict__ x, const bf16 *__restrict__ w_gate, const bf16 *__restrict__ w_up,
                              bf16 *__restrict__ h, int rows, int dim, int hidden) {
    constexpr int WN = TN / 16;
    __shared__ float g_s[(TM / 16) * WN][256];
    const int warp = threadIdx.y, lane = threadIdx.x;
    const int r = blockIdx.x * TM + warp / WN * 16, c = blockIdx.y * TN + warp % WN * 16;
    if (r >= rows || c >= hidden) return;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> gate, up;
    wmma::fill_fragment(gate, 0.f);
    wmma::fill_fragment(up, 0.f);
    for (int k = 0; k < dim; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> bg, bu;
        wmma::load_matrix_sync(a, x + (size_t)r * dim + k, dim);
        wmma::load_matrix_sync(bg, w_gate + (size_t)c * dim + k, dim);
        wmma::load_matrix_sync(bu, w_up + (size_t)c * dim + k, dim);
        wmma::mma_sync(gate, a, bg, gate);
        wmma::mma_sync(up, a, bu, up);
    }
#pragma unroll
    for (int i = 0; i < gate.num_elements; ++i) gate.x[i] = silu(gate.x[i]) * up.x[i];
    wmma::store_matrix_sync(g_s[warp], gate, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32) h[(size_t)(r + i / 16) * hidden + c + i % 16] = __float2bfloat16(g_s[warp][i]);
}

torch::Tensor swiglu_forward(torch::Tensor x, torch::Tensor w_gate, torch::Tensor w_up) {
    auto sizes = x.sizes().vec();
    const int dim = sizes.back();
    const int rows = x.numel() / dim;
    const int hidden = w_gate.size(0);
    sizes.back() = hidden;
    auto h = torch::empty(sizes, x.options());
    constexpr int TM = 32, TN = 32;
    dim3 blocks((rows + TM - 1) / TM, (hidden + TN - 1) / TN), threads(32, TM / 16 * (TN / 16));
    swiglu_kernel<TM, TN><<<blocks, threads>>>(
        reinterpret_cast<const bf16 *>(x.data_ptr<at::BFloat16>()), reinterpret_cast<const bf16 *>(w_gate.data_ptr<at::BFloat16>()),
        reinterpret_cast<const bf16 *>(w_up.data_ptr<at::BFloat16>()), reinterpret_cast<bf16 *>(h.data_ptr<at::BFloat16>()), rows,
        dim, hidden);
    return h;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &swiglu_forward); }
