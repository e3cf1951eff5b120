// HGEMM with WMMA, step by step (all half: A[M,K] row-major x B[K,N] row-major = C[M,N] row-major)
//   v1: naive, one warp = one 16x16 tile
//   v2: 128x128x32 block tile, 8 warps, cp.async double buffer, padded smem
// nvcc -O3 -arch=sm_80 hgemm_wmma_async.cu -lcublas -o hgemm && ./hgemm
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

#define OFFSET(row, col, ld) ((row) * (ld) + (col))
#define div_ceil(a, b) (((a) + (b) - 1) / (b))
#define CP_ASYNC_CG(dst, src, bytes) \
  asm volatile("cp.async.cg.shared.global [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(bytes))
#define CP_ASYNC_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

__global__ void hgemm_v1(const half *__restrict__ a, const half *__restrict__ b, half *__restrict__ c,
                         const int M, const int N, const int K) {
  const int row = blockIdx.y * 16;
  const int col = blockIdx.x * 16;
  if (row >= M || col >= N) return;

  wmma::fragment<wmma::accumulator, 16, 16, 16, half> c_frag;
  wmma::fill_fragment(c_frag, __float2half(0.0f));
  for (int k = 0; k < K; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_frag;
    wmma::load_matrix_sync(a_frag, a + OFFSET(row, k, K), K);
    wmma::load_matrix_sync(b_frag, b + OFFSET(k, col, N), N);
    wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
  }
  wmma::store_matrix_sync(c + OFFSET(row, col, N), c_frag, N, wmma::mem_row_major);
}

constexpr int BM = 128, BN = 128, BK = 32;
constexpr int APAD = 8, BPAD = 8;

__global__ void __launch_bounds__(256) hgemm_v2(const half *__restrict__ a, const half *__restrict__ b,
                                                half *__restrict__ c, const int M, const int N, const int K) {
  __shared__ __align__(32) half s_a[2][BM][BK + APAD];
  __shared__ __align__(32) half s_b[2][BK][BN + BPAD];

  const int bx = blockIdx.x, by = blockIdx.y;
  const int tid = threadIdx.x;
  const int wid = tid >> 5;
  const int wm = wid & 1;    // 2 warps along M: 64 rows each
  const int wn = wid >> 1;   // 4 warps along N: 32 cols each

  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> frag_a[4];
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> frag_b[2];
  wmma::fragment<wmma::accumulator, 16, 16, 16, half> frag_c[4][2];
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 2; j++) wmma::fill_fragment(frag_c[i][j], __float2half(0.0f));

  // A tile: 128 x 32, a thread copies 16 halves of one row
  const int load_a_smem_m = tid >> 1;
  const int load_a_smem_k = (tid & 1) << 4;
  // B tile: 32 x 128, a thread copies 16 halves of one row
  const int load_b_smem_k = tid >> 3;
  const int load_b_smem_n = (tid & 7) << 4;

  const half *a_gmem = a + OFFSET(by * BM + load_a_smem_m, load_a_smem_k, K);
  const half *b_gmem = b + OFFSET(load_b_smem_k, bx * BN + load_b_smem_n, N);

  auto load_stage = [&](int stage, int bk) {
    const half *ga = a_gmem + bk * BK;
    const half *gb = b_gmem + (size_t)bk * BK * N;
    const unsigned sa = (unsigned)__cvta_generic_to_shared(&s_a[stage][load_a_smem_m][load_a_smem_k]);
    const unsigned sb = (unsigned)__cvta_generic_to_shared(&s_b[stage][load_b_smem_k][load_b_smem_n]);
    CP_ASYNC_CG(sa, ga, 16);
    CP_ASYNC_CG(sa + 16, ga + 8, 16);
    CP_ASYNC_CG(sb, gb, 16);
    CP_ASYNC_CG(sb + 16, gb + 8, 16);
    CP_ASYNC_COMMIT();
  };

  const int num_k = K / BK;
  load_stage(0, 0);

  for (int bk = 0; bk < num_k; bk++) {
    const int cur = bk & 1;
    if (bk + 1 < num_k) {
      load_stage(cur ^ 1, bk + 1);
      CP_ASYNC_WAIT(1);
    } else {
      CP_ASYNC_WAIT(0);
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        wmma::load_matrix_sync(frag_a[i], &s_a[cur][wm * 64 + i * 16][kk], BK + APAD);
#pragma unroll
      for (int j = 0; j < 2; j++)
        wmma::load_matrix_sync(frag_b[j], &s_b[cur][kk][wn * 32 + j * 16], BN + BPAD);
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) wmma::mma_sync(frag_c[i][j], frag_a[i], frag_b[j], frag_c[i][j]);
    }
    __syncthreads();  // the next iteration writes into `cur`
  }

