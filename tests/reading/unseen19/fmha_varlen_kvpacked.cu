/*
 * Variable length attention for packed batches (no padding).
 *   q  : [total_q, H, D]
 *   kv : [total_k, 2, HK, D]
 *   o  : [total_q, H, D],   softmax_lse : [H, total_q]
 * The causal mask is aligned to the bottom right corner, so that it also serves chunked prefill.
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

namespace fmha {

struct Params {
  const half* q;
  const half* kv;
  half* o;
  float* softmax_lse;
  const int* cu_seqlens_q;
  const int* cu_seqlens_k;
  int h, hk, total_q;
  float scale_log2;  // softmax scale * log2(e)
};

__device__ __forceinline__ void mma16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void ldsm_x2_trans(uint32_t& r0, uint32_t& r1, const half* p) {
  uint32_t s = static_cast<uint32_t>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n" : "=r"(r0), "=r"(r1) : "r"(s));
}

__device__ __forceinline__ uint32_t pack(float x, float y) {
  half2 v = __floats2half2_rn(x, y);
  return *reinterpret_cast<uint32_t*>(&v);
}

template <int D, int BN, bool Causal>
__global__ void __launch_bounds__(128) fwd_kernel(const Params p) {
  constexpr int BM = 64;
  constexpr int LD = D + 8;
  __shared__ __align__(16) half sK[BN * LD];
  __shared__ __align__(16) half sV[BN * LD];

  const int b = blockIdx.z, head = blockIdx.y;
  const int q0 = p.cu_seqlens_q[b], lq = p.cu_seqlens_q[b + 1] - q0;
  const int k0 = p.cu_seqlens_k[b], lk = p.cu_seqlens_k[b + 1] - k0;
  const int m0 = blockIdx.x * BM;
  if (m0 >= lq) return;

  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int g = lane >> 2, t = lane & 3;
  const int kvh = head / (p.h / p.hk);
  const int shift = lk - lq;  // last query sees the last key
  const int rows[2] = {m0 + warp * 16 + g, m0 + warp * 16 + g + 8};

  // Q stays in registers
  uint32_t qf[D / 16][4];
#pragma unroll
  for (int kk = 0; kk < D / 16; ++kk)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = rows[i & 1], col = kk * 16 + t * 2 + (i >> 1) * 8;
      qf[kk][i] = row < lq ? *reinterpret_cast<const uint32_t*>(p.q + ((int64_t)(q0 + row) * p.h + head) * D + col) : 0u;
    }

  float o[D / 8][4];
#pragma unroll
  for (int j = 0; j < D / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) o[j][i] = 0.f;
  float mx[2] = {-INFINITY, -INFINITY}, l[2] = {0.f, 0.f};

  const int last = Causal ? min(lk, m0 + BM + shift) : lk;
  for (int n0 = 0; n0 < last; n0 += BN) {
    __syncthreads();
    for (int i = tid; i < BN * D / 8; i += 128) {
      const int row = i / (D / 8), col = i % (D / 8) * 8;
      uint4 kx = make_uint4(0, 0, 0, 0), vx = kx;
      if (n0 + row < lk) {
        const half* src = p.kv + ((int64_t)(k0 + n0 + row) * 2 * p.hk + kvh) * D + col;
        kx = *reinterpret_cast<const uint4*>(src);
        vx = *reinterpret_cast<const uint4*>(src + p.hk * D);
      }
      *reinterpret_cast<uint4*>(sK + row * LD + col) = kx;
      *reinterpret_cast<uint4*>(sV + row * LD + col) = vx;
    }
    __syncthreads();

    float s[BN / 8][4];
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
      s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0.f;
#pragma unroll
      for (int kk = 0; kk < D / 16; ++kk) {
        const half* ptr = sK + (j * 8 + g) * LD + kk * 16 + t * 2;
        mma16816(s[j], qf[kk], *reinterpret_cast<const uint32_t*>(ptr), *reinterpret_cast<const uint32_t*>(ptr + 8));
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int col = n0 + j * 8 + t * 2 + (i & 1);
        const bool dead = col >= lk || (Causal && col > rows[i >> 1] + shift);
        s[j][i] = dead ? -INFINITY : s[j][i] * p.scale_log2;
      }
    }

#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float m = mx[i];
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) m = fmaxf(m, fmaxf(s[j][2 * i], s[j][2 * i + 1]));
      m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
      m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2));
      const float base = m == -INFINITY ? 0.f : m;  // nothing visible yet
      const float corr = exp2f(mx[i] - base);
      float sum = 0.f;
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) {
        s[j][2 * i] = exp2f(s[j][2 * i] - base);
        s[j][2 * i + 1] = exp2f(s[j][2 * i + 1] - base);
        sum += s[j][2 * i] + s[j][2 * i + 1];
      }
      l[i] = l[i] * corr + sum;
      mx[i] = m;
#pragma unroll
      for (int j = 0; j < D / 8; ++j) o[j][2 * i] *= corr, o[j][2 * i + 1] *= corr;
    }

#pragma unroll
    for (int kk = 0; kk < BN / 16; ++kk) {
      const uint32_t a[4] = {pack(s[2 * kk][0], s[2 * kk][1]), pack(s[2 * kk][2], s[2 * kk][3]),
                             pack(s[2 * kk + 1][0], s[2 * kk + 1][1]), pack(s[2 * kk + 1][2], s[2 * kk + 1][3])};
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        uint32_t b0, b1;
        ldsm_x2_trans(b0, b1, sV + (kk * 16 + (lane & 15)) * LD + j * 8);
        mma16816(o[j], a, b0, b1);
      }
    }
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
    l[i] += __shfl_xor_sync(0xffffffff, l[i], 1);
    l[i] += __shfl_xor_sync(0xffffffff, l[i], 2);
    if (rows[i] >= lq) continue;
    const float inv = l[i] > 0.f ? 1.f / l[i] : 0.f;
    half* dst = p.o + ((int64_t)(q0 + rows[i]) * p.h + head) * D + t * 2;
#pragma unroll
    for (int j = 0; j < D / 8; ++j)
      *reinterpret_cast<uint32_t*>(dst + j * 8) = pack(o[j][2 * i] * inv, o[j][2 * i + 1] * inv);
    if (t == 0 && p.softmax_lse)
      p.softmax_lse[(int64_t)head * p.total_q + q0 + rows[i]] =
          l[i] > 0.f ? (mx[i] + log2f(l[i])) * 0.6931471805599453f : -INFINITY;
  }
}

}  // namespace fmha

extern "C" int fmha_varlen_fwd(const void* q, const void* kv, void* o, float* softmax_lse, const int* cu_seqlens_q,
                               const int* cu_seqlens_k, int batch, int total_q, int max_seqlen_q, int h, int hk, int d,
                               float softmax_scale, int causal, cudaStream_t stream) {
  if (h % hk != 0 || (d != 64 && d != 128)) return cudaErrorInvalidValue;
  fmha::Params p{(const half*)q, (const half*)kv, (half*)o, softmax_lse, cu_seqlens_q,
                 cu_seqlens_k,   h,               hk,       total_q,     softmax_scale * 1.4426950408889634f};
  dim3 grid((max_seqlen_q + 63) / 64, h, batch);
  if (d == 64)
    causal ? fmha::fwd_kernel<64, 64, true><<<grid, 128, 0, stream>>>(p)
           : fmha::fwd_kernel<64, 64, false><<<grid, 128, 0, stream>>>(p);
  else
    causal ? fmha::fwd_kernel<128, 32, true><<<grid, 128, 0, stream>>>(p)
           : fmha::fwd_kernel<128, 32, false><<<grid, 128, 0, stream>>>(p);
  return (int)cudaGetLastError();
}
