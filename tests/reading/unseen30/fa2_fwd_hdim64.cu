// FlashAttention-2 forward, head_dim = 64, fp16 in / fp32 accumulate / fp16 out
// Hand written with mma.sync, no cutlass. For learning.
//
//   Q, K, V, O : [batch, heads, seqlen, 64]   (contiguous)
//
// One CTA = 4 warps = 64 query rows; every warp owns 16 rows, so softmax statistics never leave the warp.
// S = Q K^T stays in registers, the accumulator layout of S *is* the A operand layout of P for P V.
//
// nvcc -O3 -std=c++17 -arch=sm_80 fa2_fwd_hdim64.cu -o fa2 && ./fa2

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(x)                                                                              \
  do {                                                                                        \
    cudaError_t e = (x);                                                                      \
    if (e != cudaSuccess) {                                                                   \
      fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e));               \
      exit(1);                                                                                \
    }                                                                                         \
  } while (0)

namespace fa2 {

constexpr int kHeadDim = 64;
constexpr int kBlockM = 64;
constexpr int kBlockN = 64;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kStride = kHeadDim + 8;  // +8 halves: rows fall in different banks

__device__ __forceinline__ uint32_t smem_u32(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], const half* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(smem_u32(p)));
}

__device__ __forceinline__ void ldsm_x2(uint32_t (&r)[2], const half* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];\n"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(smem_u32(p)));
}

__device__ __forceinline__ void ldsm_x2_trans(uint32_t (&r)[2], const half* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(smem_u32(p)));
}

__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ uint32_t pack_half2(float lo, float hi) {
  half2 h = __floats2half2_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&h);
}

// 64 x 64 tile, rows past seqlen are filled with zeros
__device__ __forceinline__ void load_tile(half (*dst)[kStride], const half* src, int row0, int seqlen) {
#pragma unroll
  for (int i = 0; i < 64 * (kHeadDim / 8) / kThreads; ++i) {
    const int c = threadIdx.x + i * kThreads;
    const int r = c / (kHeadDim / 8);
    const int col = (c % (kHeadDim / 8)) * 8;
    int4 v = make_int4(0, 0, 0, 0);
    if (row0 + r < seqlen) v = *reinterpret_cast<const int4*>(src + (size_t)(row0 + r) * kHeadDim + col);
    *reinterpret_cast<int4*>(&dst[r][col]) = v;
  }
}

template <bool kCausal>
__global__ void __launch_bounds__(kThreads)
flash_fwd_kernel(const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v,
                 half* __restrict__ o, int seqlen, float scale_log2) {
  __shared__ __align__(16) half sQ[kBlockM][kStride];
  __shared__ __align__(16) half sK[kBlockN][kStride];
  __shared__ __align__(16) half sV[kBlockN][kStride];

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int q0 = blockIdx.x * kBlockM;
  const size_t bh = (size_t)blockIdx.y * seqlen * kHeadDim;
  q += bh;
  k += bh;
  v += bh;
  o += bh;

  load_tile(sQ, q, q0, seqlen);
  __syncthreads();

  uint32_t qf[kHeadDim / 16][4];
#pragma unroll
  for (int kk = 0; kk < kHeadDim / 16; ++kk) ldsm_x4(qf[kk], &sQ[warp * 16 + lane % 16][kk * 16 + (lane / 16) * 8]);

  float acc_o[kHeadDim / 8][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY};
  float row_sum[2] = {0.f, 0.f};

  const int row_base = q0 + warp * 16 + lane / 4;  // this lane holds rows row_base and row_base + 8

  int n_blocks = (seqlen + kBlockN - 1) / kBlockN;
  if (kCausal) n_blocks = min(n_blocks, (q0 + kBlockM + kBlockN - 1) / kBlockN);

  for (int nb = 0; nb < n_blocks; ++nb) {
    const int n0 = nb * kBlockN;
    __syncthreads();  // the previous K, V are not needed any more
    load_tile(sK, k, n0, seqlen);
    load_tile(sV, v, n0, seqlen);
    __syncthreads();

    // S = Q K^T
    float s[kBlockN / 8][4] = {};
#pragma unroll
    for (int kk = 0; kk < kHeadDim / 16; ++kk) {
#pragma unroll
      for (int j = 0; j < kBlockN / 8; ++j) {
        uint32_t kf[2];
        ldsm_x2(kf, &sK[j * 8 + lane % 8][kk * 16 + ((lane / 8) % 2) * 8]);
        mma_16x8x16(s[j], qf[kk], kf);
      }
    }

    // scale (in log2 units) and mask
#pragma unroll
    for (int j = 0; j < kBlockN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int key = n0 + j * 8 + (lane % 4) * 2 + (e & 1);
        const int row = row_base + (e >> 1) * 8;
        const bool masked = key >= seqlen || (kCausal && key > row);
        s[j][e] = masked ? -INFINITY : s[j][e] * scale_log2;
      }
    }

    // online softmax
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float mx = row_max[h];
#pragma unroll
      for (int j = 0; j < kBlockN / 8; ++j) mx = fmaxf(mx, fmaxf(s[j][2 * h], s[j][2 * h + 1]));
      mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, 1));
      mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, 2));
      // key 0 is visible to every row and is in the first block, so mx is finite from here on
      const float alpha = exp2f(row_max[h] - mx);
      row_max[h] = mx;

      float sum = 0.f;
