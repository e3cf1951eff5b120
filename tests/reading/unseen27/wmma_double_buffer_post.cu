// From the post "Hiding the loads: double buffering a WMMA kernel with cp.async".
//
// D = alpha * A x B + beta * C, in place (D is C).
//     A : M x K half, row-major      B : K x N half, row-major      C : M x N float, row-major
// M and N have to be multiples of 64, K a multiple of 32 (no edge handling, to keep the listing short).
//
// Launch:  dim3 grid(N / 64, M / 64);  gemm_double_buffered<<<grid, 128>>>(A, B, C, M, N, K, alpha, beta);

#include <cuda_fp16.h>
#include <mma.h>

#define BM 64
#define BN 64
#define BK 32
#define SKEW 8

#define CP_ASYNC_16(dst, src)                                              \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(        \
                   (unsigned)__cvta_generic_to_shared(dst)),               \
               "l"(src))
#define CP_ASYNC_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

__device__ __forceinline__ void fetch_tiles(half (*As)[BK + SKEW], half (*Bs)[BN + SKEW],
                                            const half *A, const half *B,
                                            int row0, int col0, int k0, int N, int K)
{
  // A tile: 64 rows of 4 x 16 bytes, B tile: 32 rows of 8 x 16 bytes. 128 threads -> 2 + 2 copies each.
  #pragma unroll
  for (int s = 0; s < 2; s++) {
    int c = threadIdx.x + s * 128;
    int ar = c >> 2, ac = (c & 3) << 3;
    CP_ASYNC_16(&As[ar][ac], A + (size_t)(row0 + ar) * K + k0 + ac);
    int br = c >> 3, bc = (c & 7) << 3;
    CP_ASYNC_16(&Bs[br][bc], B + (size_t)(k0 + br) * N + col0 + bc);
  }
}

__global__ void gemm_double_buffered(const half *A, const half *B, float *C,
                                     int M, int N, int K, float alpha, float beta)
{
  using namespace nvcuda::wmma;

  __shared__ __align__(128) half As[2][BM][BK + SKEW];
  __shared__ __align__(128) half Bs[2][BK][BN + SKEW];

  const int row0 = blockIdx.y * BM;
  const int col0 = blockIdx.x * BN;
  const int warp = threadIdx.x / 32;
  const int wr = (warp / 2) * 32;     // each warp owns a 32 x 32 piece: 2 x 2 fragments
  const int wc = (warp % 2) * 32;

  fragment<accumulator, 16, 16, 16, float> acc[2][2];
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++)
      fill_fragment(acc[i][j], 0.0f);

  const int tiles = K / BK;

  // prologue: tile 0 is on its way
  fetch_tiles(As[0], Bs[0], A, B, row0, col0, 0, N, K);
  CP_ASYNC_COMMIT();

  for (int t = 0; t < tiles; t++) {
    const int cur = t & 1;
    if (t + 1 < tiles) {
      fetch_tiles(As[cur ^ 1], Bs[cur ^ 1], A, B, row0, col0, (t + 1) * BK, N, K);
      CP_ASYNC_COMMIT();
      CP_ASYNC_WAIT(1);               // everything but the newest group has landed
    } else {
      CP_ASYNC_WAIT(0);
    }
    __syncthreads();

    #pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      fragment<matrix_a, 16, 16, 16, half, row_major> a[2];
      fragment<matrix_b, 16, 16, 16, half, row_major> b[2];
      for (int i = 0; i < 2; i++)
        load_matrix_sync(a[i], &As[cur][wr + i * 16][kk], BK + SKEW);
      for (int j = 0; j < 2; j++)
        load_matrix_sync(b[j], &Bs[cur][kk][wc + j * 16], BN + SKEW);
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
          mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
    __syncthreads();                  // nobody may overwrite "cur" before all have read it
  }

  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) {
      float *dst = C + (size_t)(row0 + wr + i * 16) * N + col0 + wc + j * 16;
      fragment<accumulator, 16, 16, 16, float> c;
      load_matrix_sync(c, dst, N, mem_row_major);
      for (int e = 0; e < c.num_elements; e++)
        c.x[e] = alpha * acc[i][j].x[e] + beta * c.x[e];
      store_matrix_sync(dst, c, N, mem_row_major);
    }
}
