// Flash Attention from scratch, part 5: keep P in registers
//
// Previous parts:
//   part 3 - WMMA, scores through shared memory                     41% of peak
//   part 4 - mma.sync + ldmatrix, bank conflicts everywhere         49%
//   part 5 - swizzle, P never leaves the registers, K/V overlapped   (this file)
//
// Q, K, V, O: [batch, heads, seq, 128], bf16, causal. seq % 64 == 0.
//
//   nvcc -O3 -arch=sm_86 -std=c++17 fa_part5_registers.cu -o part5 && ./part5

#include <cuda_bf16.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

using bf16 = __nv_bfloat16;

constexpr int kHeadDim = 128;
constexpr int kBlockQ = 64;
constexpr int kBlockKV = 64;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;

// 16 chunks of 8 elements (16 bytes) per row. XOR with the row so that the 8 rows
// of one ldmatrix phase fall into 8 different bank groups.
__device__ __forceinline__ int swizzle(int row, int chunk) { return row * kHeadDim + ((chunk ^ (row & 7)) << 3); }

__device__ __forceinline__ void cp_async_16(bf16* dst, const bf16* src) {
  uint32_t smem = static_cast<uint32_t>(__cvta_generic_to_shared(dst));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(smem), "l"(src));
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N>
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const bf16* p) {
  uint32_t smem = static_cast<uint32_t>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem));
}
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const bf16* p) {
  uint32_t smem = static_cast<uint32_t>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem));
}
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack(float lo, float hi) {
  __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&v);
}

__device__ __forceinline__ void load_tile(bf16* dst, const bf16* src) {
#pragma unroll
  for (int i = threadIdx.x; i < 64 * 16; i += kThreads) {
    const int row = i / 16, chunk = i % 16;
    cp_async_16(dst + swizzle(row, chunk), src + row * kHeadDim + chunk * 8);
  }
}

__global__ void __launch_bounds__(kThreads)
flash_attn_part5(const bf16* __restrict__ Q, const bf16* __restrict__ K, const bf16* __restrict__ V,
                 bf16* __restrict__ O, int seq, float scale_log2) {
  // exactly 48 KB
  __shared__ __align__(128) bf16 sQ[kBlockQ * kHeadDim];
  __shared__ __align__(128) bf16 sK[kBlockKV * kHeadDim];
  __shared__ __align__(128) bf16 sV[kBlockKV * kHeadDim];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = lane >> 2, quad = lane & 3;
  const int q_block = gridDim.x - 1 - blockIdx.x;  // longest rows first
  const size_t head_offset = (size_t)blockIdx.y * seq * kHeadDim;
  const int q0 = q_block * kBlockQ;
  Q += head_offset + (size_t)q0 * kHeadDim;
  K += head_offset;
  V += head_offset;

  load_tile(sQ, Q);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();

  uint32_t q[kHeadDim / 16][4];
#pragma unroll
  for (int kd = 0; kd < kHeadDim / 16; kd++)
    ldmatrix_x4(q[kd], sQ + swizzle(warp * 16 + (lane & 15), kd * 2 + (lane >> 4)));

  float o[kHeadDim / 8][4] = {};
  float m[2] = {-INFINITY, -INFINITY};
  float l[2] = {0.f, 0.f};

  for (int kv0 = 0; kv0 <= q0; kv0 += kBlockKV) {
    __syncthreads();  // everybody is done with the previous K / V
    load_tile(sK, K + (size_t)kv0 * kHeadDim);
    cp_async_commit();
    load_tile(sV, V + (size_t)kv0 * kHeadDim);
    cp_async_commit();
    cp_async_wait<1>();  // K is here, V still in flight
    __syncthreads();

    float s[kBlockKV / 8][4] = {};
#pragma unroll
    for (int kd = 0; kd < kHeadDim / 16; kd++) {
#pragma unroll
      for (int n = 0; n < kBlockKV / 16; n++) {
        uint32_t k[4];
        ldmatrix_x4(k, sK + swizzle(n * 16 + (lane & 7) + ((lane >> 4) << 3), kd * 2 + ((lane >> 3) & 1)));
        mma_bf16(s[2 * n], q[kd], k[0], k[1]);
        mma_bf16(s[2 * n + 1], q[kd], k[2], k[3]);
      }
    }

    if (kv0 == q0) {  // only the diagonal tile needs the mask
#pragma unroll
      for (int j = 0; j < kBlockKV / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const int row = warp * 16 + group + (e >> 1) * 8;
          const int col = j * 8 + quad * 2 + (e & 1);
          if (col > row) s[j][e] = -INFINITY;
        }
    }

    // online softmax, every thread holds two rows
    float corr[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float mx = m[h];
#pragma unroll
      for (int j = 0; j < kBlockKV / 8; j++) mx = fmaxf(mx, fmaxf(s[j][2 * h], s[j][2 * h + 1]));
      mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, 1));
      mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, 2));
      corr[h] = exp2f((m[h] - mx) * scale_log2);
      m[h] = mx;
      float sum = 0.f;
