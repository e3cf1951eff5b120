// Линейный слой W8A8: динамическое квантование активаций по токенам + INT8 GEMM.
//
//   x_q[m, k]  = round(x[m, k] / s_x[m]),   s_x[m] = max_k |x[m, k]| / 127
//   y[m, n]    = s_x[m] * s_w[n] * sum_k x_q[m, k] * w_q[n, k]  + bias[n]
//
// x: [M, K] half, w_q: [N, K] int8 (уже квантованы по выходным каналам), s_w: [N] float,
// bias: [N] half или nullptr, y: [M, N] half. K кратно 32, M и N любые.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#ifndef CUDA_KERNEL_LOOP
#define CUDA_KERNEL_LOOP(i, n) for (int i = threadIdx.x; i < (n); i += blockDim.x)
#endif

namespace w8a8 {

// ------------------------------------------------------------------ квантование
// Один блок на токен.
template <int NumThreads>
__global__ void quantizePerToken(const half* __restrict__ x, int8_t* __restrict__ xq, float* __restrict__ scale, int k) {
  __shared__ float warpMax[NumThreads / 32];
  const half* row = x + static_cast<size_t>(blockIdx.x) * k;
  int8_t* rowQ = xq + static_cast<size_t>(blockIdx.x) * k;

  float amax = 0.f;
  CUDA_KERNEL_LOOP(i, k) amax = fmaxf(amax, fabsf(__half2float(row[i])));
  for (int offset = 16; offset > 0; offset >>= 1) amax = fmaxf(amax, __shfl_down_sync(0xffffffffu, amax, offset));
  if (threadIdx.x % 32 == 0) warpMax[threadIdx.x / 32] = amax;
  __syncthreads();
  amax = warpMax[0];
  for (int w = 1; w < NumThreads / 32; ++w) amax = fmaxf(amax, warpMax[w]);

  // строка из одних нулей: масштаб не должен быть нулём
  const float s = fmaxf(amax, 1e-8f) / 127.f;
  const float inv = 1.f / s;
  if (threadIdx.x == 0) scale[blockIdx.x] = s;
  CUDA_KERNEL_LOOP(i, k) {
    int q = __float2int_rn(__half2float(row[i]) * inv);
    rowQ[i] = static_cast<int8_t>(min(127, max(-127, q)));
  }
}

// ------------------------------------------------------------------ GEMM
struct GemmShape {
  int m, n, k;
};

constexpr int kTileM = 32;
constexpr int kTileN = 64;
constexpr int kTileK = 32;
constexpr int kRowBytes = kTileK + 16;

__device__ __forceinline__ void mmaS8(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ uint32_t word(const int8_t* p) { return *reinterpret_cast<const uint32_t*>(p); }

// 4 варпа: 2 по строкам x 2 по столбцам, каждый считает 16 x 32
__global__ void __launch_bounds__(128)
    gemmS8Dequant(const int8_t* __restrict__ xq, const int8_t* __restrict__ wq, const float* __restrict__ scaleX,
                  const float* __restrict__ scaleW, const half* __restrict__ bias, half* __restrict__ y,
                  GemmShape shape) {
  __shared__ __align__(16) int8_t tileX[kTileM][kRowBytes];
  __shared__ __align__(16) int8_t tileW[kTileN][kRowBytes];

  const int rowBase = blockIdx.x * kTileM;
  const int colBase = blockIdx.y * kTileN;
  const int warpId = threadIdx.x / 32, laneId = threadIdx.x % 32;
  const int warpRow = (warpId & 1) * 16;
  const int warpCol = (warpId >> 1) * 32;
  const int group = laneId >> 2, inGroup = laneId & 3;

  int acc[4][4] = {};
  for (int k0 = 0; k0 < shape.k; k0 += kTileK) {
    // две порции по 16 байт в строке; за краем матрицы — нули
    {
      const int r = threadIdx.x >> 1, c = (threadIdx.x & 1) << 4;
      const int4 zero = make_int4(0, 0, 0, 0);
      if (r < kTileM) {
        const int gr = rowBase + r;
        *reinterpret_cast<int4*>(&tileX[r][c]) =
            gr < shape.m ? *reinterpret_cast<const int4*>(xq + static_cast<size_t>(gr) * shape.k + k0 + c) : zero;
      }
      const int gc = colBase + r;
      *reinterpret_cast<int4*>(&tileW[r][c]) =
          gc < shape.n ? *reinterpret_cast<const int4*>(wq + static_cast<size_t>(gc) * shape.k + k0 + c) : zero;
    }
    __syncthreads();

    const uint32_t a[4] = {
        word(&tileX[warpRow + group][inGroup * 4]),
        word(&tileX[warpRow + group + 8][inGroup * 4]),
        word(&tileX[warpRow + group][inGroup * 4 + 16]),
        word(&tileX[warpRow + group + 8][inGroup * 4 + 16]),
    };
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int8_t* src = tileW[warpCol + j * 8 + group];
      const uint32_t b[2] = {word(src + inGroup * 4), word(src + inGroup * 4 + 16)};
      mmaS8(acc[j], a, b);
    }
    __syncthreads();
  }

  // обратно в half: масштаб строки на масштаб столбца
#pragma unroll
  for (int j = 0; j < 4; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = rowBase + warpRow + group + (e >= 2 ? 8 : 0);
      const int col = colBase + warpCol + j * 8 + inGroup * 2 + (e & 1);
      if (row >= shape.m || col >= shape.n) continue;
      float v = static_cast<float>(acc[j][e]) * scaleX[row] * scaleW[col];
      if (bias != nullptr) v += __half2float(bias[col]);
      y[static_cast<size_t>(row) * shape.n + col] = __float2half_rn(v);
    }
  }
}

}  // namespace w8a8

// xq [M, K] и scaleX [M] — рабочие буферы.
void launch_w8a8_linear(const half* x, const int8_t* wq, const float* scaleW, const half* bias, half* y, int8_t* xq,
                        float* scaleX, int m, int n, int k, cudaStream_t stream = nullptr) {
  constexpr int kQuantThreads = 128;
  w8a8::quantizePerToken<kQuantThreads><<<m, kQuantThreads, 0, stream>>>(x, xq, scaleX, k);
  const dim3 grid((m + w8a8::kTileM - 1) / w8a8::kTileM, (n + w8a8::kTileN - 1) / w8a8::kTileN);
  w8a8::gemmS8Dequant<<<grid, 128, 0, stream>>>(xq, wq, scaleX, scaleW, bias, y, w8a8::GemmShape{m, n, k});
}
