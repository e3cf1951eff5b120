// nvcc -O3 -arch=sm_75 -Xcompiler -fPIC -shared -o libbgemm.so batched_hgemm_ctypes.cu
//
// import ctypes, torch
// lib = ctypes.CDLL("./libbgemm.so")
// lib.bgemm_nn(ctypes.c_void_p(a.data_ptr()), ctypes.c_void_p(b.data_ptr()), ctypes.c_void_p(c.data_ptr()),
//              B, M, N, K, ctypes.c_longlong(M*K), ctypes.c_longlong(K*N), ctypes.c_longlong(M*N), ctypes.c_float(1.0))
//
// c[b] = alpha * a[b] @ b[b]      (nn)   a: M x K, b: K x N
// c[b] = alpha * a[b] @ b[b].T    (nt)   a: M x K, b: N x K
// fp16 in, fp16 out, fp32 accumulation; any M, N, K.  A stride of 0 broadcasts the matrix.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdio.h>

using namespace nvcuda;

#define BLOCK_M 64
#define BLOCK_N 64
#define BLOCK_K 32
#define PAD 8

template <bool TRANS_B>
__global__ void bgemm_kernel(const half *A, const half *B, half *C, int M, int N, int K, long long stride_a,
                             long long stride_b, long long stride_c, float alpha) {
  __shared__ __align__(32) half as[BLOCK_M][BLOCK_K + PAD];
  __shared__ __align__(32) half bs[BLOCK_K][BLOCK_N + PAD];
  __shared__ __align__(32) float cs[4][16][16];

  int m0 = blockIdx.y * BLOCK_M;
  int n0 = blockIdx.x * BLOCK_N;
  A += blockIdx.z * stride_a;
  B += blockIdx.z * stride_b;
  C += blockIdx.z * stride_c;

  int tid = threadIdx.x;
  int warp_id = tid / 32;
  int lane_id = tid % 32;

  // warp w: rows 16w .. 16w+15, all the 64 columns
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[BLOCK_N / 16];
  for (int j = 0; j < BLOCK_N / 16; j++) wmma::fill_fragment(acc[j], 0.0f);

  for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
    for (int idx = tid; idx < BLOCK_M * BLOCK_K; idx += 128) {
      int r = idx / BLOCK_K;
      int c = idx % BLOCK_K;
      int gm = m0 + r, gk = k0 + c;
      as[r][c] = (gm < M && gk < K) ? A[(long long)gm * K + gk] : __float2half(0.0f);
    }
    for (int idx = tid; idx < BLOCK_K * BLOCK_N; idx += 128) {
      if (TRANS_B) {
        // consecutive threads read consecutive k
        int n = idx / BLOCK_K;
        int k = idx % BLOCK_K;
        int gn = n0 + n, gk = k0 + k;
        bs[k][n] = (gn < N && gk < K) ? B[(long long)gn * K + gk] : __float2half(0.0f);
      } else {
        int k = idx / BLOCK_N;
        int n = idx % BLOCK_N;
        int gn = n0 + n, gk = k0 + k;
        bs[k][n] = (gn < N && gk < K) ? B[(long long)gk * N + gn] : __float2half(0.0f);
      }
    }
    __syncthreads();

    for (int kk = 0; kk < BLOCK_K; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
      wmma::load_matrix_sync(fa, &as[warp_id * 16][kk], BLOCK_K + PAD);
      for (int j = 0; j < BLOCK_N / 16; j++) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
        wmma::load_matrix_sync(fb, &bs[kk][j * 16], BLOCK_N + PAD);
        wmma::mma_sync(acc[j], fa, fb, acc[j]);
      }
    }
    __syncthreads();
  }

  for (int j = 0; j < BLOCK_N / 16; j++) {
    wmma::store_matrix_sync(&cs[warp_id][0][0], acc[j], 16, wmma::mem_row_major);
    __syncwarp();
    for (int e = lane_id; e < 256; e += 32) {
      int gm = m0 + warp_id * 16 + e / 16;
      int gn = n0 + j * 16 + e % 16;
      if (gm < M && gn < N) C[(long long)gm * N + gn] = __float2half(alpha * cs[warp_id][e / 16][e % 16]);
    }
    __syncwarp();
  }
}

static int check(const char *what) {
  cudaError_t e = cudaGetLastError();
  if (e == cudaSuccess) e = cudaDeviceSynchronize();
  if (e != cudaSuccess) fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
  return (int)e;
}

extern "C" {

int bgemm_nn(const void *a, const void *b, void *c, int batch, int M, int N, int K, long long stride_a,
             long long stride_b, long long stride_c, float alpha) {
  dim3 grid((N + BLOCK_N - 1) / BLOCK_N, (M + BLOCK_M - 1) / BLOCK_M, batch);
  bgemm_kernel<false><<<grid, 128>>>((const half *)a, (const half *)b, (half *)c, M, N, K, stride_a, stride_b,
                                     stride_c, alpha);
  return check("bgemm_nn");
}

int bgemm_nt(const void *a, const void *b, void *c, int batch, int M, int N, int K, long long stride_a,
             long long stride_b, long long stride_c, float alpha) {
  dim3 grid((N + BLOCK_N - 1) / BLOCK_N, (M + BLOCK_M - 1) / BLOCK_M, batch);
  bgemm_kernel<true><<<grid, 128>>>((const half *)a, (const half *)b, (half *)c, M, N, K, stride_a, stride_b,
                                    stride_c, alpha);
  return check("bgemm_nt");
}

}  // extern "C"
