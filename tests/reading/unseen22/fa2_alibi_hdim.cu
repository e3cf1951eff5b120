// Flash attention forward with ALiBi, bf16, [batch, seqlen, heads, head_dim].
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_bf16.h>
#include <cmath>

using bf16 = __nv_bfloat16;

struct Params {
  const bf16 *q, *k, *v;
  bf16* o;
  const float* alibi_slopes;  // [heads] or nullptr
  int batch, seqlen_q, seqlen_k, heads;
  int64_t q_batch_stride, q_row_stride, k_batch_stride, k_row_stride, o_batch_stride, o_row_stride;
  float softmax_scale;
};

__device__ __forceinline__ void mma_16816(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pack(float x, float y) {
  __nv_bfloat162 v = __floats2bfloat162_rn(x, y);
  return reinterpret_cast<uint32_t&>(v);
}

template <int kHeadDim, bool kCausal, bool kAlibi>
__global__ __launch_bounds__(64) void flash_fwd_alibi_kernel(const Params params) {
  constexpr int kM = 32, kN = 32, kLd = kHeadDim + 8, kLdT = kN + 8;
  __shared__ __align__(16) bf16 smem_k[kN * kLd];
  __shared__ __align__(16) bf16 smem_vt[kHeadDim * kLdT];

  const int head = blockIdx.y, b = blockIdx.z;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const bf16* q = params.q + b * params.q_batch_stride + head * kHeadDim;
  const bf16* k = params.k + b * params.k_batch_stride + head * kHeadDim;
  const bf16* v = params.v + b * params.k_batch_stride + head * kHeadDim;
  bf16* o = params.o + b * params.o_batch_stride + head * kHeadDim;
  const float slope = kAlibi ? params.alibi_slopes[head] : 0.f;

  const int rows[2] = {(int)blockIdx.x * kM + warp * 16 + g, (int)blockIdx.x * kM + warp * 16 + g + 8};
  uint32_t qf[kHeadDim / 16][4];
#pragma unroll
  for (int i = 0; i < kHeadDim / 16; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = rows[j & 1];
      qf[i][j] = row < params.seqlen_q ? *reinterpret_cast<const uint32_t*>(q + row * params.q_row_stride + i * 16 + t * 2 + (j >> 1) * 8) : 0u;
    }

  float acc[kHeadDim / 8][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0.f, 0.f};
  // the last key lies on the diagonal of the last query
  const int shift = params.seqlen_k - params.seqlen_q;
  const int n_end = kCausal ? min(params.seqlen_k, (int)(blockIdx.x + 1) * kM + shift) : params.seqlen_k;

  for (int n0 = 0; n0 < n_end; n0 += kN) {
    __syncthreads();
    for (int i = threadIdx.x; i < kN * kHeadDim / 2; i += 64) {
      const int r = i / (kHeadDim / 2), c = i % (kHeadDim / 2) * 2;
      __nv_bfloat162 kk = __floats2bfloat162_rn(0.f, 0.f), vv = kk;
      if (n0 + r < params.seqlen_k) {
        kk = *reinterpret_cast<const __nv_bfloat162*>(k + (n0 + r) * params.k_row_stride + c);
        vv = *reinterpret_cast<const __nv_bfloat162*>(v + (n0 + r) * params.k_row_stride + c);
      }
      *reinterpret_cast<__nv_bfloat162*>(&smem_k[r * kLd + c]) = kk;
      smem_vt[c * kLdT + r] = vv.x;
      smem_vt[(c + 1) * kLdT + r] = vv.y;
    }
    __syncthreads();

    float s[kN / 8][4] = {};
#pragma unroll
    for (int n = 0; n < kN / 8; ++n)
#pragma unroll
      for (int i = 0; i < kHeadDim / 16; ++i) {
        const bf16* p = &smem_k[(n * 8 + g) * kLd + i * 16 + t * 2];
        mma_16816(s[n], qf[i][0], qf[i][1], qf[i][2], qf[i][3], *reinterpret_cast<const uint32_t*>(p), *reinterpret_cast<const uint32_t*>(p + 8));
      }

#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float m = row_max[h];
#pragma unroll
      for (int n = 0; n < kN / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int col = n0 + n * 8 + t * 2 + e;
          float x = s[n][h * 2 + e] * params.softmax_scale;
          if (kAlibi) x -= slope * fabsf(rows[h] + shift - col);
          if (col >= params.seqlen_k || (kCausal && col > rows[h] + shift)) x = -INFINITY;
          s[n][h * 2 + e] = x;
          m = fmaxf(m, x);
        }
      m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
      m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
      const float base = m == -INFINITY ? 0.f : m;
      const float fix = __expf(row_max[h] - base);
      row_max[h] = m;
      row_sum[h] *= fix;
#pragma unroll
      for (int d = 0; d < kHeadDim / 8; ++d) {
        acc[d][h * 2] *= fix;
        acc[d][h * 2 + 1] *= fix;
      }
#pragma unroll
      for (int n = 0; n < kN / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          s[n][h * 2 + e] = __expf(s[n][h * 2 + e] - base);
          row_sum[h] += s[n][h * 2 + e];
        }
    }

#pragma unroll
    for (int i = 0; i < kN / 16; ++i) {
      const uint32_t a0 = pack(s[2 * i][0], s[2 * i][1]), a1 = pack(s[2 * i][2], s[2 * i][3]);
      const uint32_t a2 = pack(s[2 * i + 1][0], s[2 * i + 1][1]), a3 = pack(s[2 * i + 1][2], s[2 * i + 1][3]);
#pragma unroll
      for (int d = 0; d < kHeadDim / 8; ++d) {
        const bf16* p = &smem_vt[(d * 8 + g) * kLdT + i * 16 + t * 2];
        mma_16816(acc[d], a0, a1, a2, a3, *reinterpret_cast<const uint32_t*>(p), *reinterpret_cast<const uint32_t*>(p + 8));
      }
    }
  }

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float total = row_sum[h];
    total += __shfl_xor_sync(~0u, total, 1);
    total += __shfl_xor_sync(~0u, total, 2);
    const float inv = total > 0.f ? 1.f / total : 0.f;
    if (rows[h] >= params.seqlen_q) continue;
#pragma unroll
    for (int d = 0; d < kHeadDim / 8; ++d)
      *reinterpret_cast<uint32_t*>(o + rows[h] * params.o_row_stride + d * 8 + t * 2) = pack(acc[d][h * 2] * inv, acc[d][h * 2 + 1] * inv);
  }
}

