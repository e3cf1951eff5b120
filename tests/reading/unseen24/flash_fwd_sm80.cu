// flash_fwd_sm80.cu
//
// Flash attention forward pass for Ampere, written from scratch to understand the FA2 paper.
//
//   O = softmax(Q K^T * scale [+ causal mask]) V,     LSE = log(sum(exp(...)))
//
// Q [B, H, Nq, D], K/V [B, H, Nk, D], half, contiguous.  D is 64 or 128.
// One block per (64 queries, head, batch), 4 warps, each of which owns 16 query rows, so softmax
// statistics never leave a quad of lanes.  P is never written to shared memory: the C layout of
// m16n8k16 is the A layout of the next mma.
//
// Limitations: forward only, no dropout, no GQA.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#include <cuda_fp16.h>
#include <cstdint>
#include <cmath>

namespace flash {

constexpr int kBr = 64;
constexpr int kBc = 64;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;

__device__ __forceinline__ uint32_t smem_u32(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(addr));
}

__device__ __forceinline__ void ldsm_x4_t(uint32_t (&r)[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(addr));
}

__device__ __forceinline__ void mma16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 16 byte copy that writes zeros where the row does not exist
__device__ __forceinline__ void cp16(void* dst, const void* src, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_u32(dst)), "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ uint32_t pack(float lo, float hi) {
  __half2 h = __floats2half2_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&h);
}

template <int D>
struct Smem {
  static constexpr int kStride = D + 8;  // padding against bank conflicts
  __half q[kBr][kStride];
  __half k[kBc][kStride];
  __half v[kBc][kStride];
};

template <int D>
__device__ __forceinline__ void load_tile(__half (*dst)[D + 8], const __half* src, int row0, int rows) {
  for (int i = threadIdx.x; i < 64 * (D / 8); i += kThreads) {
    const int r = i / (D / 8);
    const int c = (i % (D / 8)) * 8;
    const bool ok = row0 + r < rows;
    cp16(&dst[r][c], src + static_cast<int64_t>(ok ? row0 + r : 0) * D + c, ok);
  }
}

template <int D, bool kCausal>
__global__ void __launch_bounds__(kThreads)
flash_fwd_kernel(const __half* __restrict__ Q, const __half* __restrict__ K, const __half* __restrict__ V,
                 __half* __restrict__ O, float* __restrict__ LSE, int H, int Nq, int Nk, float scale) {
  extern __shared__ __align__(16) unsigned char raw[];
  Smem<D>& sm = *reinterpret_cast<Smem<D>*>(raw);

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int g = lane / 4, t = lane % 4;
  const int q0 = blockIdx.x * kBr;
  const int64_t bh = static_cast<int64_t>(blockIdx.z) * H + blockIdx.y;
  Q += bh * Nq * D;
  O += bh * Nq * D;
  K += bh * Nk * D;
  V += bh * Nk * D;
  LSE += bh * Nq;

  // bottom right aligned mask, as in FA 2.1: query i sees keys j <= i + Nk - Nq
  const int shift = Nk - Nq;

  load_tile<D>(sm.q, Q, q0, Nq);
  asm volatile("cp.async.commit_group;");
  asm volatile("cp.async.wait_group 0;");
  __syncthreads();

  uint32_t qf[D / 16][4];
#pragma unroll
  for (int kk = 0; kk < D / 16; ++kk)
    ldsm_x4(qf[kk], smem_u32(&sm.q[warp * 16 + (lane & 15)][kk * 16 + (lane >> 4) * 8]));

  float o[D / 8][4] = {};
  float m[2] = {-INFINITY, -INFINITY};
  float l[2] = {0.f, 0.f};
  const float scale_log2 = scale * 1.4426950408889634f;
  const int row[2] = {q0 + warp * 16 + g, q0 + warp * 16 + g + 8};

  int tiles = (Nk + kBc - 1) / kBc;
  if (kCausal) {
    const int last = min(Nk, q0 + kBr + shift);
    tiles = last > 0 ? (last + kBc - 1) / kBc : 0;
  }

  for (int j = 0; j < tiles; ++j) {
    const int k0 = j * kBc;
    __syncthreads();  // everyone is done with the previous tile
    load_tile<D>(sm.k, K, k0, Nk);
    asm volatile("cp.async.commit_group;");
    load_tile<D>(sm.v, V, k0, Nk);
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;");  // K is here, V may still fly
    __syncthreads();

    // S = Q K^T
    float s[kBc / 8][4] = {};
#pragma unroll
    for (int kk = 0; kk < D / 16; ++kk) {
#pragma unroll
      for (int n = 0; n < kBc / 16; ++n) {
        uint32_t b[4];
        ldsm_x4(b, smem_u32(&sm.k[n * 16 + (lane & 7) + (lane >> 4) * 8][kk * 16 + ((lane >> 3) & 1) * 8]));
        mma16816(s[2 * n], qf[kk], b[0], b[1]);
        mma16816(s[2 * n + 1], qf[kk], b[2], b[3]);
      }
    }

    // mask and row maximum
    float mx[2] = {m[0], m[1]};
#pragma unroll
    for (int n = 0; n < kBc / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int col = k0 + n * 8 + t * 2 + (e & 1);
        const bool hidden = col >= Nk || (kCausal && col > row[e >> 1] + shift);
        if (hidden) s[n][e] = -INFINITY;
        mx[e >> 1] = fmaxf(mx[e >> 1], s[n][e]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      mx[i] = fmaxf(mx[i], __shfl_xor_sync(0xffffffffu, mx[i], 1));
      mx[i] = fmaxf(mx[i], __shfl_xor_sync(0xffffffffu, mx[i], 2));
    }

    // rescale what we have
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float base = mx[i] == -INFINITY ? 0.f : mx[i];  // a row that has seen nothing yet
      const float corr = exp2f((m[i] - base) * scale_log2);
      l[i] *= corr;
      for (int d = 0; d < D / 8; ++d) {
        o[d][2 * i] *= corr;
        o[d][2 * i + 1] *= corr;
      }
      float sum = 0.f;
      for (int n = 0; n < kBc / 8; ++n) {
        s[n][2 * i] = exp2f((s[n][2 * i] - base) * scale_log2);
        s[n][2 * i + 1] = exp2f((s[n][2 * i + 1] - base) * scale_log2);
        sum += s[n][2 * i] + s[n][2 * i + 1];
      }
      l[i] += sum;  // of this lane alone, the quad is summed at the end
      m[i] = mx[i];
    }

    asm volatile("cp.async.wait_group 0;");
    __syncthreads();

    // O += P V
#pragma unroll
    for (int kk = 0; kk < kBc / 16; ++kk) {
      const uint32_t p[4] = {pack(s[2 * kk][0], s[2 * kk][1]), pack(s[2 * kk][2], s[2 * kk][3]),
                             pack(s[2 * kk + 1][0], s[2 * kk + 1][1]), pack(s[2 * kk + 1][2], s[2 * kk + 1][3])};
#pragma unroll
      for (int d = 0; d < D / 16; ++d) {
        uint32_t b[4];
        ldsm_x4_t(b, smem_u32(&sm.v[kk * 16 + (lane & 15)][d * 16 + (lane >> 4) * 8]));
        mma16816(o[2 * d], p, b[0], b[1]);
        mma16816(o[2 * d + 1], p, b[2], b[3]);
      }
    }
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
    l[i] += __shfl_xor_sync(0xffffffffu, l[i], 1);
    l[i] += __shfl_xor_sync(0xffffffffu, l[i], 2);
    if (row[i] >= Nq) continue;
    const float inv = l[i] > 0.f ? 1.f / l[i] : 0.f;  // rows without a key are zero
    for (int d = 0; d < D / 8; ++d)
      *reinterpret_cast<uint32_t*>(&O[static_cast<int64_t>(row[i]) * D + d * 8 + t * 2]) =
          pack(o[d][2 * i] * inv, o[d][2 * i + 1] * inv);
    if (t == 0) LSE[row[i]] = l[i] > 0.f ? m[i] * scale + logf(l[i]) : INFINITY;
  }
}

