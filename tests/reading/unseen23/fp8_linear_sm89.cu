// E4M3 x E4M3 -> FP16 / BF16 linear layer for Ada (sm_89) and later.
//
//      out[m, n] = x_scale * w_scale[n] * sum_k x[m, k] * w[n, k]  +  bias[n]
//
//  * x: row-major [M, K], one scale for the tensor; w: row-major [N, K] (torch.nn.Linear), one scale per output channel
//  * K % 64 == 0, N % 64 == 0; M is arbitrary. Small M takes 16-row tiles.
//  * Three tiles in flight by cp.async. Rows of 64 bytes, XOR-swizzled, hence no padding and no bank conflicts.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

typedef unsigned int u32;

#define FP8_STAGES 3
#define FP8_TN 64
#define FP8_TK 64

// byte offset of the 16-byte chunk `chunk` of row `row`
static __device__ __forceinline__ u32 swz(u32 row, u32 chunk) { return row * FP8_TK + ((chunk ^ (row >> 1 & 3)) << 4); }

static __device__ __forceinline__ void g2s(u32 smem, const void* gmem, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem), "l"(gmem), "r"(bytes) : "memory");
}

static __device__ __forceinline__ void mma_e4m3(float* d, const u32* a, const u32* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

static __device__ __forceinline__ float as_float(__half v) { return __half2float(v); }
static __device__ __forceinline__ float as_float(__nv_bfloat16 v) { return __bfloat162float(v); }
static __device__ __forceinline__ void put2(__half* p, float x, float y) {
  *reinterpret_cast<__half2*>(p) = __floats2half2_rn(x, y);
}
static __device__ __forceinline__ void put2(__nv_bfloat16* p, float x, float y) {
  *reinterpret_cast<__nv_bfloat162*>(p) = __floats2bfloat162_rn(x, y);
}

template <typename Out, int TM, bool HAS_BIAS>
__global__ void __launch_bounds__(128)
fp8_linear_kernel(const __nv_fp8_e4m3* __restrict__ x, const float* __restrict__ x_scale,
                  const __nv_fp8_e4m3* __restrict__ w, const float* __restrict__ w_scale,
                  const Out* __restrict__ bias, Out* __restrict__ out, int M, int N, int K) {
  constexpr int WARPS_M = TM == 16 ? 1 : 2, WARPS_N = 4 / WARPS_M;
  constexpr int MI = TM / WARPS_M / 16, NI = FP8_TN / WARPS_N / 8;
  constexpr int STAGE_BYTES = (TM + FP8_TN) * FP8_TK;
  __shared__ __align__(128) unsigned char buf[FP8_STAGES * STAGE_BYTES];

  const u32 smem = (u32)__cvta_generic_to_shared(buf);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int wm = warp / WARPS_N * MI * 16, wn = warp % WARPS_N * NI * 8;
  const int m0 = blockIdx.y * TM, n0 = blockIdx.x * FP8_TN;
  const int tiles = K / FP8_TK;

  auto fetch = [&](int tile) {
    if (tile < tiles) {
      const u32 sx = smem + tile % FP8_STAGES * STAGE_BYTES, sw = sx + TM * FP8_TK;
      for (int c = tid; c < TM * 4; c += 128) {
        const int r = c >> 2, row = m0 + r;
        // rows past M are zero-filled; the address stays inside of x
        g2s(sx + swz(r, c & 3), x + (size_t)(row < M ? row : 0) * K + tile * FP8_TK + (c & 3) * 16, row < M ? 16 : 0);
      }
      for (int c = tid; c < FP8_TN * 4; c += 128)
        g2s(sw + swz(c >> 2, c & 3), w + (size_t)(n0 + (c >> 2)) * K + tile * FP8_TK + (c & 3) * 16, 16);
    }
    asm volatile("cp.async.commit_group;\n" ::);  // may be empty: keeps the count right at the end
  };

  float acc[MI][NI][4];
#pragma unroll
  for (int i = 0; i < MI; i++)
#pragma unroll
    for (int j = 0; j < NI; j++) acc[i][j][0] = acc[i][j][1] = acc[i][j][2] = acc[i][j][3] = 0.f;

  for (int s = 0; s < FP8_STAGES - 1; s++) fetch(s);

  for (int t = 0; t < tiles; t++) {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(FP8_STAGES - 2));
    __syncthreads();
    fetch(t + FP8_STAGES - 1);  // into the stage that everybody has finished with

    const u32 sx = smem + t % FP8_STAGES * STAGE_BYTES, sw = sx + TM * FP8_TK;
#pragma unroll
    for (int kc = 0; kc < FP8_TK / 16; kc += 2) {  // 32 values = two chunks
      u32 a[MI][4], b[NI][2];
#pragma unroll
      for (int i = 0; i < MI; i++)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3])
                     : "r"(sx + swz(wm + i * 16 + (lane & 15), kc + (lane >> 4))));
