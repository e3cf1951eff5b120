// W4A8 linear layer for Ampere and newer.
//   x   int8  [M, K]        activations, quantised per token
//   sx  float [M]
//   w   uint8 [N, K / 2]    two signed 4 bit weights a byte (stored + 8), low nibble first
//   sw  half  [N, K / 128]  a scale for each group of 128 weights
//   b   half  [N]           may be NULL
//   out half  [M, N]
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

#define GROUP 128
#define BM 64
#define BN 64
#define LDA (GROUP + 16)      // bytes
#define LDB (GROUP / 2 + 16)  // bytes

static __device__ __forceinline__ void cp16(void* dst, const void* src, int bytes) {
  unsigned d = (unsigned)__cvta_generic_to_shared(dst);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(d), "l"(src), "r"(bytes));
}
static __device__ __forceinline__ void cp_commit() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N>
static __device__ __forceinline__ void cp_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N));
}

static __device__ __forceinline__ void imma(int* c, const uint32_t* a, const uint32_t* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};\n"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// 4 nibbles -> 4 signed bytes
static __device__ __forceinline__ uint32_t unpack4(uint32_t p) {
  uint32_t v = (p & 0xfu) | ((p & 0xf0u) << 4) | ((p & 0xf00u) << 8) | ((p & 0xf000u) << 12);
  return __vsub4(v, 0x08080808u);
}

__global__ void __launch_bounds__(128) w4a8_gemm_kernel(const int8_t* __restrict__ x, const float* __restrict__ sx,
                                                        const uint8_t* __restrict__ w, const half* __restrict__ sw,
                                                        const half* __restrict__ b, half* __restrict__ out, int M,
                                                        int N, int K) {
  extern __shared__ __align__(16) uint8_t smem[];
  uint8_t* sA = smem;                   // 2 x BM x LDA
  uint8_t* sB = smem + 2 * BM * LDA;    // 2 x BN x LDB

  const int tid = threadIdx.x, lane = tid & 31, wid = tid >> 5;
  const int bm = blockIdx.y * BM, bn = blockIdx.x * BN;
  const int wm = (wid & 1) * 32, wn = (wid >> 1) * 32;
  const int g = lane >> 2, t = lane & 3;
  const int ngroups = K / GROUP;

  auto fetch = [&](int stage, int grp) {
    for (int i = tid; i < BM * GROUP / 16; i += 128) {
      const int r = i / (GROUP / 16), c = i % (GROUP / 16) * 16;
      const int ok = bm + r < M;
      const int8_t* src = x + (size_t)(ok ? bm + r : 0) * K + grp * GROUP + c;
      cp16(sA + (stage * BM + r) * LDA + c, src, ok ? 16 : 0);
    }
    for (int i = tid; i < BN * GROUP / 32; i += 128) {
      const int r = i / (GROUP / 32), c = i % (GROUP / 32) * 16;
      cp16(sB + (stage * BN + r) * LDB + c, w + (size_t)(bn + r) * (K / 2) + grp * (GROUP / 2) + c, 16);
    }
    cp_commit();
  };

  float acc[2][4][4] = {};
  fetch(0, 0);
  for (int grp = 0; grp < ngroups; ++grp) {
    const int cur = grp & 1;
    if (grp + 1 < ngroups) {
      fetch(cur ^ 1, grp + 1);
      cp_wait<1>();
    } else {
      cp_wait<0>();
    }
    __syncthreads();

    int part[2][4][4] = {};
#pragma unroll
    for (int k = 0; k < GROUP; k += 32) {
      uint32_t fa[2][4], fb[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint8_t* p = sA + (cur * BM + wm + i * 16 + g) * LDA + k + t * 4;
        fa[i][0] = *(const uint32_t*)p;
        fa[i][1] = *(const uint32_t*)(p + 8 * LDA);
        fa[i][2] = *(const uint32_t*)(p + 16);
        fa[i][3] = *(const uint32_t*)(p + 8 * LDA + 16);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint8_t* p = sB + (cur * BN + wn + j * 8 + g) * LDB + k / 2 + t * 2;
        fb[j][0] = unpack4(*(const uint16_t*)p);
        fb[j][1] = unpack4(*(const uint16_t*)(p + 8));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) imma(part[i][j], fa[i], fb[j]);
    }

    // the group's scale depends on the column
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int n = bn + wn + j * 8 + t * 2;
      const float s0 = __half2float(sw[(size_t)n * ngroups + grp]);
      const float s1 = __half2float(sw[(size_t)(n + 1) * ngroups + grp]);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        acc[i][j][0] += s0 * part[i][j][0];
        acc[i][j][1] += s1 * part[i][j][1];
        acc[i][j][2] += s0 * part[i][j][2];
        acc[i][j][3] += s1 * part[i][j][3];
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int m = bm + wm + i * 16 + h * 8 + g;
      if (m >= M) continue;
      const float s = sx[m];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int n = bn + wn + j * 8 + t * 2;
        float y0 = acc[i][j][2 * h] * s, y1 = acc[i][j][2 * h + 1] * s;
        if (b) {
          y0 += __half2float(b[n]);
          y1 += __half2float(b[n + 1]);
        }
        *(half2*)(out + (size_t)m * N + n) = __floats2half2_rn(y0, y1);
      }
    }
}

extern "C" int w4a8_linear(const void* x, const void* sx, const void* w, const void* sw, const void* b, void* out,
                           int M, int N, int K, void* stream) {
  if (K % GROUP || N % BN) {
    fprintf(stderr, "w4a8_linear: K must be a multiple of %d and N of %d\n", GROUP, BN);
    return -1;
  }
  if (M == 0) return 0;
  const int bytes = 2 * (BM * LDA + BN * LDB);
  dim3 grid(N / BN, (M + BM - 1) / BM);
  w4a8_gemm_kernel<<<grid, 128, bytes, (cudaStream_t)stream>>>(
      (const int8_t*)x, (const float*)sx, (const uint8_t*)w, (const half*)sw, (const half*)b, (half*)out, M, N, K);
  cudaError_t e = cudaGetLastError();
  if (e != cudaSuccess) fprintf(stderr, "w4a8_linear: %s\n", cudaGetErrorString(e));
  return (int)e;
}
