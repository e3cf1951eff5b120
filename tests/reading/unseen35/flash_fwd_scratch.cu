// flash attention 2 forward from scratch, no cutlass.
//
// O = softmax(Q K^T / sqrt(D)) V, optional causal mask
// layout of q/k/v/o: [batch, heads, seq, 64] fp16, contiguous
//
// One CTA does 64 query rows of one (batch, head). 4 warps, each warp owns 16 rows,
// so the softmax never needs to talk to another warp. S and P stay in registers:
// the accumulator layout of QK^T is exactly the A operand layout of PV.
//
// compile: nvcc -O3 --use_fast_math -arch=sm_80 flash_fwd_scratch.cu
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define cudaCheck(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line) {
  if (code != cudaSuccess) {
    fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
    exit(code);
  }
}

#define D 64       // head dim
#define BR 64      // query rows per CTA
#define BC 64      // keys per iteration
#define LDS (D + 8)  // padded row, 144 bytes: the 8 rows of an ldmatrix hit different banks
#define NTHREADS 128

__device__ __forceinline__ void ldsm4(uint32_t *r, const half *p) {
  uint32_t addr = (uint32_t)__cvta_generic_to_shared(p);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

__device__ __forceinline__ void ldsm4_t(uint32_t *r, const half *p) {
  uint32_t addr = (uint32_t)__cvta_generic_to_shared(p);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

__device__ __forceinline__ void mma(float *c, const uint32_t *a, uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pack(float x, float y) {
  half2 h = __floats2half2_rn(x, y);
  return *(uint32_t *)&h;
}

// 64 x 64 tile, rows past the end of the sequence become zero
__device__ __forceinline__ void load_tile(half *s, const half *g, int row0, int n) {
  for (int i = threadIdx.x; i < 64 * (D / 8); i += NTHREADS) {
    int r = i / (D / 8);
    int c = (i % (D / 8)) * 8;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (row0 + r < n) v = *(const uint4 *)(g + (size_t)(row0 + r) * D + c);
    *(uint4 *)(s + r * LDS + c) = v;
  }
}

__global__ void flash_fwd(const half *__restrict__ q, const half *__restrict__ k,
                          const half *__restrict__ v, half *__restrict__ o,
                          int n, float scale, int causal) {
  __shared__ __align__(16) half sQ[BR * LDS];
  __shared__ __align__(16) half sK[BC * LDS];
  __shared__ __align__(16) half sV[BC * LDS];

  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const size_t head_off = (size_t)blockIdx.y * n * D;
  const int q0 = blockIdx.x * BR;
  q += head_off; k += head_off; v += head_off; o += head_off;

  load_tile(sQ, q, q0, n);
  __syncthreads();

  // Q is used in every iteration: keep its fragments in registers
  uint32_t qf[D / 16][4];
  for (int kk = 0; kk < D / 16; kk++)
    ldsm4(qf[kk], sQ + (warp * 16 + lane % 16) * LDS + kk * 16 + (lane / 16) * 8);

  // this thread's two rows
  const int row_lo = q0 + warp * 16 + lane / 4;
  const int row_hi = row_lo + 8;

  float acc[D / 8][4];
  for (int i = 0; i < D / 8; i++)
    acc[i][0] = acc[i][1] = acc[i][2] = acc[i][3] = 0.f;
  float m_lo = -FLT_MAX, m_hi = -FLT_MAX;   // running max
  float l_lo = 0.f, l_hi = 0.f;             // running (per thread partial) sum
  const float scale_log2 = scale * 1.44269504f;

  int kv_end = n;
  if (causal) kv_end = min(n, q0 + BR);   // nothing to see right of the diagonal

  for (int j0 = 0; j0 < kv_end; j0 += BC) {
    load_tile(sK, k, j0, n);
    load_tile(sV, v, j0, n);
    __syncthreads();

    // ---- S = Q K^T, 16 x 64 per warp
    float s[BC / 8][4];
#pragma unroll
    for (int i = 0; i < BC / 8; i++) s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0.f;
#pragma unroll
    for (int kk = 0; kk < D / 16; kk++) {
#pragma unroll
      for (int jj = 0; jj < BC / 16; jj++) {
        // four 8x8 matrices: keys 0-7 / k 0-7, keys 0-7 / k 8-15, then keys 8-15
        uint32_t b[4];
        int key = jj * 16 + (lane / 16) * 8 + lane % 8;
        int dim = kk * 16 + ((lane / 8) % 2) * 8;
        ldsm4(b, sK + key * LDS + dim);
        mma(s[2 * jj], qf[kk], b[0], b[1]);
        mma(s[2 * jj + 1], qf[kk], b[2], b[3]);
      }
    }

    // ---- mask
#pragma unroll
    for (int i = 0; i < BC / 8; i++) {
      int col = j0 + i * 8 + (lane % 4) * 2;
#pragma unroll
      for (int e = 0; e < 2; e++) {
        if (col + e >= n || (causal && col + e > row_lo)) s[i][e] = -INFINITY;
        if (col + e >= n || (causal && col + e > row_hi)) s[i][2 + e] = -INFINITY;
      }
    }

    // ---- online softmax
    float new_lo = m_lo, new_hi = m_hi;
#pragma unroll
    for (int i = 0; i < BC / 8; i++) {
      new_lo = fmaxf(new_lo, fmaxf(s[i][0], s[i][1]));
      new_hi = fmaxf(new_hi, fmaxf(s[i][2], s[i][3]));
    }
    // the 4 threads of a quad share a row
    new_lo = fmaxf(new_lo, __shfl_xor_sync(0xffffffff, new_lo, 1));
    new_lo = fmaxf(new_lo, __shfl_xor_sync(0xffffffff, new_lo, 2));
    new_hi = fmaxf(new_hi, __shfl_xor_sync(0xffffffff, new_hi, 1));
    new_hi = fmaxf(new_hi, __shfl_xor_sync(0xffffffff, new_hi, 2));

    float corr_lo = exp2f((m_lo - new_lo) * scale_log2);
    float corr_hi = exp2f((m_hi - new_hi) * scale_log2);
    m_lo = new_lo;
    m_hi = new_hi;
    l_lo *= corr_lo;
    l_hi *= corr_hi;
#pragma unroll
    for (int i = 0; i < D / 8; i++) {
      acc[i][0] *= corr_lo;
      acc[i][1] *= corr_lo;
      acc[i][2] *= corr_hi;
      acc[i][3] *= corr_hi;
    }
#pragma unroll
    for (int i = 0; i < BC / 8; i++) {
      s[i][0] = exp2f((s[i][0] - m_lo) * scale_log2);
      s[i][1] = exp2f((s[i][1] - m_lo) * scale_log2);
      s[i][2] = exp2f((s[i][2] - m_hi) * scale_log2);
      s[i][3] = exp2f((s[i][3] - m_hi) * scale_log2);
      l_lo += s[i][0] + s[i][1];
      l_hi += s[i][2] + s[i][3];
    }

    // ---- O += P V
#pragma unroll
    for (int kk = 0; kk < BC / 16; kk++) {
      uint32_t p[4];
      p[0] = pack(s[2 * kk][0], s[2 * kk][1]);
      p[1] = pack(s[2 * kk][2], s[2 * kk][3]);
      p[2] = pack(s[2 * kk + 1][0], s[2 * kk + 1][1]);
      p[3] = pack(s[2 * kk + 1][2], s[2 * kk + 1][3]);
#pragma unroll
      for (int dd = 0; dd < D / 16; dd++) {
        // V is [key][dim] in smem, the B operand wants it transposed
        uint32_t b[4];
        ldsm4_t(b, sV + (kk * 16 + lane % 16) * LDS + dd * 16 + (lane / 16) * 8);
        mma(acc[2 * dd], p, b[0], b[1]);
        mma(acc[2 * dd + 1], p, b[2], b[3]);
      }
    }
    __syncthreads();  // sK / sV are overwritten next
  }

  l_lo += __shfl_xor_sync(0xffffffff, l_lo, 1);
  l_lo += __shfl_xor_sync(0xffffffff, l_lo, 2);
  l_hi += __shfl_xor_sync(0xffffffff, l_hi, 1);
  l_hi += __shfl_xor_sync(0xffffffff, l_hi, 2);
  float inv_lo = 1.f / l_lo, inv_hi = 1.f / l_hi;

#pragma unroll
  for (int i = 0; i < D / 8; i++) {
    int col = i * 8 + (lane % 4) * 2;
    if (row_lo < n)
      *(half2 *)(o + (size_t)row_lo * D + col) =
          __floats2half2_rn(acc[i][0] * inv_lo, acc[i][1] * inv_lo);
    if (row_hi < n)
      *(half2 *)(o + (size_t)row_hi * D + col) =
          __floats2half2_rn(acc[i][2] * inv_hi, acc[i][3] * inv_hi);
  }
}

// ---------------------------------------------------------------- reference
static void attention_cpu(const half *q, const half *k, const half *v, float *o,
                          int bh, int n, float scale, int causal) {
  float *p = (float *)malloc(n * sizeof(float));
  for (int h = 0; h < bh; h++) {
    const half *Q = q + (size_t)h * n * D, *K = k + (size_t)h * n * D, *V = v + (size_t)h * n * D;
    for (int i = 0; i < n; i++) {
      int end = causal ? i + 1 : n;
      float mx = -FLT_MAX, sum = 0.f;
      for (int j = 0; j < end; j++) {
        float dot = 0.f;
        for (int d = 0; d < D; d++)
          dot += __half2float(Q[(size_t)i * D + d]) * __half2float(K[(size_t)j * D + d]);
        p[j] = dot * scale;
        mx = fmaxf(mx, p[j]);
      }
      for (int j = 0; j < end; j++) { p[j] = expf(p[j] - mx); sum += p[j]; }
      for (int d = 0; d < D; d++) {
        float a = 0.f;
        for (int j = 0; j < end; j++) a += p[j] * __half2float(V[(size_t)j * D + d]);
        o[((size_t)h * n + i) * D + d] = a / sum;
      }
    }
  }
  free(p);
}

static int check(int batch, int heads, int n, int causal) {
  int bh = batch * heads;
  size_t count = (size_t)bh * n * D;
  half *hq = (half *)malloc(count * sizeof(half)), *hk = (half *)malloc(count * sizeof(half));
  half *hv = (half *)malloc(count * sizeof(half)), *ho = (half *)malloc(count * sizeof(half));
  float *ref = (float *)malloc(count * sizeof(float));
  for (size_t i = 0; i < count; i++) {
    hq[i] = __float2half(4.f * rand() / RAND_MAX - 2.f);
    hk[i] = __float2half(4.f * rand() / RAND_MAX - 2.f);
    hv[i] = __float2half(2.f * rand() / RAND_MAX - 1.f);
  }
  half *dq, *dk, *dv, *dO;
  cudaCheck(cudaMalloc(&dq, count * sizeof(half)));
  cudaCheck(cudaMalloc(&dk, count * sizeof(half)));
  cudaCheck(cudaMalloc(&dv, count * sizeof(half)));
  cudaCheck(cudaMalloc(&dO, count * sizeof(half)));
  cudaCheck(cudaMemcpy(dq, hq, count * sizeof(half), cudaMemcpyHostToDevice));
  cudaCheck(cudaMemcpy(dk, hk, count * sizeof(half), cudaMemcpyHostToDevice));
  cudaCheck(cudaMemcpy(dv, hv, count * sizeof(half), cudaMemcpyHostToDevice));

  float scale = 1.f / sqrtf((float)D);
  dim3 grid((n + BR - 1) / BR, bh);
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  flash_fwd<<<grid, NTHREADS>>>(dq, dk, dv, dO, n, scale, causal);  // warm up
  cudaEventRecord(start);
  flash_fwd<<<grid, NTHREADS>>>(dq, dk, dv, dO, n, scale, causal);
  cudaEventRecord(stop);
  cudaCheck(cudaGetLastError());
  cudaCheck(cudaDeviceSynchronize());
  float ms = 0.f;
  cudaEventElapsedTime(&ms, start, stop);
  cudaCheck(cudaMemcpy(ho, dO, count * sizeof(half), cudaMemcpyDeviceToHost));

  attention_cpu(hq, hk, hv, ref, bh, n, scale, causal);
  float err = 0.f;
  for (size_t i = 0; i < count; i++) err = fmaxf(err, fabsf(__half2float(ho[i]) - ref[i]));
  int ok = err < 5e-3f;
  printf("b=%d h=%d n=%4d causal=%d  %7.3f ms  max err %.5f  %s\n", batch, heads, n, causal, ms,
         err, ok ? "OK" : "WRONG");

  cudaFree(dq); cudaFree(dk); cudaFree(dv); cudaFree(dO);
  cudaEventDestroy(start); cudaEventDestroy(stop);
  free(hq); free(hk); free(hv); free(ho); free(ref);
  return ok;
}

int main() {
  srand(1337);
  int ok = 1;
  ok &= check(1, 2, 64, 0);
  ok &= check(2, 4, 256, 0);
  ok &= check(2, 4, 256, 1);
  ok &= check(1, 3, 200, 0);  // ragged
  ok &= check(1, 3, 333, 1);
  return ok ? 0 : 1;
}
