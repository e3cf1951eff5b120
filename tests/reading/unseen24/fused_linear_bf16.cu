// fused_linear: y = act(x @ W.T + b), bfloat16, for inference on sm_80 and newer.
//
// x [..., in_features], W [out_features, in_features] (nn.Linear layout), b [out_features] or None,
// y [..., out_features]. Accumulation in fp32, one rounding to bf16 at the end.
// act: 0 none, 1 relu, 2 gelu (tanh approximation), 3 silu
//
// The epilogue goes through shared memory because the element order within a WMMA accumulator is
// unspecified, and the bias needs the column.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

#include <cuda_bf16.h>
#include <cuda_pipeline.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;
typedef __nv_bfloat16 bf16;

enum Activation : int { kNone = 0, kRelu = 1, kGeluTanh = 2, kSilu = 3 };

template <int ACT>
__device__ __forceinline__ float activate(float x) {
  if constexpr (ACT == kRelu) {
    return fmaxf(x, 0.f);
  } else if constexpr (ACT == kGeluTanh) {
    const float k0 = 0.7978845608028654f;  // sqrt(2/pi)
    const float k1 = 0.044715f;
    return 0.5f * x * (1.f + tanhf(k0 * (x + k1 * x * x * x)));
  } else if constexpr (ACT == kSilu) {
    return x / (1.f + __expf(-x));
  } else {
    return x;
  }
}

template <int BLOCK_M_, int BLOCK_N_, int WARPS_M_, int WARPS_N_>
struct Config {
  static constexpr int BLOCK_M = BLOCK_M_;
  static constexpr int BLOCK_N = BLOCK_N_;
  static constexpr int BLOCK_K = 32;
  static constexpr int STAGES = 3;
  static constexpr int WARPS_M = WARPS_M_;
  static constexpr int WARPS_N = WARPS_N_;
  static constexpr int THREADS = WARPS_M * WARPS_N * 32;
  static constexpr int FRAG_M = BLOCK_M / WARPS_M / 16;
  static constexpr int FRAG_N = BLOCK_N / WARPS_N / 16;
  static constexpr int LD = BLOCK_K + 16;       // bf16
  static constexpr int LD_OUT = BLOCK_N + 4;    // float
  static constexpr size_t TILES = sizeof(bf16) * STAGES * (BLOCK_M + BLOCK_N) * LD;
  static constexpr size_t OUT = sizeof(float) * BLOCK_M * LD_OUT;
  static constexpr size_t SMEM = TILES > OUT ? TILES : OUT;
};

template <typename C, int ACT, bool HAS_BIAS>
__global__ void __launch_bounds__(C::THREADS)
fused_linear_kernel(const bf16* __restrict__ x, const bf16* __restrict__ w, const bf16* __restrict__ bias,
                    bf16* __restrict__ y, int M, int N, int K) {
  extern __shared__ __align__(128) unsigned char smem[];
  bf16* sx = reinterpret_cast<bf16*>(smem);                     // [STAGES][BLOCK_M][LD]
  bf16* sw = sx + C::STAGES * C::BLOCK_M * C::LD;               // [STAGES][BLOCK_N][LD]
  float* sy = reinterpret_cast<float*>(smem);                   // reused by the epilogue

  const int m0 = blockIdx.y * C::BLOCK_M;
  const int n0 = blockIdx.x * C::BLOCK_N;
  const int warp = threadIdx.x / 32;
  const int wm = (warp / C::WARPS_N) * C::FRAG_M * 16;
  const int wn = (warp % C::WARPS_N) * C::FRAG_N * 16;

  auto load = [&](int stage, int k0) {
    bf16* dx = sx + stage * C::BLOCK_M * C::LD;
    bf16* dw = sw + stage * C::BLOCK_N * C::LD;
    constexpr int CHUNKS = C::BLOCK_K / 8;  // 16 bytes each
    for (int i = threadIdx.x; i < C::BLOCK_M * CHUNKS; i += C::THREADS) {
      const int r = i / CHUNKS, c = (i % CHUNKS) * 8;
      // rows behind M: zfill 16, nothing is read
      const bool in = m0 + r < M;
      __pipeline_memcpy_async(dx + r * C::LD + c, x + (size_t)(in ? m0 + r : 0) * K + k0 + c, 16, in ? 0 : 16);
    }
    for (int i = threadIdx.x; i < C::BLOCK_N * CHUNKS; i += C::THREADS) {
      const int r = i / CHUNKS, c = (i % CHUNKS) * 8;
      const bool in = n0 + r < N;
      __pipeline_memcpy_async(dw + r * C::LD + c, w + (size_t)(in ? n0 + r : 0) * K + k0 + c, 16, in ? 0 : 16);
    }
  };

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[C::FRAG_M][C::FRAG_N];
#pragma unroll
  for (int i = 0; i < C::FRAG_M; i++)
#pragma unroll
    for (int j = 0; j < C::FRAG_N; j++) wmma::fill_fragment(acc[i][j], 0.f);

  const int steps = K / C::BLOCK_K;
  for (int s = 0; s < C::STAGES - 1; s++) {
    if (s < steps) load(s, s * C::BLOCK_K);
    __pipeline_commit();
  }

  for (int s = 0; s < steps; s++) {
    __pipeline_wait_prior(C::STAGES - 2);
    __syncthreads();
    const int next = s + C::STAGES - 1;
    if (next < steps) load(next % C::STAGES, next * C::BLOCK_K);
    __pipeline_commit();

    const bf16* tx = sx + (s % C::STAGES) * C::BLOCK_M * C::LD;
    const bf16* tw = sw + (s % C::STAGES) * C::BLOCK_N * C::LD;
#pragma unroll
    for (int kk = 0; kk < C::BLOCK_K; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fa[C::FRAG_M];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> fb[C::FRAG_N];
#pragma unroll
      for (int i = 0; i < C::FRAG_M; i++) wmma::load_matrix_sync(fa[i], tx + (wm + i * 16) * C::LD + kk, C::LD);
#pragma unroll
      for (int j = 0; j < C::FRAG_N; j++) wmma::load_matrix_sync(fb[j], tw + (wn + j * 16) * C::LD + kk, C::LD);
#pragma unroll
      for (int i = 0; i < C::FRAG_M; i++)
#pragma unroll
        for (int j = 0; j < C::FRAG_N; j++) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
    }
  }

  __pipeline_wait_prior(0);
  __syncthreads();  // the tiles are dead, their memory becomes the output tile
#pragma unroll
  for (int i = 0; i < C::FRAG_M; i++)
#pragma unroll
    for (int j = 0; j < C::FRAG_N; j++)
      wmma::store_matrix_sync(sy + (wm + i * 16) * C::LD_OUT + wn + j * 16, acc[i][j], C::LD_OUT,
                              wmma::mem_row_major);
  __syncthreads();

  // N is a multiple of 8, so pairs are never split by the edge
  for (int i = threadIdx.x; i < C::BLOCK_M * C::BLOCK_N / 2; i += C::THREADS) {
    const int r = i / (C::BLOCK_N / 2);
    const int c = (i % (C::BLOCK_N / 2)) * 2;
    if (m0 + r >= M || n0 + c >= N) continue;
    float v0 = sy[r * C::LD_OUT + c];
    float v1 = sy[r * C::LD_OUT + c + 1];
    if (HAS_BIAS) {
      v0 += __bfloat162float(bias[n0 + c]);
      v1 += __bfloat162float(bias[n0 + c + 1]);
    }
    *reinterpret_cast<__nv_bfloat162*>(y + (size_t)(m0 + r) * N + n0 + c) =
        __floats2bfloat162_rn(activate<ACT>(v0), activate<ACT>(v1));
  }
}

