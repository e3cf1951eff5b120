// GPTQ 4-bit weight x fp16 activation GEMM on tensor cores.
//
//   y[M, N] = x[M, K] @ dequant(qweight)[K, N]  (+ bias)
//
// Checkpoint layout (AutoGPTQ "old cuda", no act-order):
//   qweight int32 [K / 8, N]           8 consecutive k in one word, lowest nibble first
//   qzeros  int32 [K / group, N / 8]   8 consecutive n in one word, stored minus one
//   scales  half  [K / group, N]
//
//   w[k, n] = (q[k, n] - (z[g, n] + 1)) * s[g, n],     g = k / group
//
// Block tile 16/32/64 x 128 x 32, 128 threads, four warps next to each other in n.
// The weights are unpacked once per block into shared memory as fp16.

#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <stdint.h>

#define TILE_N 128
#define TILE_K 32
#define NTHREADS 128
#define A_STRIDE (TILE_K + 8)
#define B_STRIDE (TILE_N + 8)

#define DIVUP(a, b) (((a) + (b) - 1) / (b))

__device__ __forceinline__ unsigned cast_smem_ptr(const void* const ptr) {
  return (unsigned)__cvta_generic_to_shared(ptr);
}

// The 0x6400 trick: a half with bits 0x6400 | q is 1024 + q, exactly. So the pair of nibbles
// (lo, hi) becomes two halfs with one lop3 and one subtraction, which includes the zero point.
__device__ __forceinline__ half2 dequant_pair(uint32_t lo, uint32_t hi, half2 zero_1024, half2 scale) {
  const uint32_t bits = 0x64006400u | lo | (hi << 16);
  const half2 q = *reinterpret_cast<const half2*>(&bits);
  return __hmul2(__hsub2(q, zero_1024), scale);
}

