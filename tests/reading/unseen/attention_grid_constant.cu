#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cfloat>
#include <cstdint>
#include <cstring>

// Attention forward, double-buffered K/V through cp.async, params through
// __grid_constant__ so that nothing is copied into local memory.

namespace attn {

struct TensorView {
  void* ptr;
  int64_t batch_stride;
  int64_t row_stride;
  int64_t head_stride;
};

struct AttnParams {
  TensorView q, k, v, o;
  float* lse;          // [B, H, Sq] natural log, may be nullptr
  struct {
    int batch, heads, sq, sk;
  } shape;
  float scale;
};

// --- small PTX wrappers ------------------------------------------------------
__device__ inline unsigned shared_addr(const half* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ inline void copy16(half* dst, const half* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_addr(dst)), "l"(src));
}

struct Frag4 { unsigned r[4]; };

__device__ inline Frag4 ldmatrix(const half* p) {
  Frag4 f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3]) : "r"(shared_addr(p)));
  return f;
}
__device__ inline Frag4 ldmatrix_trans(const half* p) {
  Frag4 f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3]) : "r"(shared_addr(p)));
  return f;
}
__device__ inline void mma(float4& c, const Frag4& a, unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w)
               : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
}
__device__ inline unsigned h2(float a, float b) {
  half2 h = __floats2half2_rn(a, b);
  unsigned u;
  memcpy(&u, &h, 4);
  return u;
}

constexpr int kM = 64, kN = 32, kWarps = kM / 16, kStages = 2;

template <int D, bool kCausal>
__global__ void __launch_bounds__(kWarps * 32) forward(const __grid_constant__ AttnParams p) {
  constexpr int LD = D + 8;
  constexpr int kVec = D / 8;
  extern __shared__ __align__(16) half smem[];
  half* sQ = smem;                              // [kM][LD]
  half* sK = sQ + kM * LD;                      // [kStages][kN][LD]
  half* sV = sK + kStages * kN * LD;            // [kStages][kN][LD]

  const int m0 = (gridDim.x - 1 - blockIdx.x) * kM;   // long rows first when causal
  const int h = blockIdx.y, b = blockIdx.z;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int sq = p.shape.sq, sk = p.shape.sk;

  const half* q = (const half*)p.q.ptr + b * p.q.batch_stride + h * p.q.head_stride;
  const half* k = (const half*)p.k.ptr + b * p.k.batch_stride + h * p.k.head_stride;
  const half* v = (const half*)p.v.ptr + b * p.v.batch_stride + h * p.v.head_stride;

  for (int i = threadIdx.x; i < kM * kVec; i += kWarps * 32) {
    const int r = min(m0 + i / kVec, sq - 1);         // clamp: extra rows are never stored
    copy16(sQ + i / kVec * LD + i % kVec * 8, q + r * p.q.row_stride + i % kVec * 8);
  }
  auto load_kv = [&](int n0, int stage) {
    for (int i = threadIdx.x; i < kN * kVec; i += kWarps * 32) {
      const int r = min(n0 + i / kVec, sk - 1);       // clamp: masked below
      const int dst = (stage * kN + i / kVec) * LD + i % kVec * 8;
      copy16(sK + dst, k + r * p.k.row_stride + i % kVec * 8);
      copy16(sV + dst, v + r * p.v.row_stride + i % kVec * 8);
    }
    asm volatile("cp.async.commit_group;");
  };

  const int last = kCausal ? min(sk, m0 + kM) : sk;
  const int tiles = (last + kN - 1) / kN;
  load_kv(0, 0);

  float4 o[D / 8];
  for (auto& x : o) x = make_float4(0, 0, 0, 0);
  float mx[2] = {-FLT_MAX, -FLT_MAX}, sum[2] = {0, 0};
  const float c = p.scale * 1.44269504088896340736f;
  const int row = m0 + warp * 16 + lane / 4;

  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) {
      load_kv((t + 1) * kN, (t + 1) % kStages);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();
    const half* tk = sK + t % kStages * kN * LD;
    const half* tv = sV + t % kStages * kN * LD;

    float4 s[kN / 8];
    for (auto& x : s) x = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int d = 0; d < D; d += 16) {
      const Frag4 a = ldmatrix(sQ + (warp * 16 + lane % 16) * LD + d + lane / 16 * 8);
#pragma unroll
      for (int n = 0; n < kN / 16; ++n) {
        // non-transposed K rows are the columns of K^T: r[0], r[2] -> low 8 keys; r[1], r[3] -> high 8 keys
        const Frag4 kb = ldmatrix(tk + (n * 16 + lane % 16) * LD + d + lane / 16 * 8);
        mma(s[2 * n], a, kb.r[0], kb.r[2]);
        mma(s[2 * n + 1], a, kb.r[1], kb.r[3]);
      }
    }

    float tile_mx[2] = {-FLT_MAX, -FLT_MAX};