template <typename C, int ACT>
void launch_config(const bf16* x, const bf16* w, const bf16* bias, bf16* y, int M, int N, int K,
                   cudaStream_t stream) {
  const dim3 grid((N + C::BLOCK_N - 1) / C::BLOCK_N, (M + C::BLOCK_M - 1) / C::BLOCK_M);
  auto* kernel = bias ? &fused_linear_kernel<C, ACT, true> : &fused_linear_kernel<C, ACT, false>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)C::SMEM);
  kernel<<<grid, C::THREADS, C::SMEM, stream>>>(x, w, bias, y, M, N, K);
}

template <int ACT>
void launch_act(const bf16* x, const bf16* w, const bf16* bias, bf16* y, int M, int N, int K, cudaStream_t stream) {
  if (M <= 32)
    launch_config<Config<32, 64, 1, 4>, ACT>(x, w, bias, y, M, N, K, stream);  // few tokens
  else
    launch_config<Config<64, 128, 2, 2>, ACT>(x, w, bias, y, M, N, K, stream);
}

void launch_fused_linear(const bf16* x, const bf16* w, const bf16* bias, bf16* y, int M, int N, int K, int act,
                         cudaStream_t stream) {
  switch (act) {
    case kRelu: launch_act<kRelu>(x, w, bias, y, M, N, K, stream); break;
    case kGeluTanh: launch_act<kGeluTanh>(x, w, bias, y, M, N, K, stream); break;
    case kSilu: launch_act<kSilu>(x, w, bias, y, M, N, K, stream); break;
    default: launch_act<kNone>(x, w, bias, y, M, N, K, stream);
  }
}

// ==== torch binding
torch::Tensor fused_linear(torch::Tensor x, torch::Tensor weight, c10::optional<torch::Tensor> bias, int64_t act) {
  TORCH_CHECK(x.is_cuda() && weight.is_cuda(), "fused_linear: tensors must be on the GPU");
  TORCH_CHECK(x.scalar_type() == at::kBFloat16 && weight.scalar_type() == at::kBFloat16, "fused_linear: bf16 only");
  TORCH_CHECK(weight.dim() == 2 && x.size(-1) == weight.size(1), "fused_linear: shapes do not fit");
  const int64_t K = weight.size(1), N = weight.size(0);
  TORCH_CHECK(K % 32 == 0, "in_features must be a multiple of 32");
  TORCH_CHECK(N % 8 == 0, "out_features must be a multiple of 8");
  TORCH_CHECK(act >= 0 && act <= 3, "unknown activation");

  auto x2 = x.reshape({-1, K}).contiguous();
  auto w = weight.contiguous();
  const int64_t M = x2.size(0);
  auto y = torch::empty({M, N}, x.options());

  const bf16* b = nullptr;
  torch::Tensor bias_c;
  if (bias.has_value()) {
    TORCH_CHECK(bias->numel() == N && bias->scalar_type() == at::kBFloat16, "bias must be bf16 [out_features]");
    bias_c = bias->contiguous();
    b = reinterpret_cast<const bf16*>(bias_c.data_ptr<at::BFloat16>());
  }
  launch_fused_linear(reinterpret_cast<const bf16*>(x2.data_ptr<at::BFloat16>()),
                      reinterpret_cast<const bf16*>(w.data_ptr<at::BFloat16>()), b,
                      reinterpret_cast<bf16*>(y.data_ptr<at::BFloat16>()), (int)M, (int)N, (int)K, (int)act,
                      at::cuda::getCurrentCUDAStream());

  auto shape = x.sizes().vec();
  shape.back() = N;
  return y.view(shape);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("fused_linear", &fused_linear, "act(x @ W.T + b) in bf16");
}
