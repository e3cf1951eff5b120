// Weight-only int8 linear:  y = (x @ w_q.T) * scale
//   x      fp16 [M, K]
//   w_q    int8 [N, K], symmetric, per output channel
//   scale  fp16 [N]
//
// int8 -> fp16 is exact, so the weights are widened while the B fragments are
// built and the scale only shows up in the epilogue.
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_fp16.h>
#include <stdint.h>

static constexpr int WARP = 32;

__device__ __forceinline__ uint32_t pack2(int8_t lo, int8_t hi)
{
    half2 h = __halves2half2(__short2half_rn(lo), __short2half_rn(hi));
    return *(uint32_t *)&h;
}

template <int kWarps, int kTilesN>
__global__ void w8a16_linear_kernel(const half *__restrict__ x, const int8_t *__restrict__ wq,
                                    const half *__restrict__ scale, half *__restrict__ y,
                                    int64_t M, int64_t N, int64_t K)
{
    // CTA tile: (16 * kWarps) x (8 * kTilesN), K in steps of 16. x goes through shared memory, w does not.
    constexpr int kRows = 16 * kWarps;
    __shared__ __align__(16) half xs[2][kRows][16 + 8];

    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int g = lane / 4, t = lane % 4;
    const int64_t row0 = (int64_t)blockIdx.x * kRows;
    const int64_t col0 = (int64_t)blockIdx.y * (8 * kTilesN);

    float acc[kTilesN][4];
    for (int j = 0; j < kTilesN; ++j)
        for (int e = 0; e < 4; ++e)
            acc[j][e] = 0.f;

    // kRows rows x two 16-byte chunks; one chunk per thread
    const int ld_row = threadIdx.x / 2, ld_col = (threadIdx.x % 2) * 8;
    auto fetch = [&](int64_t k0) -> uint4 {
        if (row0 + ld_row < M && k0 + ld_col < K)
            return *reinterpret_cast<const uint4 *>(x + (row0 + ld_row) * K + k0 + ld_col);
        return uint4{0, 0, 0, 0};
    };

    uint4 next = fetch(0);
    int buf = 0;
    for (int64_t k0 = 0; k0 < K; k0 += 16, buf ^= 1) {
        *reinterpret_cast<uint4 *>(&xs[buf][ld_row][ld_col]) = next;
        __syncthreads();                       // one barrier per step is enough with two buffers
        if (k0 + 16 < K)
            next = fetch(k0 + 16);

        uint32_t a0, a1, a2, a3;
        const uint32_t addr =
            (uint32_t)__cvta_generic_to_shared(&xs[buf][warp * 16 + lane % 16][(lane / 16) * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a0), "=r"(a1), "=r"(a2), "=r"(a3)
                     : "r"(addr));
#pragma unroll
        for (int j = 0; j < kTilesN; ++j) {
            const int64_t n = col0 + j * 8 + g;
            uint32_t b0 = 0, b1 = 0;
            if (n < N) {
                const char2 lo = *reinterpret_cast<const char2 *>(wq + n * K + k0 + t * 2);
                b0 = pack2(lo.x, lo.y);
                if (k0 + 8 < K) {
                    const char2 hi = *reinterpret_cast<const char2 *>(wq + n * K + k0 + t * 2 + 8);
                    b1 = pack2(hi.x, hi.y);
                }
            }
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                         "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
                         : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
        }
    }

#pragma unroll
    for (int j = 0; j < kTilesN; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int64_t m = row0 + warp * 16 + g + (e / 2) * 8;
            const int64_t n = col0 + j * 8 + t * 2 + e % 2;
            if (m < M && n < N)
                y[m * N + n] = __float2half_rn(acc[j][e] * __half2float(scale[n]));
        }
}

torch::Tensor w8a16_linear(const torch::Tensor &x, const torch::Tensor &w_q, const torch::Tensor &scale)
{
    TORCH_CHECK(x.scalar_type() == torch::kFloat16);
    TORCH_CHECK(w_q.scalar_type() == torch::kInt8);
    TORCH_CHECK(x.size(-1) == w_q.size(1), "K mismatch: ", x.size(-1), " vs ", w_q.size(1));
    TORCH_CHECK(w_q.size(1) % 8 == 0, "in_features must be divisible by 8");
    auto x2 = x.contiguous().view({-1, x.size(-1)});
    const int64_t M = x2.size(0), K = x2.size(1), N = w_q.size(0);
    auto y = torch::empty({M, N}, x2.options());
    auto s = c10::cuda::getCurrentCUDAStream();
    const half *xp = reinterpret_cast<const half *>(x2.data_ptr<at::Half>());
    const half *sp = reinterpret_cast<const half *>(scale.data_ptr<at::Half>());
    half *yp = reinterpret_cast<half *>(y.data_ptr<at::Half>());
    if (M <= 32) {
        constexpr int W = 2, TN = 4;
        dim3 grid((M + 16 * W - 1) / (16 * W), (N + 8 * TN - 1) / (8 * TN));
        w8a16_linear_kernel<W, TN><<<grid, W * WARP, 0, s>>>(xp, w_q.data_ptr<int8_t>(), sp, yp, M, N, K);
    } else {
        constexpr int W = 4, TN = 8;
        dim3 grid((M + 16 * W - 1) / (16 * W), (N + 8 * TN - 1) / (8 * TN));
        w8a16_linear_kernel<W, TN><<<grid, W * WARP, 0, s>>>(xp, w_q.data_ptr<int8_t>(), sp, yp, M, N, K);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.def("w8a16_linear", &w8a16_linear, py::arg("x"), py::arg("w_q"), py::arg("scale"));
}
