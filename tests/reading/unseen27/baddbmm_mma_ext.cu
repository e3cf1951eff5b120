// baddbmm for fp16 on tensor cores:   out[b] = beta * input[b] + alpha * a[b] @ b[b]
//   input / out : [B, M, N]   a : [B, M, K]   b : [B, K, N]   all contiguous, row-major
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <cstdint>

namespace {

constexpr int kTileM = 64;
constexpr int kTileN = 64;
constexpr int kTileK = 32;
constexpr int kThreads = 128;
constexpr int kPitchA = kTileK + 8;
constexpr int kPitchB = kTileN + 8;

__device__ __forceinline__ uint32_t smem_u32(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(addr));
}

__device__ __forceinline__ void ldsm_x2_t(uint32_t (&r)[2], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(addr));
}

__device__ __forceinline__ void mma16816(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__global__ void __launch_bounds__(kThreads)
baddbmm_kernel(const __half* __restrict__ input,
               const __half* __restrict__ mat1,
               const __half* __restrict__ mat2,
               __half* __restrict__ out,
               int M, int N, int K, float beta, float alpha) {
  __shared__ __align__(16) __half sA[kTileM * kPitchA];
  __shared__ __align__(16) __half sB[kTileK * kPitchB];

  const int64_t batch = blockIdx.z;
  mat1 += batch * M * K;
  mat2 += batch * K * N;
  input += batch * M * N;
  out += batch * M * N;

  const int m0 = blockIdx.y * kTileM;
  const int n0 = blockIdx.x * kTileN;
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const int wm = (warp >> 1) * 32;
  const int wn = (warp & 1) * 32;

  float acc[2][4][4] = {};

  for (int k0 = 0; k0 < K; k0 += kTileK) {
    for (int c = threadIdx.x; c < kTileM * kTileK / 8; c += kThreads) {
      const int r = c / (kTileK / 8);
      const int col = (c % (kTileK / 8)) * 8;
      uint4 v = make_uint4(0, 0, 0, 0);
      if (m0 + r < M && k0 + col < K)
        v = *reinterpret_cast<const uint4*>(mat1 + (int64_t)(m0 + r) * K + k0 + col);
      *reinterpret_cast<uint4*>(sA + r * kPitchA + col) = v;
    }
    for (int c = threadIdx.x; c < kTileK * kTileN / 8; c += kThreads) {
      const int r = c / (kTileN / 8);
      const int col = (c % (kTileN / 8)) * 8;
      uint4 v = make_uint4(0, 0, 0, 0);
      if (k0 + r < K && n0 + col < N)
        v = *reinterpret_cast<const uint4*>(mat2 + (int64_t)(k0 + r) * N + n0 + col);
      *reinterpret_cast<uint4*>(sB + r * kPitchB + col) = v;
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < kTileK; kk += 16) {
      uint32_t fa[2][4], fb[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        ldsm_x4(fa[i], smem_u32(sA + (wm + i * 16 + (lane & 15)) * kPitchA + kk + (lane >> 4) * 8));
#pragma unroll
      for (int j = 0; j < 4; ++j)
        ldsm_x2_t(fb[j], smem_u32(sB + (kk + (lane & 15)) * kPitchB + wn + j * 8));
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) mma16816(acc[i][j], fa[i], fb[j]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int col = n0 + wn + j * 8 + (lane & 3) * 2;
      if (col >= N) continue;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = m0 + wm + i * 16 + (lane >> 2) + h * 8;
        if (row >= M) continue;
        const int64_t off = (int64_t)row * N + col;
        float x = alpha * acc[i][j][h * 2];
        float y = alpha * acc[i][j][h * 2 + 1];
        if (beta != 0.f) {
          const float2 c = __half22float2(*reinterpret_cast<const __half2*>(input + off));
          x += beta * c.x;
          y += beta * c.y;
        }
        *reinterpret_cast<__half2*>(out + off) = __floats2half2_rn(x, y);
      }
    }
  }
}

}  // namespace

torch::Tensor baddbmm_fp16(torch::Tensor input, torch::Tensor a, torch::Tensor b, double beta, double alpha) {
  TORCH_CHECK(a.is_cuda() && b.is_cuda() && input.is_cuda(), "CUDA tensors expected");
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3 && input.dim() == 3, "3-D tensors expected");
  TORCH_CHECK(a.scalar_type() == torch::kHalf && b.scalar_type() == torch::kHalf &&
              input.scalar_type() == torch::kHalf, "fp16 expected");
  TORCH_CHECK(a.is_contiguous() && b.is_contiguous() && input.is_contiguous(), "contiguous tensors expected");
  const int B = a.size(0), M = a.size(1), K = a.size(2), N = b.size(2);
  TORCH_CHECK(b.size(0) == B && b.size(1) == K, "a and b do not match");
  TORCH_CHECK(input.size(0) == B && input.size(1) == M && input.size(2) == N, "input does not match");
  TORCH_CHECK(K % 8 == 0 && N % 8 == 0, "K and N must be multiples of 8");

  const c10::cuda::CUDAGuard guard(a.device());
  auto out = torch::empty({B, M, N}, a.options());
  dim3 grid((N + kTileN - 1) / kTileN, (M + kTileM - 1) / kTileM, B);
  baddbmm_kernel<<<grid, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const __half*>(input.data_ptr<at::Half>()),
      reinterpret_cast<const __half*>(a.data_ptr<at::Half>()),
      reinterpret_cast<const __half*>(b.data_ptr<at::Half>()),
      reinterpret_cast<__half*>(out.data_ptr<at::Half>()), M, N, K, (float)beta, (float)alpha);
  TORCH_CHECK(cudaGetLastError() == cudaSuccess, "baddbmm_kernel launch failed");
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("baddbmm_fp16", &baddbmm_fp16, "beta * input + alpha * (a @ b), fp16, tensor cores",
        py::arg("input"), py::arg("a"), py::arg("b"), py::arg("beta") = 1.0, py::arg("alpha") = 1.0);
}
