/**
 * Kernel 8: the final version.
 *
 * What we have so far, put together:
 *   - BLAS convention: every matrix is column-major, with a leading dimension      (kernel 2)
 *   - tensor cores through WMMA, a warp computes WM x WN                           (kernel 4)
 *   - padded shared memory tiles, no bank conflicts                                (kernel 5)
 *   - double buffering: the next tile waits in registers while we multiply         (kernel 6)
 *   - epilogue through shared memory: coalesced reads of C and writes of D         (kernel 7)
 *   - strided batches in blockIdx.z, like cublasGemmStridedBatchedEx               (new!)
 *
 *   C[i] = alpha * A[i] * B[i] + beta * C[i],  A[i]: M x K, B[i]: K x N, C[i]: M x N
 */
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

constexpr int PAD = 8;       // halfs
constexpr int PAD_C = 4;     // floats

// ---- global memory -> registers --------------------------------------------------------------------------------
// Tiles are ROWS (contiguous in memory) x COLS. A thread takes runs of 4 elements of one column. The fast path needs
// a run inside the matrix and an address that is a multiple of 8 bytes, otherwise we go element by element.
template <int ROWS, int COLS, int THREADS>
__device__ void loadTile(const half *src, int ld, int row0, int col0, int rows, int cols,
                         half (&regs)[ROWS * COLS / THREADS]) {
  constexpr int RUNS = ROWS * COLS / 4 / THREADS;
#pragma unroll
  for (int i = 0; i < RUNS; ++i) {
    const int run = threadIdx.x + i * THREADS;
    const int r = (run % (ROWS / 4)) * 4;
    const int c = run / (ROWS / 4);
    const half *p = src + (size_t)(col0 + c) * ld + row0 + r;
    if (row0 + r + 3 < rows && col0 + c < cols && ld % 4 == 0) {
      *reinterpret_cast<uint2 *>(&regs[i * 4]) = *reinterpret_cast<const uint2 *>(p);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        regs[i * 4 + j] = (row0 + r + j < rows && col0 + c < cols) ? p[j] : __float2half(0.0f);
    }
  }
}

// ---- registers -> shared memory --------------------------------------------------------------------------------
template <int ROWS, int COLS, int THREADS>
__device__ void storeTile(half *dst, const half (&regs)[ROWS * COLS / THREADS]) {
  constexpr int RUNS = ROWS * COLS / 4 / THREADS;
#pragma unroll
  for (int i = 0; i < RUNS; ++i) {
    const int run = threadIdx.x + i * THREADS;
    const int r = (run % (ROWS / 4)) * 4;
    const int c = run / (ROWS / 4);
    *reinterpret_cast<uint2 *>(&dst[c * (ROWS + PAD) + r]) = *reinterpret_cast<const uint2 *>(&regs[i * 4]);
  }
}

