// FlashAttention-2 style forward on mma.sync, O stays in registers.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) \
  CHECK_CUDA(x);       \
  CHECK_CONTIGUOUS(x)

namespace {

constexpr int kBr = 64;  // query rows per block, 16 per warp
constexpr int kBc = 32;  // keys per step
constexpr int kWarps = 4;

__device__ inline uint32_t pack_half2(float lo, float hi) {
  half2 h = __floats2half2_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&h);
}

__device__ inline void mma_m16n8k16(float* c, const uint32_t* a, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void ldsm_x2_trans(uint32_t& r0, uint32_t& r1, const half* p) {
  uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n" : "=r"(r0), "=r"(r1) : "r"(addr));
}

template <int kHeadDim, bool kCausal>
__global__ void __launch_bounds__(kWarps * 32)
flash_fwd_kernel(const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v,
                 half* __restrict__ out, float* __restrict__ lse, int seqlen, float softmax_scale) {
  constexpr int kLd = kHeadDim + 8;
  constexpr int kSteps = kHeadDim / 16;
  __shared__ __align__(16) half sK[kBc * kLd];
  __shared__ __align__(16) half sV[kBc * kLd];

  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int g = lane / 4, t = lane % 4;
  const int64_t bh = blockIdx.y;
  const int64_t base = bh * seqlen * kHeadDim;
  const int row0 = blockIdx.x * kBr + warp * 16 + g;
  const int row1 = row0 + 8;

  uint32_t qf[kSteps][4];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const half* p0 = q + base + (int64_t)row0 * kHeadDim + s * 16 + t * 2;
    const half* p1 = q + base + (int64_t)row1 * kHeadDim + s * 16 + t * 2;
    qf[s][0] = row0 < seqlen ? *reinterpret_cast<const uint32_t*>(p0) : 0u;
    qf[s][1] = row1 < seqlen ? *reinterpret_cast<const uint32_t*>(p1) : 0u;
    qf[s][2] = row0 < seqlen ? *reinterpret_cast<const uint32_t*>(p0 + 8) : 0u;
    qf[s][3] = row1 < seqlen ? *reinterpret_cast<const uint32_t*>(p1 + 8) : 0u;
  }

  float acc[kHeadDim / 8][4] = {};
  float m0 = -INFINITY, m1 = -INFINITY, l0 = 0.f, l1 = 0.f;
  const float scale_log2 = softmax_scale * 1.4426950408889634f;

  const int last = kCausal ? min(seqlen, (int)(blockIdx.x + 1) * kBr) : seqlen;
  for (int start = 0; start < last; start += kBc) {
    __syncthreads();
    for (int i = tid; i < kBc * kHeadDim / 8; i += kWarps * 32) {
      const int r = i / (kHeadDim / 8), c = i % (kHeadDim / 8) * 8;
      float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);
      const int64_t off = base + (int64_t)(start + r) * kHeadDim + c;
      const bool ok = start + r < seqlen;
      *reinterpret_cast<float4*>(&sK[r * kLd + c]) = ok ? *reinterpret_cast<const float4*>(k + off) : zero;
      *reinterpret_cast<float4*>(&sV[r * kLd + c]) = ok ? *reinterpret_cast<const float4*>(v + off) : zero;
    }
    __syncthreads();

    float sc[kBc / 8][4] = {};
#pragma unroll
    for (int n = 0; n < kBc / 8; ++n) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const half* p = &sK[(n * 8 + g) * kLd + s * 16 + t * 2];
        mma_m16n8k16(sc[n], qf[s], *reinterpret_cast<const uint32_t*>(p), *reinterpret_cast<const uint32_t*>(p + 8));
      }
    }

    float cur0 = m0, cur1 = m1;
#pragma unroll
    for (int n = 0; n < kBc / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int col = start + n * 8 + t * 2 + (e & 1);
        const int row = e < 2 ? row0 : row1;
        if (col >= seqlen || (kCausal && col > row)) sc[n][e] = -INFINITY;
      }
      cur0 = fmaxf(cur0, fmaxf(sc[n][0], sc[n][1]));
      cur1 = fmaxf(cur1, fmaxf(sc[n][2], sc[n][3]));
    }
    cur0 = fmaxf(cur0, __shfl_xor_sync(0xffffffff, cur0, 1));
    cur0 = fmaxf(cur0, __shfl_xor_sync(0xffffffff, cur0, 2));
    cur1 = fmaxf(cur1, __shfl_xor_sync(0xffffffff, cur1, 1));
    cur1 = fmaxf(cur1, __shfl_xor_sync(0xffffffff, cur1, 2));

    const float a0 = exp2f((m0 - cur0) * scale_log2), a1 = exp2f((m1 - cur1) * scale_log2);
    m0 = cur0;
    m1 = cur1;
    l0 *= a0;
    l1 *= a1;
