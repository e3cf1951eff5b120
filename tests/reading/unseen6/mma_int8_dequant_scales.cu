// W8A8 linear layer: int8 x int8 -> int32 by mma.sync.m16n8k32, then per-token and per-channel scales.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

__device__ __forceinline__ void mma_s8(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// out[m][n] = scale_x[m] * scale_w[n] * sum_k x[m][k] * w[n][k];   block (32, 4): each warp a 16 x 8 tile
__global__ void w8a8_linear(const int8_t* __restrict__ x, const int8_t* __restrict__ w,
                            const float* __restrict__ scale_x, const float* __restrict__ scale_w,
                            half* __restrict__ out, int M, int N, int K) {
  const int lane = threadIdx.x;
  const int m0 = blockIdx.y * 16;
  const int n0 = (blockIdx.x * blockDim.y + threadIdx.y) * 8;
  if (n0 >= N) return;
  const int g = lane >> 2, t = lane & 3;
  const bool lo = m0 + g < M, hi = m0 + g + 8 < M;
  int acc[4] = {0, 0, 0, 0};
  for (int k = 0; k < K; k += 32) {
    const uint32_t* r0 = reinterpret_cast<const uint32_t*>(x + (m0 + g) * K + k);
    const uint32_t* r1 = reinterpret_cast<const uint32_t*>(x + (m0 + g + 8) * K + k);
    const uint32_t* c = reinterpret_cast<const uint32_t*>(w + (n0 + g) * K + k);
    uint32_t a[4] = {lo ? r0[t] : 0u, hi ? r1[t] : 0u, lo ? r0[t + 4] : 0u, hi ? r1[t + 4] : 0u};
    uint32_t b[2] = {c[t], c[t + 4]};
    mma_s8(acc, a, b);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int m = m0 + g + (i / 2) * 8, n = n0 + t * 2 + (i & 1);
    if (m < M) out[m * N + n] = __float2half(acc[i] * scale_x[m] * scale_w[n]);
  }
}

void w8a8_linear_forward(const int8_t* x, const int8_t* w, const float* scale_x, const float* scale_w, half* out, int M,
                         int N, int K, cudaStream_t st) {
  dim3 block(32, 4);
  dim3 grid((N + 31) / 32, (M + 15) / 16);
  w8a8_linear<<<grid, block, 0, st>>>(x, w, scale_x, scale_w, out, M, N, K);
}
