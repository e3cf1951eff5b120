// Weight and bias gradient of a linear layer.
//
//   dW[n][k] += sum_t dY[t][n] * X[t][k]          db[n] += sum_t dY[t][n]
//
// dY: (T, N) bf16, X: (T, K) bf16, both row major, so both operands of the mma are "transposed" and come in
// through ldmatrix.trans.  dW, db are fp32 and must be zeroed (or hold a gradient to add to).
// The tokens are split over blockIdx.z.  N % 8 == 0, K % 8 == 0, any T.

#include <cuda_bf16.h>
#include <cstdint>

constexpr int kTileN = 64;
constexpr int kTileK = 64;
constexpr int kTileT = 32;
constexpr int kPad = 8;
constexpr int kThreads = 128;

struct alignas(16) Stage {
  __nv_bfloat16 dy[kTileT][kTileN + kPad];
  __nv_bfloat16 x[kTileT][kTileK + kPad];
};

__device__ __forceinline__ uint32_t smem_addr(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void ldsm_x4_trans(uint32_t (&r)[4], const __nv_bfloat16* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(smem_addr(p)));
}

__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// copies a kTileT x WIDTH tile, zeros outside of rows < t_end and columns < width
template <int WIDTH>
__device__ void load_tile(__nv_bfloat16 (*dst)[WIDTH + kPad], const __nv_bfloat16* __restrict__ src, int t0, int t_end,
                          int c0, int width) {
  constexpr int kVecs = WIDTH / 8;
  for (int v = threadIdx.x; v < kTileT * kVecs; v += kThreads) {
    const int row = v / kVecs;
    const int col = (v % kVecs) * 8;
    uint4 data = {0u, 0u, 0u, 0u};
    if (t0 + row < t_end && c0 + col < width) {
      data = *reinterpret_cast<const uint4*>(src + static_cast<size_t>(t0 + row) * width + c0 + col);
    }
    *reinterpret_cast<uint4*>(&dst[row][col]) = data;
  }
}

__global__ void __launch_bounds__(kThreads)
wgrad_kernel(const __nv_bfloat16* __restrict__ dY, const __nv_bfloat16* __restrict__ X, float* __restrict__ dW,
             float* __restrict__ db, int T, int N, int K) {
  __shared__ Stage st;

  const int n0 = blockIdx.y * kTileN;
  const int k0 = blockIdx.x * kTileK;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int wn = (warp / 2) * 32;
  const int wk = (warp % 2) * 32;

  const int tiles = (T + kTileT - 1) / kTileT;
  const int tiles_per_split = (tiles + gridDim.z - 1) / gridDim.z;
  const int t_begin = blockIdx.z * tiles_per_split * kTileT;
  const int t_end = min(T, t_begin + tiles_per_split * kTileT);

  float acc[2][4][4] = {};
  float bias_sum = 0.0f;

  for (int t0 = t_begin; t0 < t_end; t0 += kTileT) {
    load_tile<kTileN>(st.dy, dY, t0, t_end, n0, N);
    load_tile<kTileK>(st.x, X, t0, t_end, k0, K);
    __syncthreads();

    // one block column also sums dY over the tokens
    if (blockIdx.x == 0 && threadIdx.x < kTileN) {
      for (int t = 0; t < kTileT; ++t) bias_sum += __bfloat162float(st.dy[t][threadIdx.x]);
    }

#pragma unroll
    for (int tt = 0; tt < kTileT; tt += 16) {
      uint32_t a[2][4];
      uint32_t b[2][4];
      // A is dY transposed: matrices (t 0-7, n 0-7), (t 0-7, n 8-15), (t 8-15, n 0-7), (t 8-15, n 8-15)
      const int a_row = tt + (lane & 7) + ((lane >> 4) << 3);
      const int a_col = ((lane >> 3) & 1) << 3;
      for (int i = 0; i < 2; ++i) ldsm_x4_trans(a[i], &st.dy[a_row][wn + i * 16 + a_col]);
      // B is X: matrices (t 0-7, k 0-7), (t 8-15, k 0-7), (t 0-7, k 8-15), (t 8-15, k 8-15)
      const int b_row = tt + (lane & 15);
      const int b_col = (lane >> 4) << 3;
      for (int j = 0; j < 2; ++j) ldsm_x4_trans(b[j], &st.x[b_row][wk + j * 16 + b_col]);
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 4; ++j) {
          mma_bf16(acc[i][j], a[i], b[j / 2][(j % 2) * 2], b[j / 2][(j % 2) * 2 + 1]);
        }
      }
    }
    __syncthreads();
  }

  if (blockIdx.x == 0 && threadIdx.x < kTileN && n0 + threadIdx.x < N) {
    atomicAdd(&db[n0 + threadIdx.x], bias_sum);
  }

  const int gid = lane >> 2;
  const int tig = lane & 3;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (int e = 0; e < 4; ++e) {
        const int n = n0 + wn + i * 16 + gid + (e / 2) * 8;
        const int k = k0 + wk + j * 8 + tig * 2 + (e % 2);
        if (n < N && k < K) atomicAdd(&dW[static_cast<size_t>(n) * K + k], acc[i][j][e]);
      }
    }
  }
}

void wgrad(const __nv_bfloat16* dY, const __nv_bfloat16* X, float* dW, float* db, int T, int N, int K, int splits,
           cudaStream_t stream) {
  cudaMemsetAsync(dW, 0, sizeof(float) * N * K, stream);
  cudaMemsetAsync(db, 0, sizeof(float) * N, stream);
  dim3 grid((K + kTileK - 1) / kTileK, (N + kTileN - 1) / kTileN, splits);
  wgrad_kernel<<<grid, kThreads, 0, stream>>>(dY, X, dW, db, T, N, K);
}