#pragma unroll
      for (int j = 0; j < kBlockKV / 8; j++) {
        s[j][2 * h] = exp2f((s[j][2 * h] - mx) * scale_log2);
        s[j][2 * h + 1] = exp2f((s[j][2 * h + 1] - mx) * scale_log2);
        sum += s[j][2 * h] + s[j][2 * h + 1];
      }
      l[h] = l[h] * corr[h] + sum;
    }
#pragma unroll
    for (int d = 0; d < kHeadDim / 8; d++)
#pragma unroll
      for (int e = 0; e < 4; e++) o[d][e] *= corr[e >> 1];

    cp_async_wait<0>();
    __syncthreads();

    // the accumulator layout of S is the A layout of P
#pragma unroll
    for (int kk = 0; kk < kBlockKV / 16; kk++) {
      const uint32_t p[4] = {pack(s[2 * kk][0], s[2 * kk][1]), pack(s[2 * kk][2], s[2 * kk][3]),
                             pack(s[2 * kk + 1][0], s[2 * kk + 1][1]), pack(s[2 * kk + 1][2], s[2 * kk + 1][3])};
#pragma unroll
      for (int d = 0; d < kHeadDim / 16; d++) {
        uint32_t v[4];
        ldmatrix_x4_trans(v, sV + swizzle(kk * 16 + (lane & 15), d * 2 + (lane >> 4)));
        mma_bf16(o[2 * d], p, v[0], v[1]);
        mma_bf16(o[2 * d + 1], p, v[2], v[3]);
      }
    }
  }

#pragma unroll
  for (int h = 0; h < 2; h++) {
    for (int mask = 1; mask <= 2; mask *= 2) l[h] += __shfl_xor_sync(0xffffffff, l[h], mask);
    const float inv = 1.f / l[h];
    bf16* out = O + head_offset + (size_t)(q0 + warp * 16 + group + h * 8) * kHeadDim;
#pragma unroll
    for (int d = 0; d < kHeadDim / 8; d++)
      *reinterpret_cast<uint32_t*>(out + d * 8 + quad * 2) = pack(o[d][2 * h] * inv, o[d][2 * h + 1] * inv);
  }
}

int main() {
  const int batch = 2, heads = 3, seq = 256;
  const size_t n = (size_t)batch * heads * seq * kHeadDim;
  std::vector<bf16> h[3], ho(n);
  bf16* d[4];
  for (int i = 0; i < 4; i++) cudaMalloc(&d[i], n * sizeof(bf16));
  for (int i = 0; i < 3; i++) {
    h[i].resize(n);
    for (auto& x : h[i]) x = __float2bfloat16(2.f * rand() / RAND_MAX - 1.f);
    cudaMemcpy(d[i], h[i].data(), n * sizeof(bf16), cudaMemcpyHostToDevice);
  }
  const float scale = 1.f / std::sqrt((float)kHeadDim);
  flash_attn_part5<<<dim3(seq / kBlockQ, batch * heads), kThreads>>>(d[0], d[1], d[2], d[3], seq, scale * 1.44269504f);
  cudaMemcpy(ho.data(), d[3], n * sizeof(bf16), cudaMemcpyDeviceToHost);

  float worst = 0.f;
  std::vector<float> p(seq);
  for (int bh = 0; bh < batch * heads; bh++)
    for (int i = 0; i < seq; i++) {
      const size_t base = (size_t)bh * seq * kHeadDim;
      float sum = 0.f;
      for (int j = 0; j <= i; j++) {
        float dot = 0.f;
        for (int c = 0; c < kHeadDim; c++)
          dot += __bfloat162float(h[0][base + i * kHeadDim + c]) * __bfloat162float(h[1][base + j * kHeadDim + c]);
        sum += p[j] = std::exp(dot * scale);
      }
      for (int c = 0; c < kHeadDim; c++) {
        float ref = 0.f;
        for (int j = 0; j <= i; j++) ref += p[j] / sum * __bfloat162float(h[2][base + j * kHeadDim + c]);
        worst = std::fmax(worst, std::fabs(ref - __bfloat162float(ho[base + i * kHeadDim + c])));
      }
    }
  printf("max abs error %g -> %s (%s)\n", worst, worst < 1.5e-2f ? "ok" : "WRONG", cudaGetErrorString(cudaGetLastError()));
  for (auto* p : d) cudaFree(p);
  return 0;
}
