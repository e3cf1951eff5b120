/*
 * HGEMM with WMMA, step 5 of the tutorial: block tiling + warp tiling + double buffering + epilogue in shared memory
 *
 *   D[M,N] = alpha * A[M,K] * B[K,N] + beta * C[M,N] + bias[N]      half in, half out, float accumulation
 *
 * All matrices are row major. K and N must be multiples of 8 (vector loads of 8 halves), M is arbitrary.
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

#define DIV_UP(x, y) (((x) + (y)-1) / (y))
#define FETCH_F4(p) (*reinterpret_cast<const float4*>(p))
#define STORE_F4(p) (*reinterpret_cast<float4*>(p))

constexpr int WARP_SIZE = 32;
constexpr int FRAG = 16;   // m = n = k of a WMMA fragment
constexpr int SKEW = 8;    // halves of padding per row in shared memory
constexpr int PATCH_LD = FRAG + 4;

template <int BM, int BN, int BK, int WM, int WN>
__global__ void __launch_bounds__((BM / WM) * (BN / WN) * WARP_SIZE)
hgemm_warptile(const half* __restrict__ A, const half* __restrict__ B, const half* __restrict__ C,
               const half* __restrict__ bias, half* __restrict__ D, int M, int N, int K, float alpha, float beta) {
  constexpr int WARPS_N = BN / WN;
  constexpr int NUM_WARPS = (BM / WM) * WARPS_N;
  constexpr int NUM_THREADS = NUM_WARPS * WARP_SIZE;
  constexpr int MFRAGS = WM / FRAG;
  constexpr int NFRAGS = WN / FRAG;
  constexpr int LDA_S = BK + SKEW;
  constexpr int LDB_S = BN + SKEW;
  constexpr int A_STAGE = BM * LDA_S;
  constexpr int B_STAGE = BK * LDB_S;
  constexpr int A_VECS = BM * BK / 8 / NUM_THREADS;  // 16-byte vectors per thread
  constexpr int B_VECS = BK * BN / 8 / NUM_THREADS;
  static_assert(NUM_WARPS * FRAG * PATCH_LD * sizeof(float) <= 2 * (A_STAGE + B_STAGE) * sizeof(half), "patches");

  __shared__ __align__(128) half smem[2 * (A_STAGE + B_STAGE)];
  half* As = smem;
  half* Bs = smem + 2 * A_STAGE;

  const int tid = threadIdx.x;
  const int warp_id = tid / WARP_SIZE;
  const int lane_id = tid % WARP_SIZE;
  const int warp_row = (warp_id / WARPS_N) * WM;  // of the warp's tile within the block's
  const int warp_col = (warp_id % WARPS_N) * WN;
  const int block_row = blockIdx.y * BM;
  const int block_col = blockIdx.x * BN;

  float4 a_reg[A_VECS];
  float4 b_reg[B_VECS];

  // global -> registers
  auto load_global = [&](int k0) {
#pragma unroll
    for (int i = 0; i < A_VECS; ++i) {
      const int idx = tid + i * NUM_THREADS;
      const int r = block_row + idx / (BK / 8);
      const int c = k0 + (idx % (BK / 8)) * 8;
      a_reg[i] = (r < M && c < K) ? FETCH_F4(A + (size_t)r * K + c) : make_float4(0.f, 0.f, 0.f, 0.f);
    }
#pragma unroll
    for (int i = 0; i < B_VECS; ++i) {
      const int idx = tid + i * NUM_THREADS;
      const int r = k0 + idx / (BN / 8);
      const int c = block_col + (idx % (BN / 8)) * 8;
      b_reg[i] = (r < K && c < N) ? FETCH_F4(B + (size_t)r * N + c) : make_float4(0.f, 0.f, 0.f, 0.f);
    }
  };
  // registers -> shared
  auto store_shared = [&](int stage) {
#pragma unroll
    for (int i = 0; i < A_VECS; ++i) {
      const int idx = tid + i * NUM_THREADS;
      STORE_F4(As + stage * A_STAGE + (idx / (BK / 8)) * LDA_S + (idx % (BK / 8)) * 8) = a_reg[i];
    }
#pragma unroll
    for (int i = 0; i < B_VECS; ++i) {
      const int idx = tid + i * NUM_THREADS;
      STORE_F4(Bs + stage * B_STAGE + (idx / (BN / 8)) * LDB_S + (idx % (BN / 8)) * 8) = b_reg[i];
    }
  };

  wmma::fragment<wmma::accumulator, FRAG, FRAG, FRAG, float> acc[MFRAGS][NFRAGS];
#pragma unroll
  for (int i = 0; i < MFRAGS; ++i)
#pragma unroll
    for (int j = 0; j < NFRAGS; ++j) wmma::fill_fragment(acc[i][j], 0.0f);

  load_global(0);
  store_shared(0);
  __syncthreads();

  const int k_tiles = DIV_UP(K, BK);
  for (int t = 0; t < k_tiles; ++t) {
    const int stage = t % 2;
    if (t + 1 < k_tiles) load_global((t + 1) * BK);  // in flight while the tensor cores work

    const half* a_tile = As + stage * A_STAGE;
    const half* b_tile = Bs + stage * B_STAGE;
#pragma unroll
    for (int kk = 0; kk < BK; kk += FRAG) {
      wmma::fragment<wmma::matrix_a, FRAG, FRAG, FRAG, half, wmma::row_major> a_frag[MFRAGS];
      wmma::fragment<wmma::matrix_b, FRAG, FRAG, FRAG, half, wmma::row_major> b_frag[NFRAGS];
#pragma unroll
      for (int i = 0; i < MFRAGS; ++i)
        wmma::load_matrix_sync(a_frag[i], a_tile + (warp_row + i * FRAG) * LDA_S + kk, LDA_S);
#pragma unroll
      for (int j = 0; j < NFRAGS; ++j)
        wmma::load_matrix_sync(b_frag[j], b_tile + kk * LDB_S + warp_col + j * FRAG, LDB_S);
#pragma unroll
      for (int i = 0; i < MFRAGS; ++i)
#pragma unroll
        for (int j = 0; j < NFRAGS; ++j) wmma::mma_sync(acc[i][j], a_frag[i], b_frag[j], acc[i][j]);
    }

    if (t + 1 < k_tiles) store_shared(stage ^ 1);
    __syncthreads();
  }

  // epilogue: each warp sends its fragments one by one through a 16x16 patch of its own
  float* patch = reinterpret_cast<float*>(smem) + warp_id * FRAG * PATCH_LD;
  const int pr = lane_id / 2;        // two lanes per row of the patch,
  const int pc = (lane_id % 2) * 8;  // 8 columns each
#pragma unroll
  for (int i = 0; i < MFRAGS; ++i) {
#pragma unroll
    for (int j = 0; j < NFRAGS; ++j) {
      wmma::store_matrix_sync(patch, acc[i][j], PATCH_LD, wmma::mem_row_major);
      __syncwarp();
      const int row = block_row + warp_row + i * FRAG + pr;
      const int col = block_col + warp_col + j * FRAG + pc;
      if (row < M && col < N) {
        const size_t out = (size_t)row * N + col;
        __align__(16) half c_in[8], result[8];
        STORE_F4(c_in) = FETCH_F4(C + out);
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          float value = alpha * patch[pr * PATCH_LD + pc + e];
          value += beta * __half2float(c_in[e]);
          value += __half2float(bias[col + e]);
          result[e] = __float2half(value);
        }
        STORE_F4(D + out) = FETCH_F4(result);
      }
      __syncwarp();  // before the next fragment goes into the patch
    }
  }
}

void hgemm(const half* A, const half* B, const half* C, const half* bias, half* D, int M, int N, int K, float alpha,
           float beta) {
  constexpr int BM = 128, BN = 128, BK = 32, WM = 64, WN = 32;
  dim3 block((BM / WM) * (BN / WN) * WARP_SIZE);
  dim3 grid(DIV_UP(N, BN), DIV_UP(M, BM));
  hgemm_warptile<BM, BN, BK, WM, WN><<<grid, block>>>(A, B, C, bias, D, M, N, K, alpha, beta);
}