#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 2; j++) {
      const int row = by * BM + wm * 64 + i * 16;
      const int col = bx * BN + wn * 32 + j * 16;
      wmma::store_matrix_sync(&c[OFFSET(row, col, N)], frag_c[i][j], N, wmma::mem_row_major);
    }
}

void launch_v1(const half *a, const half *b, half *c, int M, int N, int K) {
  hgemm_v1<<<dim3(div_ceil(N, 16), div_ceil(M, 16)), 32>>>(a, b, c, M, N, K);
}

// M % 128 == 0, N % 128 == 0, K % 32 == 0
void launch_v2(const half *a, const half *b, half *c, int M, int N, int K) {
  hgemm_v2<<<dim3(N / BN, M / BM), 256>>>(a, b, c, M, N, K);
}

static cublasHandle_t handle;
void launch_cublas(const half *a, const half *b, half *c, int M, int N, int K) {
  const half alpha = __float2half(1.0f), beta = __float2half(0.0f);
  // row-major C = A B  <=>  column-major C^T = B^T A^T
  cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &alpha, b, CUDA_R_16F, N, a, CUDA_R_16F, K, &beta, c,
               CUDA_R_16F, N, CUBLAS_COMPUTE_16F, CUBLAS_GEMM_DEFAULT_TENSOR_OP);
}

float bench(void (*fn)(const half *, const half *, half *, int, int, int), const half *a, const half *b, half *c,
            int M, int N, int K, int repeat) {
  cudaEvent_t beg, end;
  cudaEventCreate(&beg);
  cudaEventCreate(&end);
  fn(a, b, c, M, N, K);
  cudaEventRecord(beg);
  for (int i = 0; i < repeat; i++) fn(a, b, c, M, N, K);
  cudaEventRecord(end);
  cudaEventSynchronize(end);
  float ms;
  cudaEventElapsedTime(&ms, beg, end);
  cudaEventDestroy(beg);
  cudaEventDestroy(end);
  return ms / repeat;
}

int main() {
  cublasCreate(&handle);
  const int sizes[] = {256, 512, 1024, 2048, 4096};
  for (int n : sizes) {
    const int M = n, N = n, K = n;
    std::vector<half> ha((size_t)M * K), hb((size_t)K * N), h1((size_t)M * N), h2((size_t)M * N), hr((size_t)M * N);
    for (auto &x : ha) x = __float2half((rand() % 200 - 100) / 1000.0f);
    for (auto &x : hb) x = __float2half((rand() % 200 - 100) / 1000.0f);
    half *da, *db, *dc;
    cudaMalloc(&da, ha.size() * sizeof(half));
    cudaMalloc(&db, hb.size() * sizeof(half));
    cudaMalloc(&dc, h1.size() * sizeof(half));
    cudaMemcpy(da, ha.data(), ha.size() * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(db, hb.data(), hb.size() * sizeof(half), cudaMemcpyHostToDevice);

    const float t0 = bench(launch_cublas, da, db, dc, M, N, K, 10);
    cudaMemcpy(hr.data(), dc, hr.size() * sizeof(half), cudaMemcpyDeviceToHost);
    const float t1 = bench(launch_v1, da, db, dc, M, N, K, 10);
    cudaMemcpy(h1.data(), dc, h1.size() * sizeof(half), cudaMemcpyDeviceToHost);
    const float t2 = bench(launch_v2, da, db, dc, M, N, K, 10);
    cudaMemcpy(h2.data(), dc, h2.size() * sizeof(half), cudaMemcpyDeviceToHost);

    float e1 = 0, e2 = 0;
    for (size_t i = 0; i < hr.size(); i++) {
      e1 = std::max(e1, fabsf(__half2float(h1[i]) - __half2float(hr[i])));
      e2 = std::max(e2, fabsf(__half2float(h2[i]) - __half2float(hr[i])));
    }
    const double tflop = 2.0 * M * N * K * 1e-9;
    printf("%5d | cublas %7.2f | v1 %7.2f (err %.4f) | v2 %7.2f (err %.4f) TFLOPS\n", n, tflop / t0, tflop / t1, e1,
           tflop / t2, e2);
    cudaFree(da);
    cudaFree(db);
    cudaFree(dc);
  }
  cublasDestroy(handle);
  return 0;
}