template <int TILE_M>
__global__ void __launch_bounds__(NTHREADS)
gptq_gemm_kernel(const half* __restrict__ x, const uint32_t* __restrict__ qweight,
                 const uint32_t* __restrict__ qzeros, const half* __restrict__ scales,
                 const half* __restrict__ bias, half* __restrict__ y, const int M, const int N, const int K,
                 const int group) {
  __shared__ __align__(16) half sA[TILE_M * A_STRIDE];
  __shared__ __align__(16) half sB[TILE_K * B_STRIDE];  // [k][n]

  const int tid = threadIdx.x;
  const int warp = tid >> 5;
  const int lane = tid & 31;
  const int m0 = blockIdx.y * TILE_M;
  const int n0 = blockIdx.x * TILE_N;

  float acc[TILE_M / 16][4][4];
#pragma unroll
  for (int i = 0; i < TILE_M / 16; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[i][j][e] = 0.f;

  // each thread unpacks one column of the weight tile: 4 words of 8 k
  const int n = n0 + tid;
  const bool n_ok = n < N;

  int g_now = -1;
  half2 zero2 = __float2half2_rn(0.f), scale2 = __float2half2_rn(0.f);

  for (int k0 = 0; k0 < K; k0 += TILE_K) {
    // activations
    for (int i = tid; i < TILE_M * TILE_K / 8; i += NTHREADS) {
      const int r = i / (TILE_K / 8), c = (i % (TILE_K / 8)) * 8;
      uint4 v = make_uint4(0u, 0u, 0u, 0u);
      if (m0 + r < M) v = *reinterpret_cast<const uint4*>(x + (size_t)(m0 + r) * K + k0 + c);
      *reinterpret_cast<uint4*>(&sA[r * A_STRIDE + c]) = v;
    }
    // weights; TILE_K divides group, so that a tile has one group
    const int g = k0 / group;
    if (n_ok && g != g_now) {
      const uint32_t z = (qzeros[(size_t)g * (N / 8) + n / 8] >> ((n % 8) * 4)) & 0xF;
      zero2 = __half2half2(__int2half_rn(1024 + (int)z + 1));
      scale2 = __half2half2(scales[(size_t)g * N + n]);
      g_now = g;
    }
#pragma unroll
    for (int w = 0; w < TILE_K / 8; ++w) {
      const uint32_t q = n_ok ? qweight[(size_t)(k0 / 8 + w) * N + n] : 0u;
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const half2 v = dequant_pair((q >> (8 * p)) & 0xF, (q >> (8 * p + 4)) & 0xF, zero2, scale2);
        sB[(w * 8 + 2 * p) * B_STRIDE + tid] = __low2half(v);
        sB[(w * 8 + 2 * p + 1) * B_STRIDE + tid] = __high2half(v);
      }
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < TILE_K; kk += 16) {
      uint32_t b[4][2];
#pragma unroll
      for (int j = 0; j < 4; j += 2) {
        const unsigned addr = cast_smem_ptr(&sB[(kk + lane % 16) * B_STRIDE + warp * 32 + j * 8 + (lane / 16) * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                     : "=r"(b[j][0]), "=r"(b[j][1]), "=r"(b[j + 1][0]), "=r"(b[j + 1][1])
                     : "r"(addr));
      }
#pragma unroll
      for (int i = 0; i < TILE_M / 16; ++i) {
        uint32_t a[4];
        const unsigned addr = cast_smem_ptr(&sA[(i * 16 + lane % 16) * A_STRIDE + kk + (lane / 16) * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                     : "r"(addr));
#pragma unroll
        for (int j = 0; j < 4; ++j)
          asm volatile(
              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
              "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
              : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
              : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[j][0]), "r"(b[j][1]));
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < TILE_M / 16; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int col = n0 + warp * 32 + j * 8 + (lane % 4) * 2;
      if (col >= N) continue;
      float b0 = 0.f, b1 = 0.f;
      if (bias != nullptr) {
        b0 = __half2float(bias[col]);
        b1 = __half2float(bias[col + 1]);
      }
      const int row = m0 + i * 16 + lane / 4;
      if (row < M)
        *reinterpret_cast<half2*>(&y[(size_t)row * N + col]) = __floats2half2_rn(acc[i][j][0] + b0, acc[i][j][1] + b1);
      if (row + 8 < M)
        *reinterpret_cast<half2*>(&y[(size_t)(row + 8) * N + col]) =
            __floats2half2_rn(acc[i][j][2] + b0, acc[i][j][3] + b1);
    }
  }
}

void gptq_gemm_cuda(const half* x, const int* qweight, const int* qzeros, const half* scales, const half* bias,
                    half* y, int M, int N, int K, int group, cudaStream_t stream) {
#define GPTQ_LAUNCH(TM)                                                                                        \
  gptq_gemm_kernel<TM><<<dim3(DIVUP(N, TILE_N), DIVUP(M, TM)), NTHREADS, 0, stream>>>(                         \
      x, reinterpret_cast<const uint32_t*>(qweight), reinterpret_cast<const uint32_t*>(qzeros), scales, bias,  \
      y, M, N, K, group)
  if (M <= 16)
    GPTQ_LAUNCH(16);
  else if (M <= 32)
    GPTQ_LAUNCH(32);
  else
    GPTQ_LAUNCH(64);
#undef GPTQ_LAUNCH
}

// ==== torch binding
torch::Tensor gptq_gemm(torch::Tensor x, torch::Tensor qweight, torch::Tensor qzeros, torch::Tensor scales,
                        torch::optional<torch::Tensor> bias, int64_t group_size) {
  const at::cuda::OptionalCUDAGuard device_guard(device_of(x));
  TORCH_CHECK(x.dtype() == torch::kFloat16 && x.is_contiguous(), "x must be contiguous half");
  TORCH_CHECK(qweight.dtype() == torch::kInt32 && qzeros.dtype() == torch::kInt32);
  TORCH_CHECK(scales.dtype() == torch::kFloat16);
  const int K = x.size(-1);
  const int M = x.numel() / K;
  const int N = qweight.size(1);
  TORCH_CHECK(qweight.size(0) * 8 == K, "qweight does not fit x");
  const int group = group_size > 0 ? group_size : K;
  TORCH_CHECK(group % TILE_K == 0 && K % group == 0, "group size must be a multiple of 32 that divides K");
  TORCH_CHECK(N % 8 == 0, "N must be a multiple of 8");
  TORCH_CHECK(scales.size(0) == K / group && scales.size(1) == N);

  auto sizes = x.sizes().vec();
  sizes.back() = N;
  auto y = torch::empty(sizes, x.options());
  gptq_gemm_cuda(reinterpret_cast<const half*>(x.data_ptr<at::Half>()), qweight.data_ptr<int>(),
                 qzeros.data_ptr<int>(), reinterpret_cast<const half*>(scales.data_ptr<at::Half>()),
                 bias.has_value() ? reinterpret_cast<const half*>(bias->data_ptr<at::Half>()) : nullptr,
                 reinterpret_cast<half*>(y.data_ptr<at::Half>()), M, N, K, group,
                 at::cuda::getCurrentCUDAStream().stream());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("gptq_gemm", &gptq_gemm, "4-bit GPTQ GEMM", pybind11::arg("x"), pybind11::arg("qweight"),
        pybind11::arg("qzeros"), pybind11::arg("scales"), pybind11::arg("bias") = pybind11::none(),
        pybind11::arg("group_size") = 128);
}