#pragma unroll
      for (int j = 0; j < kBlockN / 8; ++j) {
        s[j][2 * h] = exp2f(s[j][2 * h] - mx);
        s[j][2 * h + 1] = exp2f(s[j][2 * h + 1] - mx);
        sum += s[j][2 * h] + s[j][2 * h + 1];
      }
      row_sum[h] = row_sum[h] * alpha + sum;  // per lane, the quad is summed at the end
#pragma unroll
      for (int d = 0; d < kHeadDim / 8; ++d) {
        acc_o[d][2 * h] *= alpha;
        acc_o[d][2 * h + 1] *= alpha;
      }
    }

    // O += P V
#pragma unroll
    for (int kk = 0; kk < kBlockN / 16; ++kk) {
      uint32_t pf[4];
      pf[0] = pack_half2(s[2 * kk][0], s[2 * kk][1]);
      pf[1] = pack_half2(s[2 * kk][2], s[2 * kk][3]);
      pf[2] = pack_half2(s[2 * kk + 1][0], s[2 * kk + 1][1]);
      pf[3] = pack_half2(s[2 * kk + 1][2], s[2 * kk + 1][3]);
#pragma unroll
      for (int d = 0; d < kHeadDim / 8; ++d) {
        uint32_t vf[2];
        ldsm_x2_trans(vf, &sV[kk * 16 + lane % 16][d * 8]);
        mma_16x8x16(acc_o[d], pf, vf);
      }
    }
  }

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = row_sum[h];
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    const float inv = 1.f / sum;
    const int row = row_base + h * 8;
    if (row < seqlen) {
#pragma unroll
      for (int d = 0; d < kHeadDim / 8; ++d) {
        half2 out = __floats2half2_rn(acc_o[d][2 * h] * inv, acc_o[d][2 * h + 1] * inv);
        *reinterpret_cast<half2*>(o + (size_t)row * kHeadDim + d * 8 + (lane % 4) * 2) = out;
      }
    }
  }
}

void flash_fwd(const half* q, const half* k, const half* v, half* o, int batch, int heads, int seqlen, bool causal,
               cudaStream_t stream = nullptr) {
  const float scale_log2 = (1.f / sqrtf((float)kHeadDim)) * 1.4426950408889634f;
  dim3 grid((seqlen + kBlockM - 1) / kBlockM, batch * heads);
  if (causal)
    flash_fwd_kernel<true><<<grid, kThreads, 0, stream>>>(q, k, v, o, seqlen, scale_log2);
  else
    flash_fwd_kernel<false><<<grid, kThreads, 0, stream>>>(q, k, v, o, seqlen, scale_log2);
}

}  // namespace fa2

static void reference(const std::vector<half>& q, const std::vector<half>& k, const std::vector<half>& v,
                      std::vector<float>& o, int bh, int n, bool causal) {
  const int d = fa2::kHeadDim;
  std::vector<float> p(n);
  for (int b = 0; b < bh; ++b)
    for (int i = 0; i < n; ++i) {
      const int lim = causal ? i + 1 : n;
      float mx = -INFINITY, sum = 0.f;
      for (int j = 0; j < lim; ++j) {
        float s = 0.f;
        for (int x = 0; x < d; ++x)
          s += __half2float(q[((size_t)b * n + i) * d + x]) * __half2float(k[((size_t)b * n + j) * d + x]);
        p[j] = s / sqrtf((float)d);
        mx = fmaxf(mx, p[j]);
      }
      for (int j = 0; j < lim; ++j) sum += (p[j] = expf(p[j] - mx));
      for (int x = 0; x < d; ++x) {
        float a = 0.f;
        for (int j = 0; j < lim; ++j) a += p[j] * __half2float(v[((size_t)b * n + j) * d + x]);
        o[((size_t)b * n + i) * d + x] = a / sum;
      }
    }
}

int main() {
  const int batch = 2, heads = 3;
  for (int n : {64, 200, 512}) {
    for (bool causal : {false, true}) {
      const size_t elems = (size_t)batch * heads * n * fa2::kHeadDim;
      std::vector<half> q(elems), k(elems), v(elems), o(elems);
      std::vector<float> ref(elems);
      srand(n);
      for (auto* t : {&q, &k, &v})
        for (auto& x : *t) x = __float2half(2.f * rand() / RAND_MAX - 1.f);

      half *dq, *dk, *dv, *dout;
      CHECK(cudaMalloc(&dq, elems * sizeof(half)));
      CHECK(cudaMalloc(&dk, elems * sizeof(half)));
      CHECK(cudaMalloc(&dv, elems * sizeof(half)));
      CHECK(cudaMalloc(&dout, elems * sizeof(half)));
      CHECK(cudaMemcpy(dq, q.data(), elems * sizeof(half), cudaMemcpyHostToDevice));
      CHECK(cudaMemcpy(dk, k.data(), elems * sizeof(half), cudaMemcpyHostToDevice));
      CHECK(cudaMemcpy(dv, v.data(), elems * sizeof(half), cudaMemcpyHostToDevice));
      fa2::flash_fwd(dq, dk, dv, dout, batch, heads, n, causal);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpy(o.data(), dout, elems * sizeof(half), cudaMemcpyDeviceToHost));

      reference(q, k, v, ref, batch * heads, n, causal);
      float err = 0.f;
      for (size_t i = 0; i < elems; ++i) err = fmaxf(err, fabsf(ref[i] - __half2float(o[i])));
      printf("n=%4d causal=%d max err %.5f %s\n", n, (int)causal, err, err < 5e-3f ? "ok" : "FAILED");
      cudaFree(dq);
      cudaFree(dk);
      cudaFree(dv);
      cudaFree(dout);
    }
  }
  return 0;
}