#define BOOL_SWITCH(COND, NAME, ...)      \
  [&] {                                   \
    if (COND) {                           \
      constexpr static bool NAME = true;  \
      return __VA_ARGS__();               \
    } else {                              \
      constexpr static bool NAME = false; \
      return __VA_ARGS__();               \
    }                                     \
  }()

template <int kHeadDim>
void run_flash_fwd(const Params& params, bool causal, cudaStream_t stream) {
  dim3 grid((params.seqlen_q + 31) / 32, params.heads, params.batch);
  BOOL_SWITCH(causal, kCausal, [&] {
    BOOL_SWITCH(params.alibi_slopes != nullptr, kAlibi, [&] {
      flash_fwd_alibi_kernel<kHeadDim, kCausal, kAlibi><<<grid, 64, 0, stream>>>(params);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
  });
}

at::Tensor flash_attn_alibi(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, c10::optional<at::Tensor> alibi_slopes,
                            double softmax_scale, bool causal) {
  TORCH_CHECK(q.scalar_type() == at::kBFloat16 && q.stride(-1) == 1 && k.stride(-1) == 1 && v.stride(-1) == 1);
  TORCH_CHECK(k.strides() == v.strides());
  at::Tensor out = at::empty_like(q);
  Params p;
  p.q = reinterpret_cast<const bf16*>(q.data_ptr());
  p.k = reinterpret_cast<const bf16*>(k.data_ptr());
  p.v = reinterpret_cast<const bf16*>(v.data_ptr());
  p.o = reinterpret_cast<bf16*>(out.data_ptr());
  p.alibi_slopes = alibi_slopes.has_value() ? alibi_slopes->data_ptr<float>() : nullptr;
  p.batch = q.size(0);
  p.seqlen_q = q.size(1);
  p.seqlen_k = k.size(1);
  p.heads = q.size(2);
  p.q_batch_stride = q.stride(0);
  p.q_row_stride = q.stride(1);
  p.k_batch_stride = k.stride(0);
  p.k_row_stride = k.stride(1);
  p.o_batch_stride = out.stride(0);
  p.o_row_stride = out.stride(1);
  p.softmax_scale = softmax_scale;
  auto stream = at::cuda::getCurrentCUDAStream();
  switch (q.size(3)) {
    case 32: run_flash_fwd<32>(p, causal, stream); break;
    case 64: run_flash_fwd<64>(p, causal, stream); break;
    default: TORCH_CHECK(false, "head_dim must be 32 or 64");
  }
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("flash_attn_alibi", &flash_attn_alibi); }
