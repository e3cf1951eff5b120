// W8A8 linear layer (SmoothQuant checkpoints): int8 x int8 -> int32 -> fp16
//   out[m][n] = act_scale[m] * wgt_scale[n] * sum_k act[m][k] * wgt[n][k] + bias[n]
// 64x64x64 CTA tile, 2x2 warps, three cp.async stages, 16-byte chunks swizzled within a row.
#include <cuda_fp16.h>
#include <stdint.h>

#define BM 64
#define BN 64
#define BK 64              // bytes
#define NSTAGE 3
#define NUM_THREADS 128
#define CHUNKS (BK / 16)   // 16-byte chunks per smem row
#define STAGE_BYTES ((BM + BN) * BK)

__device__ __forceinline__ int swz(int row, int chunk) {
  return row * BK + ((chunk ^ ((row >> 1) & 3)) << 4);
}

__device__ __forceinline__ void cpasync16(uint32_t smem, const int8_t* gmem, bool pred) {
  int n = pred ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem), "l"(gmem), "r"(n));
}

__device__ __forceinline__ void ldsm4(int32_t& r0, int32_t& r1, int32_t& r2, int32_t& r3, uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
               : "r"(addr));
}

__device__ __forceinline__ void imma16832(int32_t* c, const int32_t* a, const int32_t* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// one k-slice of both operands; rows and columns outside become zeros
__device__ __forceinline__ void load_stage(uint32_t smem, const int8_t* __restrict__ act,
                                           const int8_t* __restrict__ wgt, int m0, int n0, int k0, int M, int N,
                                           int K) {
#pragma unroll
  for (int it = 0; it < BM * CHUNKS / NUM_THREADS; ++it) {
    int id = it * NUM_THREADS + threadIdx.x;
    int row = id / CHUNKS, ch = id % CHUNKS;
    int k = k0 + ch * 16;
    bool ok = m0 + row < M && k < K;
    cpasync16(smem + swz(row, ch), ok ? act + (size_t)(m0 + row) * K + k : act, ok);
  }
#pragma unroll
  for (int it = 0; it < BN * CHUNKS / NUM_THREADS; ++it) {
    int id = it * NUM_THREADS + threadIdx.x;
    int row = id / CHUNKS, ch = id % CHUNKS;
    int k = k0 + ch * 16;
    bool ok = n0 + row < N && k < K;
    cpasync16(smem + BM * BK + swz(row, ch), ok ? wgt + (size_t)(n0 + row) * K + k : wgt, ok);
  }
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
    w8a8_gemm_bias(const int8_t* __restrict__ act, const int8_t* __restrict__ wgt,
                   const float* __restrict__ act_scale, const float* __restrict__ wgt_scale,
                   const half* __restrict__ bias, half* __restrict__ out, int M, int N, int K) {
  __shared__ __align__(128) int8_t smem[NSTAGE * STAGE_BYTES];
  const uint32_t smem_base = (uint32_t)__cvta_generic_to_shared(smem);

  const int m0 = blockIdx.y * BM;
  const int n0 = blockIdx.x * BN;
  const int lane = threadIdx.x & 31;
  const int wid = threadIdx.x >> 5;
  const int wm = (wid >> 1) * 32;
  const int wn = (wid & 1) * 32;

  int32_t acc[2][4][4];
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[i][j][e] = 0;

  const int ktiles = (K + BK - 1) / BK;

  // prologue
#pragma unroll
  for (int s = 0; s < NSTAGE - 1; ++s) {
    if (s < ktiles) load_stage(smem_base + s * STAGE_BYTES, act, wgt, m0, n0, s * BK, M, N, K);
    asm volatile("cp.async.commit_group;");
  }

  for (int kt = 0; kt < ktiles; ++kt) {
    asm volatile("cp.async.wait_group %0;" ::"n"(NSTAGE - 2));
    __syncthreads();

    const int nxt = kt + NSTAGE - 1;
    if (nxt < ktiles)
      load_stage(smem_base + (nxt % NSTAGE) * STAGE_BYTES, act, wgt, m0, n0, nxt * BK, M, N, K);
    asm volatile("cp.async.commit_group;");

    const uint32_t sA = smem_base + (kt % NSTAGE) * STAGE_BYTES;
    const uint32_t sB = sA + BM * BK;
#pragma unroll
    for (int ks = 0; ks < BK / 32; ++ks) {
      int32_t fa[2][4], fb[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int row = wm + i * 16 + (lane & 15);
        int ch = ks * 2 + (lane >> 4);
        ldsm4(fa[i][0], fa[i][1], fa[i][2], fa[i][3], sA + swz(row, ch));
      }
#pragma unroll
      for (int j = 0; j < 4; j += 2) {
        int row = wn + j * 8 + ((lane >> 4) << 3) + (lane & 7);
        int ch = ks * 2 + ((lane >> 3) & 1);
        ldsm4(fb[j][0], fb[j][1], fb[j + 1][0], fb[j + 1][1], sB + swz(row, ch));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) imma16832(acc[i][j], fa[i], fb[j]);
    }
  }

  // epilogue: dequantise, add bias (N is even)
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      int row = m0 + wm + i * 16 + h * 8 + (lane >> 2);
      if (row >= M) continue;
      float sa = act_scale[row];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        int col = n0 + wn + j * 8 + (lane & 3) * 2;
        if (col >= N) continue;
        float2 sw = *(const float2*)(wgt_scale + col);
        float2 b = __half22float2(*(const half2*)(bias + col));
        float x = sa * sw.x * (float)acc[i][j][h * 2] + b.x;
        float y = sa * sw.y * (float)acc[i][j][h * 2 + 1] + b.y;
        *(half2*)(out + (size_t)row * N + col) = __floats2half2_rn(x, y);
      }
    }
  }
}

void linear_w8a8(const int8_t* act, const int8_t* wgt, const float* act_scale, const float* wgt_scale,
                 const half* bias, half* out, int M, int N, int K, cudaStream_t stream) {
  dim3 grid((N + BN - 1) / BN, (M + BM - 1) / BM);
  w8a8_gemm_bias<<<grid, NUM_THREADS, 0, stream>>>(act, wgt, act_scale, wgt_scale, bias, out, M, N, K);
}