template <int D, bool kCausal>
void launch(const __half* q, const __half* k, const __half* v, __half* o, float* lse, int B, int H, int Nq, int Nk,
            float scale, cudaStream_t stream) {
  auto kernel = flash_fwd_kernel<D, kCausal>;
  const int bytes = sizeof(Smem<D>);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  kernel<<<dim3((Nq + kBr - 1) / kBr, H, B), kThreads, bytes, stream>>>(q, k, v, o, lse, H, Nq, Nk, scale);
}

}  // namespace flash

// ==== torch
#define CHECK_INPUT(x)                                         \
  TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor");       \
  TORCH_CHECK(x.is_contiguous(), #x " must be contiguous");    \
  TORCH_CHECK(x.scalar_type() == at::kHalf, #x " must be half")

std::vector<torch::Tensor> flash_fwd(torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal,
                                     c10::optional<double> softmax_scale) {
  CHECK_INPUT(q);
  CHECK_INPUT(k);
  CHECK_INPUT(v);
  TORCH_CHECK(k.sizes() == v.sizes(), "k and v must have the same shape");
  const int B = q.size(0), H = q.size(1), Nq = q.size(2), D = q.size(3);
  const int Nk = k.size(2);
  TORCH_CHECK(D == 64 || D == 128, "head dim must be 64 or 128");
  const c10::cuda::CUDAGuard guard(q.device());

  auto o = torch::empty_like(q);
  auto lse = torch::empty({B, H, Nq}, q.options().dtype(torch::kFloat32));
  const float scale = softmax_scale.has_value() ? *softmax_scale : 1.0 / std::sqrt(static_cast<double>(D));
  auto stream = at::cuda::getCurrentCUDAStream();

  auto ptr = [](torch::Tensor& x) { return reinterpret_cast<__half*>(x.data_ptr<at::Half>()); };
#define LAUNCH(DIM, CAUSAL) \
  flash::launch<DIM, CAUSAL>(ptr(q), ptr(k), ptr(v), ptr(o), lse.data_ptr<float>(), B, H, Nq, Nk, scale, stream)
  if (D == 64) {
    if (causal) LAUNCH(64, true); else LAUNCH(64, false);
  } else {
    if (causal) LAUNCH(128, true); else LAUNCH(128, false);
  }
#undef LAUNCH
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {o, lse};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &flash_fwd, "flash attention forward (sm80)", py::arg("q"), py::arg("k"), py::arg("v"),
        py::arg("causal") = false, py::arg("softmax_scale") = py::none());
}