#pragma unroll
    for (int n = 0; n < kN / 8; ++n) {
      float* e = reinterpret_cast<float*>(&s[n]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int col = t * kN + n * 8 + lane % 4 * 2 + i % 2;
        if (col >= sk || (kCausal && col > row + i / 2 * 8)) e[i] = -FLT_MAX;
        tile_mx[i / 2] = fmaxf(tile_mx[i / 2], e[i]);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      for (int off = 1; off <= 2; off <<= 1) tile_mx[r] = fmaxf(tile_mx[r], __shfl_xor_sync(~0u, tile_mx[r], off));
      const float next = fmaxf(mx[r], tile_mx[r]);
      const float alpha = exp2f((mx[r] - next) * c);
      mx[r] = next;
      sum[r] *= alpha;
#pragma unroll
      for (auto& x : o) {
        if (r == 0) { x.x *= alpha; x.y *= alpha; }
        else        { x.z *= alpha; x.w *= alpha; }
      }
    }
#pragma unroll
    for (int n = 0; n < kN / 8; ++n) {
      s[n].x = exp2f((s[n].x - mx[0]) * c);
      s[n].y = exp2f((s[n].y - mx[0]) * c);
      s[n].z = exp2f((s[n].z - mx[1]) * c);
      s[n].w = exp2f((s[n].w - mx[1]) * c);
      sum[0] += s[n].x + s[n].y;
      sum[1] += s[n].z + s[n].w;
    }

#pragma unroll
    for (int n = 0; n < kN / 16; ++n) {
      const Frag4 pa = {{h2(s[2 * n].x, s[2 * n].y), h2(s[2 * n].z, s[2 * n].w),
                         h2(s[2 * n + 1].x, s[2 * n + 1].y), h2(s[2 * n + 1].z, s[2 * n + 1].w)}};
#pragma unroll
      for (int d = 0; d < D / 16; ++d) {
        const Frag4 vb = ldmatrix_trans(tv + (n * 16 + lane % 16) * LD + d * 16 + lane / 16 * 8);
        mma(o[2 * d], pa, vb.r[0], vb.r[1]);
        mma(o[2 * d + 1], pa, vb.r[2], vb.r[3]);
      }
    }
    __syncthreads();
  }

  half* out = (half*)p.o.ptr + b * p.o.batch_stride + h * p.o.head_stride;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float total = sum[r] + __shfl_xor_sync(~0u, sum[r], 1);
    total += __shfl_xor_sync(~0u, total, 2);
    const int i = row + r * 8;
    if (i >= sq) continue;
    const float inv = 1.f / total;
#pragma unroll
    for (int d = 0; d < D / 8; ++d) {
      const float x = r ? o[d].z : o[d].x, y = r ? o[d].w : o[d].y;
      *(half2*)(out + i * p.o.row_stride + d * 8 + lane % 4 * 2) = __floats2half2_rn(x * inv, y * inv);
    }
    if (p.lse != nullptr && lane % 4 == 0)
      p.lse[((int64_t)b * p.shape.heads + h) * sq + i] = mx[r] * p.scale + logf(total);
  }
}

template <int D>
cudaError_t run(const AttnParams& p, bool causal, cudaStream_t stream) {
  const int bytes = (kM + 2 * kStages * kN) * (D + 8) * sizeof(half);
  const dim3 grid((p.shape.sq + kM - 1) / kM, p.shape.heads, p.shape.batch);
  void (*fn)(const AttnParams) = causal ? forward<D, true> : forward<D, false>;
  cudaError_t e = cudaFuncSetAttribute(fn, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (e != cudaSuccess) return e;
  fn<<<grid, kWarps * 32, bytes, stream>>>(p);
  return cudaPeekAtLastError();
}

// [B, H, S, D] contiguous convenience entry
cudaError_t attention_bhsd(half* q, half* k, half* v, half* o, float* lse, int B, int H, int Sq, int Sk, int D,
                           bool causal, cudaStream_t stream) {
  auto view = [&](half* ptr, int S) { return TensorView{ptr, (int64_t)H * S * D, D, (int64_t)S * D}; };
  AttnParams p{view(q, Sq), view(k, Sk), view(v, Sk), view(o, Sq), lse, {B, H, Sq, Sk}, rsqrtf((float)D)};
  if (D == 64) return run<64>(p, causal, stream);
  if (D == 96) return run<96>(p, causal, stream);
  if (D == 128) return run<128>(p, causal, stream);
  return cudaErrorNotSupported;
}

}  // namespace attn
