// LayerNorm followed by a linear layer in one kernel: out = LN(x; gamma, beta) @ W^T + b
// x: [tokens, hidden], W: [features, hidden], out: [tokens, features].
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <ATen/cuda/CUDAContext.h>

using namespace nvcuda;

#define ROWS 16
#define WARPS 4
#define WARP_FULL_MASK 0xffffffff

__inline__ __device__ float warpReduceSum(float val) {
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) val += __shfl_xor_sync(WARP_FULL_MASK, val, mask, 32);
    return val;
}

// a block: 16 tokens, 64 features; the normalised rows stay in shared memory
__global__ void ln_linear_kernel(const half* __restrict__ x, const half* __restrict__ gamma,
                                 const half* __restrict__ beta, const half* __restrict__ W,
                                 const half* __restrict__ bias, half* __restrict__ out, int tokens, int hidden,
                                 int features, float eps) {
    extern __shared__ half normed[];  // ROWS x (hidden + 8)
    __shared__ float staging[WARPS][16 * 16];
    const int ld = hidden + 8;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int token0 = blockIdx.x * ROWS;

    for (int r = warp; r < ROWS; r += WARPS) {
        const int token = token0 + r;
        if (token >= tokens) {
            for (int i = lane; i < hidden; i += 32) normed[r * ld + i] = __float2half(0.f);
            continue;
        }
        const half* row = x + (size_t)token * hidden;
        float sum = 0.f;
        for (int i = lane; i < hidden; i += 32) sum += __half2float(row[i]);
        const float mean = warpReduceSum(sum) / hidden;
        float sq = 0.f;
        for (int i = lane; i < hidden; i += 32) {
            const float d = __half2float(row[i]) - mean;
            sq += d * d;
        }
        const float rstd = rsqrtf(warpReduceSum(sq) / hidden + eps);
        for (int i = lane; i < hidden; i += 32) {
            const float n = (__half2float(row[i]) - mean) * rstd;
            normed[r * ld + i] = __float2half(n * __half2float(gamma[i]) + __half2float(beta[i]));
        }
    }
    __syncthreads();

    const int f0 = (blockIdx.y * WARPS + warp) * 16;
    if (f0 >= features) return;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);
    for (int k = 0; k < hidden; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
        wmma::load_matrix_sync(a, normed + k, ld);
        wmma::load_matrix_sync(b, W + (size_t)f0 * hidden + k, hidden);
        wmma::mma_sync(acc, a, b, acc);
    }
    wmma::store_matrix_sync(staging[warp], acc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int e = lane; e < 256; e += 32) {
        const int token = token0 + e / 16, f = f0 + e % 16;
        if (token < tokens)
            out[(size_t)token * features + f] = __float2half(staging[warp][e] + __half2float(bias[f]));
    }
}

torch::Tensor ln_linear(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, torch::Tensor W, torch::Tensor bias,
                        double eps) {
    TORCH_CHECK(x.is_cuda() && x.is_contiguous());
    TORCH_CHECK(x.dtype() == torch::kFloat16);
    const auto hidden = x.size(1);
    const auto tokens = x.size(0);
    const auto features = W.size(0);
    TORCH_CHECK(hidden % 16 == 0 && features % 16 == 0);
    auto out = torch::empty({tokens, features}, x.options());

    const int threads = WARPS * 32;
    const dim3 blocks((tokens + ROWS - 1) / ROWS, (features + WARPS * 16 - 1) / (WARPS * 16));
    const int shared_bytes = ROWS * (hidden + 8) * sizeof(half);
    ln_linear_kernel<<<blocks, threads, shared_bytes, at::cuda::getCurrentCUDAStream()>>>(
        (half*)x.data_ptr(), (half*)gamma.data_ptr(), (half*)beta.data_ptr(), (half*)W.data_ptr(),
        (half*)bias.data_ptr(), (half*)out.data_ptr(), tokens, hidden, features, (float)eps);
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("ln_linear", &ln_linear, "LayerNorm + Linear");
}
