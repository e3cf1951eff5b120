#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

/*
 * Strided batched GEMM in bfloat16, the interface follows
 * cublasGemmStridedBatchedEx but everything is row major:
 *
 *     C_i = alpha * A_i * B_i + beta * C_i,   i = 0 .. batchCount-1
 *     X_i = X + i * strideX
 *
 * strideX == 0 broadcasts an operand. m and n arbitrary, k arbitrary.
 */

typedef __nv_bfloat16 bf16;
typedef nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 32, 8, 16, bf16, nvcuda::wmma::row_major> FragA;
typedef nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 32, 8, 16, bf16, nvcuda::wmma::row_major> FragB;
typedef nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 32, 8, 16, float> FragC;

enum : int {
  kBlkM = 64,
  kBlkN = 32,
  kBlkK = 32,
  kWarps = 4,       // 2 (m) x 2 (n); a warp owns 32 x 16
};

struct BatchedGemmArgs {
  int m, n, k;
  float alpha, beta;
  const bf16* a;
  int lda;
  long long stride_a;
  const bf16* b;
  int ldb;
  long long stride_b;
  float* c;
  int ldc;
  long long stride_c;
};

static __device__ __forceinline__ bf16 guarded(const bf16* p, int ld, int r, int c, int rows, int cols) {
  return r < rows && c < cols ? p[(long long)r * ld + c] : __float2bfloat16(0.f);
}

__global__ void __launch_bounds__(kWarps * 32)
bf16_gemm_strided_batched(BatchedGemmArgs args) {
  __shared__ __align__(32) bf16 tileA[kBlkM][kBlkK + 16];
  __shared__ __align__(32) bf16 tileB[kBlkK][kBlkN + 16];
  __shared__ __align__(32) float tileC[kBlkM][kBlkN + 8];

  const bf16* A = args.a + blockIdx.z * args.stride_a;
  const bf16* B = args.b + blockIdx.z * args.stride_b;
  float* C = args.c + blockIdx.z * args.stride_c;

  const int tid = threadIdx.x;
  const int wm = (tid / 32) / 2 * 32;
  const int wn = (tid / 32) % 2 * 16;
  const int m0 = blockIdx.x * kBlkM;
  const int n0 = blockIdx.y * kBlkN;

  FragC acc[2];
  nvcuda::wmma::fill_fragment(acc[0], 0.f);
  nvcuda::wmma::fill_fragment(acc[1], 0.f);

  for (int k0 = 0; k0 < args.k; k0 += kBlkK) {
    for (int e = tid; e < kBlkM * kBlkK; e += kWarps * 32)
      tileA[e / kBlkK][e % kBlkK] = guarded(A, args.lda, m0 + e / kBlkK, k0 + e % kBlkK, args.m, args.k);
    for (int e = tid; e < kBlkK * kBlkN; e += kWarps * 32)
      tileB[e / kBlkN][e % kBlkN] = guarded(B, args.ldb, k0 + e / kBlkN, n0 + e % kBlkN, args.k, args.n);
    __syncthreads();

    for (int kk = 0; kk < kBlkK; kk += 16) {
      FragA a;
      nvcuda::wmma::load_matrix_sync(a, &tileA[wm][kk], kBlkK + 16);
      for (int j = 0; j < 2; ++j) {
        FragB b;
        nvcuda::wmma::load_matrix_sync(b, &tileB[kk][wn + j * 8], kBlkN + 16);
        nvcuda::wmma::mma_sync(acc[j], a, b, acc[j]);
      }
    }
    __syncthreads();
  }

  for (int j = 0; j < 2; ++j)
    nvcuda::wmma::store_matrix_sync(&tileC[wm][wn + j * 8], acc[j], kBlkN + 8, nvcuda::wmma::mem_row_major);
  __syncthreads();

  for (int e = tid; e < kBlkM * kBlkN; e += kWarps * 32) {
    const int r = e / kBlkN, c = e % kBlkN;
    if (m0 + r >= args.m || n0 + c >= args.n) continue;
    float* dst = C + (long long)(m0 + r) * args.ldc + n0 + c;
    float v = args.alpha * tileC[r][c];
    if (args.beta != 0.f) v += args.beta * *dst;
    *dst = v;
  }
}

extern "C" int gemm_strided_batched_bf16(int m, int n, int k, float alpha, const void* A, int lda, long long strideA,
                                         const void* B, int ldb, long long strideB, float beta, float* C, int ldc,
                                         long long strideC, int batchCount, cudaStream_t stream) {
  if (m <= 0 || n <= 0 || batchCount <= 0) return 0;
  BatchedGemmArgs args;
  args.m = m;
  args.n = n;
  args.k = k;
  args.alpha = alpha;
  args.beta = beta;
  args.a = static_cast<const bf16*>(A);
  args.lda = lda;
  args.stride_a = strideA;
  args.b = static_cast<const bf16*>(B);
  args.ldb = ldb;
  args.stride_b = strideB;
  args.c = C;
  args.ldc = ldc;
  args.stride_c = strideC;
  dim3 grid((m + kBlkM - 1) / kBlkM, (n + kBlkN - 1) / kBlkN, batchCount);
  bf16_gemm_strided_batched<<<grid, kWarps * 32, 0, stream>>>(args);
  return (int)cudaGetLastError();
}
