// LayerNorm + 线性层 + GELU 的融合实现 (PyTorch 扩展)
//
//   y = gelu( layer_norm(x, gamma, beta, eps) @ weight.T + bias )
//
// 两个 kernel:
//   1. row_stats_kernel   每行的均值和 1/标准差, 一个 warp 处理一行
//   2. ln_gemm_gelu       GEMM, 在读取 x 的同时做归一化, 不需要把归一化结果写回显存
//
// x [.., K] half, weight [N, K] half, gamma/beta [K] half, bias [N] half, y [.., N] half
// 要求: K 是 32 的倍数, N 是 64 的倍数; 行数任意. GELU 使用 erf 的精确版本 (同 F.gelu 默认).
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/extension.h>

using namespace nvcuda;

#define CHECK_HALF_CUDA(t)                                                   \
  TORCH_CHECK((t).is_cuda(), #t " 必须在 GPU 上");                           \
  TORCH_CHECK((t).is_contiguous(), #t " 必须是连续的");                      \
  TORCH_CHECK((t).scalar_type() == at::kHalf, #t " 必须是 float16")

constexpr int BM = 32;
constexpr int BN = 64;
constexpr int BK = 32;
constexpr int PAD = 8;
constexpr int NUM_THREADS = 128;  // 4 个 warp, 排成 2 x 2, 每个 warp 算 16 x 32

__device__ __forceinline__ float warp_sum(float v) {
  for (int mask = 16; mask > 0; mask >>= 1) v += __shfl_xor_sync(0xffffffff, v, mask);
  return v;
}

__device__ __forceinline__ float gelu_erf(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f)); }

// 两遍算法: 先均值, 再方差, 避免 E[x^2] - E[x]^2 的精度损失
__global__ void row_stats_kernel(const half* __restrict__ x, float2* __restrict__ stats, int M, int K, float eps) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= M) return;
  const half2* p = reinterpret_cast<const half2*>(x + (size_t)row * K);

  float sum = 0.f;
  for (int i = lane; i < K / 2; i += 32) {
    const float2 v = __half22float2(p[i]);
    sum += v.x + v.y;
  }
  const float mean = warp_sum(sum) / K;

  float sq = 0.f;
  for (int i = lane; i < K / 2; i += 32) {
    const float2 v = __half22float2(p[i]);
    sq += (v.x - mean) * (v.x - mean) + (v.y - mean) * (v.y - mean);
  }
  const float var = warp_sum(sq) / K;
  if (lane == 0) stats[row] = make_float2(mean, rsqrtf(var + eps));
}

__global__ void __launch_bounds__(NUM_THREADS)
ln_gemm_gelu(const half* __restrict__ x, const float2* __restrict__ stats, const half* __restrict__ gamma,
             const half* __restrict__ beta, const half* __restrict__ weight, const half* __restrict__ bias,
             half* __restrict__ y, int M, int N, int K) {
  __shared__ __align__(32) half xs[BM][BK + PAD];
  __shared__ __align__(32) half ws[BN][BK + PAD];
  __shared__ __align__(32) float ys[BM][BN + 4];

  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  const int tid = threadIdx.x;
  const int wm = tid / 64 * 16;
  const int wn = tid / 32 % 2 * 32;

  // x 的 tile 是 32 x 32, 每行 4 个 16 字节的块, 正好每个线程一块;
  // 因此每个线程始终处理同一行, 该行的统计量只需要读一次
  const int xr = tid / 4, xc = tid % 4 * 8;
  const bool row_ok = m0 + xr < M;
  const float2 st = row_ok ? stats[m0 + xr] : make_float2(0.f, 0.f);

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
  wmma::fill_fragment(acc[0], 0.f);
  wmma::fill_fragment(acc[1], 0.f);

  for (int k0 = 0; k0 < K; k0 += BK) {
    // 归一化后再放入共享内存
    __align__(16) half tmp[8];
    if (row_ok) {
      *reinterpret_cast<uint4*>(tmp) = *reinterpret_cast<const uint4*>(x + (size_t)(m0 + xr) * K + k0 + xc);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float g = __half2float(gamma[k0 + xc + i]);
        const float b = __half2float(beta[k0 + xc + i]);
        xs[xr][xc + i] = __float2half((__half2float(tmp[i]) - st.x) * st.y * g + b);
      }
    } else {
      *reinterpret_cast<uint4*>(&xs[xr][xc]) = make_uint4(0, 0, 0, 0);
    }
    // 权重 tile: 64 x 32, 每个线程两块
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = xr + i * 32;
      *reinterpret_cast<uint4*>(&ws[r][xc]) =
          *reinterpret_cast<const uint4*>(weight + (size_t)(n0 + r) * K + k0 + xc);
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
      wmma::load_matrix_sync(fa, &xs[wm][kk], BK + PAD);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;  // weight.T
        wmma::load_matrix_sync(fb, &ws[wn + j * 16][kk], BK + PAD);
        wmma::mma_sync(acc[j], fa, fb, acc[j]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int j = 0; j < 2; ++j) wmma::store_matrix_sync(&ys[wm][wn + j * 16], acc[j], BN + 4, wmma::mem_row_major);
  __syncthreads();

  for (int i = tid; i < BM * BN / 2; i += NUM_THREADS) {
    const int r = i / (BN / 2), c = i % (BN / 2) * 2;
    if (m0 + r >= M) continue;
    const float2 b = __half22float2(*reinterpret_cast<const half2*>(bias + n0 + c));
    *reinterpret_cast<half2*>(y + (size_t)(m0 + r) * N + n0 + c) =
        __floats2half2_rn(gelu_erf(ys[r][c] + b.x), gelu_erf(ys[r][c + 1] + b.y));
  }
}

torch::Tensor ln_linear_gelu(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, torch::Tensor weight,
                             torch::Tensor bias, double eps) {
  CHECK_HALF_CUDA(x);
  CHECK_HALF_CUDA(gamma);
  CHECK_HALF_CUDA(beta);
  CHECK_HALF_CUDA(weight);
  CHECK_HALF_CUDA(bias);
  const int K = x.size(-1), N = weight.size(0);
  const int M = x.numel() / K;
  TORCH_CHECK(weight.dim() == 2 && weight.size(1) == K, "weight 的形状应为 [N, K]");
  TORCH_CHECK(gamma.numel() == K && beta.numel() == K && bias.numel() == N, "参数形状不匹配");
  TORCH_CHECK(K % BK == 0 && N % BN == 0, "K 必须是 32 的倍数, N 必须是 64 的倍数");

  auto out_shape = x.sizes().vec();
  out_shape.back() = N;
  auto y = torch::empty(out_shape, x.options());
  auto stats = torch::empty({M, 2}, x.options().dtype(torch::kFloat32));
  if (M == 0) return y;

  auto stream = at::cuda::getCurrentCUDAStream();
  auto ptr = [](const torch::Tensor& t) { return reinterpret_cast<const half*>(t.data_ptr<at::Half>()); };
  float2* st = reinterpret_cast<float2*>(stats.data_ptr<float>());

  row_stats_kernel<<<(M + 3) / 4, 128, 0, stream>>>(ptr(x), st, M, K, (float)eps);
  dim3 grid(N / BN, (M + BM - 1) / BM);
  ln_gemm_gelu<<<grid, NUM_THREADS, 0, stream>>>(ptr(x), st, ptr(gamma), ptr(beta), ptr(weight), ptr(bias),
                                                 reinterpret_cast<half*>(y.data_ptr<at::Half>()), M, N, K);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("ln_linear_gelu", &ln_linear_gelu, "LayerNorm + Linear + GELU (CUDA)");
}