#pragma unroll
      for (int j = 0; j < NI; j += 2)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(b[j][0]), "=r"(b[j][1]), "=r"(b[j + 1][0]), "=r"(b[j + 1][1])
                     : "r"(sw + swz(wn + j * 8 + (lane >> 4 << 3) + (lane & 7), kc + (lane >> 3 & 1))));
#pragma unroll
      for (int i = 0; i < MI; i++)
#pragma unroll
        for (int j = 0; j < NI; j++) mma_e4m3(acc[i][j], a[i], b[j]);
    }
  }

  const float sx = *x_scale;
#pragma unroll
  for (int j = 0; j < NI; j++) {
    const int n = n0 + wn + j * 8 + (lane & 3) * 2;
    const float s0 = sx * w_scale[n], s1 = sx * w_scale[n + 1];
    float b0 = 0.f, b1 = 0.f;
    if (HAS_BIAS) {
      b0 = as_float(bias[n]);
      b1 = as_float(bias[n + 1]);
    }
#pragma unroll
    for (int i = 0; i < MI; i++) {
      const int m = m0 + wm + i * 16 + (lane >> 2);
      if (m < M) put2(out + (size_t)m * N + n, acc[i][j][0] * s0 + b0, acc[i][j][1] * s1 + b1);
      if (m + 8 < M) put2(out + (size_t)(m + 8) * N + n, acc[i][j][2] * s0 + b0, acc[i][j][3] * s1 + b1);
    }
  }
}

template <typename Out>
cudaError_t fp8_linear(const __nv_fp8_e4m3* x, const float* x_scale, const __nv_fp8_e4m3* w, const float* w_scale,
                       const Out* bias, Out* out, int M, int N, int K, cudaStream_t stream = nullptr) {
  if (K % FP8_TK || N % FP8_TN) return cudaErrorInvalidValue;
  if (M <= 32) {
    dim3 grid(N / FP8_TN, (M + 15) / 16);
    if (bias)
      fp8_linear_kernel<Out, 16, true><<<grid, 128, 0, stream>>>(x, x_scale, w, w_scale, bias, out, M, N, K);
    else
      fp8_linear_kernel<Out, 16, false><<<grid, 128, 0, stream>>>(x, x_scale, w, w_scale, bias, out, M, N, K);
  } else {
    dim3 grid(N / FP8_TN, (M + 63) / 64);
    if (bias)
      fp8_linear_kernel<Out, 64, true><<<grid, 128, 0, stream>>>(x, x_scale, w, w_scale, bias, out, M, N, K);
    else
      fp8_linear_kernel<Out, 64, false><<<grid, 128, 0, stream>>>(x, x_scale, w, w_scale, bias, out, M, N, K);
  }
  return cudaGetLastError();
}

template cudaError_t fp8_linear<__half>(const __nv_fp8_e4m3*, const float*, const __nv_fp8_e4m3*, const float*,
                                        const __half*, __half*, int, int, int, cudaStream_t);
template cudaError_t fp8_linear<__nv_bfloat16>(const __nv_fp8_e4m3*, const float*, const __nv_fp8_e4m3*, const float*,
                                               const __nv_bfloat16*, __nv_bfloat16*, int, int, int, cudaStream_t);
