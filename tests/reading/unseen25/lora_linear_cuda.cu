// 融合 LoRA 线性层:  y = x W^T + b + scaling * (x A^T) B^T
//
//   x: [M, in]   W: [out, in]   b: [out]   A: [r, in]   B: [out, r]   全部 bf16
//
// 第一个核函数算 t = scaling * x A^T (窄矩阵, r <= 64)，以 bf16 存到临时张量；
// 第二个核函数先做 x W^T，再把 t B^T 接着累加到同一组寄存器里，最后加偏置。
// M、out 任意; in 和 r 是 16 的倍数。
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <torch/extension.h>

#include <vector>

typedef __nv_bfloat16 bf16_t;

#define CEIL_DIV(x, y) (((x) + (y)-1) / (y))

namespace {

// mma.m16n8k16，bf16 输入，fp32 累加
__device__ __forceinline__ void mma_bf16(float *d, const unsigned *a, const unsigned *b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

constexpr int TILE_M = 64;   // 4 个 warp，每个 16 行
constexpr int TILE_N = 32;
constexpr int TILE_K = 16;
constexpr int NTHREADS = 128;
constexpr int LDS = TILE_K + 8;

// acc += X[m0.., 0..K) * Y[n0.., 0..K)^T，X 和 Y 都是行主序、K 连续
__device__ void accumulate_nt(float acc[TILE_N / 8][4], const bf16_t *X, const bf16_t *Y, int m0, int n0, int M, int N,
                              int K, bf16_t (*xs)[LDS], bf16_t (*ys)[LDS]) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int g = lane >> 2, t = lane & 3;
  for (int k0 = 0; k0 < K; k0 += TILE_K) {
    {
      int r = threadIdx.x >> 1, c = (threadIdx.x & 1) * 8;  // 64 行 x 2 个 16 字节
      int4 v = {0, 0, 0, 0};
      if (m0 + r < M) v = *(const int4 *)(X + (size_t)(m0 + r) * K + k0 + c);
      *(int4 *)&xs[r][c] = v;
    }
    if (threadIdx.x < TILE_N * 2) {
      int r = threadIdx.x >> 1, c = (threadIdx.x & 1) * 8;
      int4 v = {0, 0, 0, 0};
      if (n0 + r < N) v = *(const int4 *)(Y + (size_t)(n0 + r) * K + k0 + c);
      *(int4 *)&ys[r][c] = v;
    }
    __syncthreads();

    unsigned a[4];
    a[0] = *(const unsigned *)&xs[warp * 16 + g][t * 2];
    a[1] = *(const unsigned *)&xs[warp * 16 + g + 8][t * 2];
    a[2] = *(const unsigned *)&xs[warp * 16 + g][t * 2 + 8];
    a[3] = *(const unsigned *)&xs[warp * 16 + g + 8][t * 2 + 8];
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) {
      unsigned b[2];
      b[0] = *(const unsigned *)&ys[j * 8 + g][t * 2];
      b[1] = *(const unsigned *)&ys[j * 8 + g][t * 2 + 8];
      mma_bf16(acc[j], a, b);
    }
    __syncthreads();
  }
}

// t = scaling * x A^T
__global__ void lora_down_kernel(const bf16_t *__restrict__ x, const bf16_t *__restrict__ lora_a,
                                 bf16_t *__restrict__ tmp, int M, int in_features, int rank, float scaling) {
  __shared__ __align__(16) bf16_t xs[TILE_M][LDS];
  __shared__ __align__(16) bf16_t ys[TILE_N][LDS];
  const int m0 = blockIdx.x * TILE_M, n0 = blockIdx.y * TILE_N;
  float acc[TILE_N / 8][4] = {};
  accumulate_nt(acc, x, lora_a, m0, n0, M, rank, in_features, xs, ys);

  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  for (int j = 0; j < TILE_N / 8; ++j)
    for (int i = 0; i < 4; ++i) {
      int row = m0 + warp * 16 + (lane >> 2) + (i >> 1) * 8;
      int col = n0 + j * 8 + (lane & 3) * 2 + (i & 1);
      if (row < M && col < rank) tmp[(size_t)row * rank + col] = __float2bfloat16(acc[j][i] * scaling);
    }
}