template <int BM, int BN, int BK, int WM, int WN>
__global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32)
    hgemmStridedBatched(int M, int N, int K, float alpha, const half *A, int lda, long long strideA, const half *B,
                        int ldb, long long strideB, float beta, float *C, int ldc, long long strideC) {
  constexpr int WARPS_M = BM / WM;
  constexpr int THREADS = WARPS_M * (BN / WN) * 32;
  constexpr int FRAGS_M = WM / 16;
  constexpr int FRAGS_N = WN / 16;
  constexpr int LDAS = BM + PAD;   // As: BK columns of BM
  constexpr int LDBS = BK + PAD;   // Bs: BN columns of BK
  constexpr int LDCS = BM + PAD_C; // Cs: BN columns of BM

  constexpr int AS_SIZE = BK * LDAS;
  constexpr int BS_SIZE = BN * LDBS;
  constexpr int TILES_BYTES = 2 * (AS_SIZE + BS_SIZE) * (int)sizeof(half);
  constexpr int EPI_BYTES = BN * LDCS * (int)sizeof(float);
  // Cs lies over As and Bs
  __shared__ __align__(128) unsigned char smem[TILES_BYTES > EPI_BYTES ? TILES_BYTES : EPI_BYTES];
  half *As = reinterpret_cast<half *>(smem);
  half *Bs = As + 2 * AS_SIZE;
  float *Cs = reinterpret_cast<float *>(smem);

  const int blockRow = blockIdx.x * BM;
  const int blockCol = blockIdx.y * BN;
  A += blockIdx.z * strideA;
  B += blockIdx.z * strideB;
  C += blockIdx.z * strideC;

  const int warpId = threadIdx.x / 32;
  const int warpRow = (warpId % WARPS_M) * WM;
  const int warpCol = (warpId / WARPS_M) * WN;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[FRAGS_M][FRAGS_N];
  for (int i = 0; i < FRAGS_M; ++i)
    for (int j = 0; j < FRAGS_N; ++j)
      wmma::fill_fragment(acc[i][j], 0.0f);

  half regsA[BM * BK / THREADS];
  half regsB[BK * BN / THREADS];

  // prologue: tile 0
  loadTile<BM, BK, THREADS>(A, lda, blockRow, 0, M, K, regsA);
  loadTile<BK, BN, THREADS>(B, ldb, 0, blockCol, K, N, regsB);
  storeTile<BM, BK, THREADS>(As, regsA);
  storeTile<BK, BN, THREADS>(Bs, regsB);
  __syncthreads();

  int stage = 0;
  for (int k0 = 0; k0 < K; k0 += BK) {
    const bool hasNext = k0 + BK < K;
    if (hasNext) {
      loadTile<BM, BK, THREADS>(A, lda, blockRow, k0 + BK, M, K, regsA);
      loadTile<BK, BN, THREADS>(B, ldb, k0 + BK, blockCol, K, N, regsB);
    }

    const half *as = As + stage * AS_SIZE;
    const half *bs = Bs + stage * BS_SIZE;
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> fragA[FRAGS_M];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fragB[FRAGS_N];
      for (int i = 0; i < FRAGS_M; ++i)
        wmma::load_matrix_sync(fragA[i], as + k * LDAS + warpRow + i * 16, LDAS);
      for (int j = 0; j < FRAGS_N; ++j)
        wmma::load_matrix_sync(fragB[j], bs + (warpCol + j * 16) * LDBS + k, LDBS);
      for (int i = 0; i < FRAGS_M; ++i)
        for (int j = 0; j < FRAGS_N; ++j)
          wmma::mma_sync(acc[i][j], fragA[i], fragB[j], acc[i][j]);
    }

    if (hasNext) {
      storeTile<BM, BK, THREADS>(As + (stage ^ 1) * AS_SIZE, regsA);
      storeTile<BK, BN, THREADS>(Bs + (stage ^ 1) * BS_SIZE, regsB);
    }
    __syncthreads();
    stage ^= 1;
  }

  // epilogue: the barrier at the end of the loop has made As and Bs free
  for (int i = 0; i < FRAGS_M; ++i)
    for (int j = 0; j < FRAGS_N; ++j) {
      for (int t = 0; t < acc[i][j].num_elements; ++t)
        acc[i][j].x[t] *= alpha;
      wmma::store_matrix_sync(Cs + (warpCol + j * 16) * LDCS + warpRow + i * 16, acc[i][j], LDCS, wmma::mem_col_major);
    }
  __syncthreads();

  for (int idx = threadIdx.x; idx < BM * BN; idx += THREADS) {
    const int r = idx % BM; // consecutive threads, consecutive rows: coalesced in a column-major C
    const int c = idx / BM;
    const int row = blockRow + r;
    const int col = blockCol + c;
    if (row < M && col < N) {
      float *dst = C + (size_t)col * ldc + row;
      float v = Cs[c * LDCS + r];
      if (beta != 0.0f) // as BLAS: C need not be initialised if beta is 0
        v += beta * *dst;
      *dst = v;
    }
  }
}

void runKernel8(int M, int N, int K, float alpha, const half *A, int lda, long long strideA, const half *B, int ldb,
                long long strideB, float beta, float *C, int ldc, long long strideC, int batchCount) {
  constexpr int BM = 64, BN = 64, BK = 32, WM = 32, WN = 32;
  dim3 grid(CEIL_DIV(M, BM), CEIL_DIV(N, BN), batchCount);
  dim3 block((BM / WM) * (BN / WN) * 32);
  hgemmStridedBatched<BM, BN, BK, WM, WN>
      <<<grid, block>>>(M, N, K, alpha, A, lda, strideA, B, ldb, strideB, beta, C, ldc, strideC);
}
