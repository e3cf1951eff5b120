// y = x @ W.T + scaling * (x @ A.T) @ B.T     -- a linear layer with an unmerged LoRA adapter of rank 16
//
// x: (tokens, in), W: (out, in), A: (16, in), B: (out, 16), y: (tokens, out); all half, row-major.
// The low-rank product of the block's tokens is kept in shared memory and never goes to global memory.
#include <mma.h>
#include <cuda_fp16.h>

using namespace nvcuda::wmma;

template <int M_, int N_, int K_>
struct TileConfig {
  static constexpr int M = M_, N = N_, K = K_;
  static constexpr int Rank = 16;
  static constexpr int WarpsM = 2, WarpsN = 2;
  static constexpr int Threads = WarpsM * WarpsN * 32;
  static constexpr int Ld = K + 8;       // of x, W and A
  static constexpr int LdLow = Rank + 8; // of x A^T, scaled
  static constexpr int LdOut = N + 4;
};

template <typename Cfg>
struct SharedStorage {
  union {
    struct {
      __half x[Cfg::M * Cfg::Ld];
      __half w[Cfg::N * Cfg::Ld];
      __half a[Cfg::Rank * Cfg::Ld];
    } main;
    float out[Cfg::M * Cfg::LdOut];
  };
  float low_f32[Cfg::M * Cfg::Rank];
  __half low[Cfg::M * Cfg::LdLow];
};

template <typename Cfg>
__device__ inline void fill_tile(__half* tile, const __half* src, int tile_rows, int row0, int rows, int col0,
                                 int cols) {
  for (int idx = threadIdx.x; idx < tile_rows * Cfg::K; idx += Cfg::Threads) {
    const int r = idx / Cfg::K, c = idx % Cfg::K;
    __half v = __float2half(0.f);
    if (row0 + r < rows && col0 + c < cols) v = src[(row0 + r) * cols + col0 + c];
    tile[r * Cfg::Ld + c] = v;
  }
}

template <typename Cfg>
__global__ void lora_linear_kernel(const __half* __restrict__ x, const __half* __restrict__ W,
                                   const __half* __restrict__ A, const __half* __restrict__ B,
                                   __half* __restrict__ y, int tokens, int in_features, int out_features,
                                   float scaling) {
  __shared__ __align__(128) SharedStorage<Cfg> smem;

  const int warp = threadIdx.x / 32;
  const int warp_m = warp / Cfg::WarpsN, warp_n = warp % Cfg::WarpsN;
  const int token0 = blockIdx.y * Cfg::M;
  const int feature0 = blockIdx.x * Cfg::N;

  fragment<accumulator, 16, 16, 16, float> acc[2][2], low;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) fill_fragment(acc[i][j], 0.f);
  fill_fragment(low, 0.f);

  for (int k0 = 0; k0 < in_features; k0 += Cfg::K) {
    fill_tile<Cfg>(smem.main.x, x, Cfg::M, token0, tokens, k0, in_features);
    fill_tile<Cfg>(smem.main.w, W, Cfg::N, feature0, out_features, k0, in_features);
    fill_tile<Cfg>(smem.main.a, A, Cfg::Rank, 0, Cfg::Rank, k0, in_features);
    __syncthreads();

    for (int kk = 0; kk < Cfg::K; kk += 16) {
      fragment<matrix_a, 16, 16, 16, __half, row_major> fx[2], fx_low;
      fragment<matrix_b, 16, 16, 16, __half, col_major> fw, fa;
      for (int i = 0; i < 2; ++i)
        load_matrix_sync(fx[i], smem.main.x + (warp_m * 32 + i * 16) * Cfg::Ld + kk, Cfg::Ld);
      for (int j = 0; j < 2; ++j) {
        load_matrix_sync(fw, smem.main.w + (warp_n * 32 + j * 16) * Cfg::Ld + kk, Cfg::Ld);
        for (int i = 0; i < 2; ++i) mma_sync(acc[i][j], fx[i], fw, acc[i][j]);
      }
      // low-rank product: every warp has 16 tokens of its own
      load_matrix_sync(fx_low, smem.main.x + warp * 16 * Cfg::Ld + kk, Cfg::Ld);
      load_matrix_sync(fa, smem.main.a + kk, Cfg::Ld);
      mma_sync(low, fx_low, fa, low);
    }
    __syncthreads();
  }

  store_matrix_sync(smem.low_f32 + warp * 16 * Cfg::Rank, low, Cfg::Rank, mem_row_major);
  __syncthreads();
  for (int idx = threadIdx.x; idx < Cfg::M * Cfg::Rank; idx += Cfg::Threads)
    smem.low[idx / Cfg::Rank * Cfg::LdLow + idx % Cfg::Rank] = __float2half(smem.low_f32[idx] * scaling);
  __syncthreads();

  // acc += low @ B^T; out_features is a multiple of 16, and a fragment behind the last one is left out
  for (int j = 0; j < 2; ++j) {
    const int feature = feature0 + warp_n * 32 + j * 16;
    if (feature >= out_features) continue;
    fragment<matrix_b, 16, 16, 16, __half, col_major> fb;
    load_matrix_sync(fb, B + feature * Cfg::Rank, Cfg::Rank);
    for (int i = 0; i < 2; ++i) {
      fragment<matrix_a, 16, 16, 16, __half, row_major> fl;
      load_matrix_sync(fl, smem.low + (warp_m * 32 + i * 16) * Cfg::LdLow, Cfg::LdLow);
      mma_sync(acc[i][j], fl, fb, acc[i][j]);
    }
  }

  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      store_matrix_sync(smem.out + (warp_m * 32 + i * 16) * Cfg::LdOut + warp_n * 32 + j * 16, acc[i][j], Cfg::LdOut,
                        mem_row_major);
  __syncthreads();

  for (int idx = threadIdx.x; idx < Cfg::M * Cfg::N; idx += Cfg::Threads) {
    const int r = idx / Cfg::N, c = idx % Cfg::N;
    if (token0 + r < tokens && feature0 + c < out_features)
      y[(token0 + r) * out_features + feature0 + c] = __float2half(smem.out[r * Cfg::LdOut + c]);
  }
}

using DefaultTile = TileConfig<64, 64, 32>;

void lora_linear(const __half* x, const __half* W, const __half* A, const __half* B, __half* y, int tokens,
                 int in_features, int out_features, float scaling, cudaStream_t stream) {
  dim3 grid((out_features + 63) / 64, (tokens + 63) / 64);
  lora_linear_kernel<DefaultTile><<<grid, DefaultTile::Threads, 0, stream>>>(x, W, A, B, y, tokens, in_features,
                                                                             out_features, scaling);
}
