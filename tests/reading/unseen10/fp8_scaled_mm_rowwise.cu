#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <torch/all.h>

namespace fp8mm {

constexpr int kBlockM = 64;
constexpr int kBlockN = 64;
constexpr int kBlockK = 64;   // bytes == elements
constexpr int kSkew = 16;
constexpr int kNumWarps = 4;

__device__ __forceinline__ void mma_e4m3_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// D[m, n] = a_scales[m] * b_scales[n] * sum_k A[m, k] * B[n, k]  (+ bias[n])
template <typename OutT, bool kHasBias>
__global__ void __launch_bounds__(kNumWarps * 32)
scaled_mm_rowwise_kernel(OutT* __restrict__ out, const __nv_fp8_e4m3* __restrict__ a, const __nv_fp8_e4m3* __restrict__ b,
                         const float* __restrict__ a_scales, const float* __restrict__ b_scales,
                         const OutT* __restrict__ bias, int64_t M, int64_t N, int64_t K) {
  __shared__ __align__(16) uint8_t As[kBlockM][kBlockK + kSkew];
  __shared__ __align__(16) uint8_t Bs[kBlockN][kBlockK + kSkew];

  const int tid = threadIdx.x;
  const int warp_id = tid / 32, lane = tid % 32;
  const int group = lane >> 2, quad = lane & 3;
  const int64_t row0 = int64_t(blockIdx.y) * kBlockM;
  const int64_t col0 = int64_t(blockIdx.x) * kBlockN;

  float acc[8][4];
#pragma unroll
  for (int j = 0; j < 8; ++j)
#pragma unroll
    for (int r = 0; r < 4; ++r) acc[j][r] = 0.0f;

  for (int64_t k0 = 0; k0 < K; k0 += kBlockK) {
#pragma unroll
    for (int i = 0; i < (kBlockM * kBlockK) / (16 * kNumWarps * 32); ++i) {
      const int chunk = i * kNumWarps * 32 + tid;
      const int r = chunk / (kBlockK / 16), c = (chunk % (kBlockK / 16)) * 16;
      int4 va = make_int4(0, 0, 0, 0), vb = make_int4(0, 0, 0, 0);
      if (row0 + r < M) va = __ldg(reinterpret_cast<const int4*>(a + (row0 + r) * K + k0 + c));
      if (col0 + r < N) vb = __ldg(reinterpret_cast<const int4*>(b + (col0 + r) * K + k0 + c));
      *reinterpret_cast<int4*>(&As[r][c]) = va;
      *reinterpret_cast<int4*>(&Bs[r][c]) = vb;
    }
    __syncthreads();

#pragma unroll
    for (int ks = 0; ks < kBlockK; ks += 32) {
      uint32_t af[4];
      const int ar = warp_id * 16 + group;
      af[0] = *reinterpret_cast<const uint32_t*>(&As[ar][ks + quad * 4]);
      af[1] = *reinterpret_cast<const uint32_t*>(&As[ar + 8][ks + quad * 4]);
      af[2] = *reinterpret_cast<const uint32_t*>(&As[ar][ks + 16 + quad * 4]);
      af[3] = *reinterpret_cast<const uint32_t*>(&As[ar + 8][ks + 16 + quad * 4]);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        uint32_t bf[2];
        bf[0] = *reinterpret_cast<const uint32_t*>(&Bs[j * 8 + group][ks + quad * 4]);
        bf[1] = *reinterpret_cast<const uint32_t*>(&Bs[j * 8 + group][ks + 16 + quad * 4]);
        mma_e4m3_m16n8k32(acc[j], af, bf);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int half_row = 0; half_row < 2; ++half_row) {
    const int64_t row = row0 + warp_id * 16 + group + half_row * 8;
    if (row >= M) continue;
    const float sa = a_scales[row];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int64_t col = col0 + j * 8 + quad * 2 + e;
        if (col >= N) continue;
        float v = acc[j][half_row * 2 + e] * sa * b_scales[col];
        if constexpr (kHasBias) v += static_cast<float>(bias[col]);
        out[row * N + col] = static_cast<OutT>(v);
      }
    }
  }
}

template <typename OutT>
void launch(torch::Tensor& out, const torch::Tensor& a, const torch::Tensor& b, const torch::Tensor& a_scales,
            const torch::Tensor& b_scales, const c10::optional<torch::Tensor>& bias) {
  const int64_t M = a.size(0), K = a.size(1), N = b.size(1);
  dim3 grid((N + kBlockN - 1) / kBlockN, (M + kBlockM - 1) / kBlockM);
  auto stream = at::cuda::getCurrentCUDAStream().stream();
  auto* o = reinterpret_cast<OutT*>(out.data_ptr());
  auto* ap = reinterpret_cast<const __nv_fp8_e4m3*>(a.data_ptr());
  auto* bp = reinterpret_cast<const __nv_fp8_e4m3*>(b.data_ptr());
  if (bias.has_value()) {
    scaled_mm_rowwise_kernel<OutT, true><<<grid, kNumWarps * 32, 0, stream>>>(
        o, ap, bp, a_scales.data_ptr<float>(), b_scales.data_ptr<float>(),
        reinterpret_cast<const OutT*>(bias->data_ptr()), M, N, K);
  } else {
    scaled_mm_rowwise_kernel<OutT, false><<<grid, kNumWarps * 32, 0, stream>>>(
        o, ap, bp, a_scales.data_ptr<float>(), b_scales.data_ptr<float>(), nullptr, M, N, K);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace fp8mm

// b is (K, N) with stride(0) == 1, as torch._scaled_mm wants it
void fp8_scaled_mm(torch::Tensor& out, torch::Tensor const& a, torch::Tensor const& b, torch::Tensor const& a_scales,
                   torch::Tensor const& b_scales, c10::optional<torch::Tensor> const& bias) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && out.dim() == 2);
  TORCH_CHECK(a.scalar_type() == at::kFloat8_e4m3fn && b.scalar_type() == at::kFloat8_e4m3fn);
  TORCH_CHECK(a.stride(1) == 1 && b.stride(0) == 1, "a must be row major, b column major");
  TORCH_CHECK(a.size(1) % fp8mm::kBlockK == 0);
  TORCH_CHECK(a_scales.numel() == a.size(0) && b_scales.numel() == b.size(1));
  at::cuda::OptionalCUDAGuard const device_guard(device_of(a));
  if (out.scalar_type() == at::kBFloat16) {
    fp8mm::launch<__nv_bfloat16>(out, a, b, a_scales, b_scales, bias);
  } else {
    TORCH_CHECK(out.scalar_type() == at::kHalf);
    fp8mm::launch<__half>(out, a, b, a_scales, b_scales, bias);
  }
}