// y = x W^T + t B^T + b
template <bool HAS_BIAS>
__global__ void lora_up_fused_kernel(const bf16_t *__restrict__ x, const bf16_t *__restrict__ weight,
                                     const bf16_t *__restrict__ bias, const bf16_t *__restrict__ tmp,
                                     const bf16_t *__restrict__ lora_b, bf16_t *__restrict__ y, int M,
                                     int in_features, int out_features, int rank) {
  __shared__ __align__(16) bf16_t xs[TILE_M][LDS];
  __shared__ __align__(16) bf16_t ys[TILE_N][LDS];
  const int m0 = blockIdx.x * TILE_M, n0 = blockIdx.y * TILE_N;
  float acc[TILE_N / 8][4] = {};
  accumulate_nt(acc, x, weight, m0, n0, M, out_features, in_features, xs, ys);
  accumulate_nt(acc, tmp, lora_b, m0, n0, M, out_features, rank, xs, ys);

  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  for (int j = 0; j < TILE_N / 8; ++j)
    for (int i = 0; i < 4; ++i) {
      int row = m0 + warp * 16 + (lane >> 2) + (i >> 1) * 8;
      int col = n0 + j * 8 + (lane & 3) * 2 + (i & 1);
      if (row < M && col < out_features) {
        float v = acc[j][i];
        if (HAS_BIAS) v += __bfloat162float(bias[col]);
        y[(size_t)row * out_features + col] = __float2bfloat16(v);
      }
    }
}

const bf16_t *ptr(const torch::Tensor &t) { return reinterpret_cast<const bf16_t *>(t.data_ptr<at::BFloat16>()); }

}  // namespace

torch::Tensor lora_linear_forward(torch::Tensor input, torch::Tensor weight, c10::optional<torch::Tensor> bias,
                                  torch::Tensor lora_a, torch::Tensor lora_b, double scaling) {
  TORCH_CHECK(input.is_cuda() && weight.is_cuda() && lora_a.is_cuda() && lora_b.is_cuda(), "需要 CUDA 张量");
  TORCH_CHECK(input.dtype() == torch::kBFloat16, "只支持 bfloat16");
  TORCH_CHECK(input.dim() == 2 && weight.dim() == 2);
  input = input.contiguous();
  weight = weight.contiguous();
  lora_a = lora_a.contiguous();
  lora_b = lora_b.contiguous();

  const int M = input.size(0), in_features = input.size(1);
  const int out_features = weight.size(0), rank = lora_a.size(0);
  TORCH_CHECK(weight.size(1) == in_features && lora_a.size(1) == in_features);
  TORCH_CHECK(lora_b.size(0) == out_features && lora_b.size(1) == rank);
  TORCH_CHECK(in_features % 16 == 0 && rank % 16 == 0 && rank <= 64);

  auto tmp = torch::empty({M, rank}, input.options());
  auto output = torch::empty({M, out_features}, input.options());
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();

  bf16_t *tmp_ptr = reinterpret_cast<bf16_t *>(tmp.data_ptr<at::BFloat16>());
  bf16_t *out_ptr = reinterpret_cast<bf16_t *>(output.data_ptr<at::BFloat16>());

  dim3 grid_down(CEIL_DIV(M, TILE_M), CEIL_DIV(rank, TILE_N));
  lora_down_kernel<<<grid_down, NTHREADS, 0, stream>>>(ptr(input), ptr(lora_a), tmp_ptr, M, in_features, rank,
                                                       (float)scaling);

  dim3 grid_up(CEIL_DIV(M, TILE_M), CEIL_DIV(out_features, TILE_N));
  if (bias.has_value()) {
    lora_up_fused_kernel<true><<<grid_up, NTHREADS, 0, stream>>>(ptr(input), ptr(weight), ptr(*bias), tmp_ptr,
                                                                 ptr(lora_b), out_ptr, M, in_features, out_features,
                                                                 rank);
  } else {
    lora_up_fused_kernel<false><<<grid_up, NTHREADS, 0, stream>>>(ptr(input), ptr(weight), nullptr, tmp_ptr,
                                                                  ptr(lora_b), out_ptr, M, in_features, out_features,
                                                                  rank);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &lora_linear_forward, "融合 LoRA 线性层 前向 (CUDA)");
}