#pragma unroll
    for (int d = 0; d < kHeadDim / 8; ++d) {
      acc[d][0] *= a0;
      acc[d][1] *= a0;
      acc[d][2] *= a1;
      acc[d][3] *= a1;
    }
#pragma unroll
    for (int n = 0; n < kBc / 8; ++n) {
      sc[n][0] = exp2f((sc[n][0] - m0) * scale_log2);
      sc[n][1] = exp2f((sc[n][1] - m0) * scale_log2);
      sc[n][2] = exp2f((sc[n][2] - m1) * scale_log2);
      sc[n][3] = exp2f((sc[n][3] - m1) * scale_log2);
      l0 += sc[n][0] + sc[n][1];
      l1 += sc[n][2] + sc[n][3];
    }

#pragma unroll
    for (int s = 0; s < kBc / 16; ++s) {
      uint32_t pf[4] = {pack_half2(sc[2 * s][0], sc[2 * s][1]), pack_half2(sc[2 * s][2], sc[2 * s][3]),
                        pack_half2(sc[2 * s + 1][0], sc[2 * s + 1][1]), pack_half2(sc[2 * s + 1][2], sc[2 * s + 1][3])};
#pragma unroll
      for (int d = 0; d < kHeadDim / 8; ++d) {
        uint32_t b0, b1;
        ldsm_x2_trans(b0, b1, &sV[(s * 16 + lane % 16) * kLd + d * 8]);
        mma_m16n8k16(acc[d], pf, b0, b1);
      }
    }
  }

#pragma unroll
  for (int mask = 1; mask < 4; mask <<= 1) {
    l0 += __shfl_xor_sync(0xffffffff, l0, mask);
    l1 += __shfl_xor_sync(0xffffffff, l1, mask);
  }
  const float i0 = 1.f / l0, i1 = 1.f / l1;
#pragma unroll
  for (int d = 0; d < kHeadDim / 8; ++d) {
    if (row0 < seqlen)
      *reinterpret_cast<uint32_t*>(out + base + (int64_t)row0 * kHeadDim + d * 8 + t * 2) = pack_half2(acc[d][0] * i0, acc[d][1] * i0);
    if (row1 < seqlen)
      *reinterpret_cast<uint32_t*>(out + base + (int64_t)row1 * kHeadDim + d * 8 + t * 2) = pack_half2(acc[d][2] * i1, acc[d][3] * i1);
  }
  if (t == 0) {
    if (row0 < seqlen) lse[bh * seqlen + row0] = m0 * softmax_scale + logf(l0);
    if (row1 < seqlen) lse[bh * seqlen + row1] = m1 * softmax_scale + logf(l1);
  }
}

}  // namespace

std::vector<torch::Tensor> flash_fwd(torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal) {
  CHECK_INPUT(q);
  CHECK_INPUT(k);
  CHECK_INPUT(v);
  TORCH_CHECK(q.scalar_type() == torch::kFloat16, "only fp16 is supported");
  TORCH_CHECK(q.dim() == 4 && k.sizes() == q.sizes() && v.sizes() == q.sizes(), "q, k, v must be [B, H, N, D]");
  const auto B = q.size(0), H = q.size(1), N = q.size(2), D = q.size(3);
  TORCH_CHECK(D == 64, "head dim must be 64");
  const at::cuda::OptionalCUDAGuard device_guard(device_of(q));

  auto out = torch::empty_like(q);
  auto lse = torch::empty({B, H, N}, q.options().dtype(torch::kFloat32));
  const dim3 grid((N + kBr - 1) / kBr, B * H);
  auto stream = at::cuda::getCurrentCUDAStream().stream();
  auto kernel = causal ? &flash_fwd_kernel<64, true> : &flash_fwd_kernel<64, false>;
  kernel<<<grid, kWarps * 32, 0, stream>>>(reinterpret_cast<const half*>(q.data_ptr<at::Half>()),
                                           reinterpret_cast<const half*>(k.data_ptr<at::Half>()),
                                           reinterpret_cast<const half*>(v.data_ptr<at::Half>()),
                                           reinterpret_cast<half*>(out.data_ptr<at::Half>()), lse.data_ptr<float>(),
                                           static_cast<int>(N), 1.0f / std::sqrt(static_cast<float>(D)));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, lse};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &flash_fwd, "flash attention forward (CUDA)"); }
