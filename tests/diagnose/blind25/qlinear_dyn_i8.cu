// W8A8 linear with dynamic per-token activation scales and per-channel weight scales.
//
//   y[m, n] = bf16( (sum_k x[m, k] * w[n, k]) * x_scale[m] * w_scale[n] + bias[n] )
//
// x: [M, K] int8 (output of quantize_per_token), w: [N, K] int8 (nn.Linear layout). No requirement on M, N and K; if K is
// a multiple of 16 global loads are vectorized, otherwise they are done bytewise.

#include <cuda_bf16.h>
#include <stdint.h>

#define DEVINL __device__ __forceinline__

constexpr int kBlockM = 64;
constexpr int kBlockN = 64;
constexpr int kBlockK = 64;  // bytes
constexpr int kThreads = 128;
constexpr int kStride = kBlockK + 16;  // row stride in shared memory, bank-conflict free
constexpr int kChunksPerRow = kBlockK / 16;
constexpr int kLoadsA = kBlockM * kChunksPerRow / kThreads;
constexpr int kLoadsB = kBlockN * kChunksPerRow / kThreads;

union Pack16 {
  int4 vec;
  int8_t bytes[16];
};

// 16 bytes of row `row`, starting at column `k`; zero outside of the matrix.
DEVINL int4 load_chunk(const int8_t* __restrict__ mat, int row, int rows, int k, int K) {
  Pack16 p;
  p.vec = make_int4(0, 0, 0, 0);
  if (row < rows) {
    const int8_t* src = mat + (int64_t)row * K + k;
    if (K % 16 == 0) {
      if (k < K) p.vec = *reinterpret_cast<const int4*>(src);
    } else {
#pragma unroll
      for (int i = 0; i < 16; i++)
        if (k + i < K) p.bytes[i] = src[i];
    }
  }
  return p.vec;
}

DEVINL void mma_s8(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

DEVINL uint32_t lds32(const int8_t* p) { return *reinterpret_cast<const uint32_t*>(p); }

__global__ void __launch_bounds__(kThreads)
qlinear_w8a8_kernel(const int8_t* __restrict__ x, const int8_t* __restrict__ w, const float* __restrict__ x_scale,
                    const float* __restrict__ w_scale, const float* __restrict__ bias, __nv_bfloat16* __restrict__ y,
                    int M, int N, int K) {
  __shared__ __align__(16) int8_t smem_x[2][kBlockM * kStride];
  __shared__ __align__(16) int8_t smem_w[2][kBlockN * kStride];

  const int warp_id = threadIdx.x >> 5;
  const int lane = threadIdx.x & 31;
  const int group = lane >> 2;  // row of A, column of B
  const int tig = lane & 3;     // thread in group
  const int wm = (warp_id >> 1) * 32;
  const int wn = (warp_id & 1) * 32;
  const int m0 = blockIdx.x * kBlockM;
  const int n0 = blockIdx.y * kBlockN;

  int4 reg_x[kLoadsA], reg_w[kLoadsB];

  auto gmem_to_regs = [&](int k0) {
#pragma unroll
    for (int i = 0; i < kLoadsA; i++) {
      const int chunk = i * kThreads + threadIdx.x;
      reg_x[i] = load_chunk(x, m0 + chunk / kChunksPerRow, M, k0 + chunk % kChunksPerRow * 16, K);
    }
#pragma unroll
    for (int i = 0; i < kLoadsB; i++) {
      const int chunk = i * kThreads + threadIdx.x;
      reg_w[i] = load_chunk(w, n0 + chunk / kChunksPerRow, N, k0 + chunk % kChunksPerRow * 16, K);
    }
  };
  auto regs_to_smem = [&](int buf) {
#pragma unroll
    for (int i = 0; i < kLoadsA; i++) {
      const int chunk = i * kThreads + threadIdx.x;
      const int off = chunk / kChunksPerRow * kStride + chunk % kChunksPerRow * 16;
      *reinterpret_cast<int4*>(&smem_x[buf][off]) = reg_x[i];
    }
#pragma unroll
    for (int i = 0; i < kLoadsB; i++) {
      const int chunk = i * kThreads + threadIdx.x;
      const int off = chunk / kChunksPerRow * kStride + chunk % kChunksPerRow * 16;
      *reinterpret_cast<int4*>(&smem_w[buf][off]) = reg_w[i];
    }
  };

  int acc[2][4][4];
#pragma unroll
  for (int mi = 0; mi < 2; mi++)
#pragma unroll
    for (int ni = 0; ni < 4; ni++)
#pragma unroll
      for (int r = 0; r < 4; r++) acc[mi][ni][r] = 0;

  const int num_k = (K + kBlockK - 1) / kBlockK;
  gmem_to_regs(0);
  regs_to_smem(0);
  __syncthreads();

  int buf = 0;
  for (int it = 0; it < num_k; it++) {
    const bool has_next = it + 1 < num_k;
    if (has_next) gmem_to_regs((it + 1) * kBlockK);

#pragma unroll
    for (int kk = 0; kk < kBlockK; kk += 32) {
      uint32_t frag_x[2][4];
      uint32_t frag_w[4][2];
#pragma unroll
      for (int mi = 0; mi < 2; mi++) {
        const int8_t* px = &smem_x[buf][(wm + mi * 16 + group) * kStride + kk + tig * 4];
        frag_x[mi][0] = lds32(px);
        frag_x[mi][1] = lds32(px + 8 * kStride);
        frag_x[mi][2] = lds32(px + 16);
        frag_x[mi][3] = lds32(px + 8 * kStride + 16);
      }
#pragma unroll
      for (int ni = 0; ni < 4; ni++) {
        const int8_t* pw = &smem_w[buf][(wn + ni * 8 + group) * kStride + kk + tig * 4];
        frag_w[ni][0] = lds32(pw);
        frag_w[ni][1] = lds32(pw + 16);
      }
#pragma unroll
      for (int mi = 0; mi < 2; mi++)
#pragma unroll
        for (int ni = 0; ni < 4; ni++) mma_s8(acc[mi][ni], frag_x[mi], frag_w[ni]);
    }

    if (has_next) {
      regs_to_smem(buf ^ 1);
      __syncthreads();
      buf ^= 1;
    }
  }

  // dequantize
#pragma unroll
  for (int mi = 0; mi < 2; mi++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int m = m0 + wm + mi * 16 + half * 8 + group;
      if (m >= M) continue;
      const float sx = x_scale[m];
#pragma unroll
      for (int ni = 0; ni < 4; ni++) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
          const int n = n0 + wn + ni * 8 + tig * 2 + j;
          if (n < N) {
            const float v = (float)acc[mi][ni][half * 2 + j] * sx * w_scale[n];
            y[(int64_t)m * N + n] = __float2bfloat16(v + (bias != nullptr ? bias[n] : 0.f));
          }
        }
      }
    }
  }
}

void qlinear_w8a8(const int8_t* x, const int8_t* w, const float* x_scale, const float* w_scale, const float* bias,
                  __nv_bfloat16* y, int M, int N, int K, cudaStream_t stream) {
  dim3 grid((M + kBlockM - 1) / kBlockM, (N + kBlockN - 1) / kBlockN);
  qlinear_w8a8_kernel<<<grid, kThreads, 0, stream>>>(x, w, x_scale, w_scale, bias, y, M, N, K);
}
