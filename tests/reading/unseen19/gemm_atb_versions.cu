// C = A^T * B with tensor cores, from slow to fast. A is K x M, B is K x N, C is M x N, all row-major: the product
// of the weight gradient, where the long dimension K (tokens) is the slow one of both operands.
//
// usage: ./gemm_atb [M N K] [repeats]
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <mma.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

using namespace nvcuda;

#define CHECK(x)                                                                          \
  do {                                                                                    \
    cudaError_t e_ = (x);                                                                 \
    if (e_ != cudaSuccess) {                                                              \
      fprintf(stderr, "%s at line %d: %s\n", #x, __LINE__, cudaGetErrorString(e_));       \
      exit(EXIT_FAILURE);                                                                 \
    }                                                                                     \
  } while (0)

// ---- v1: one warp, one tile, everything from global memory
__global__ void atb_v1(const half* A, const half* B, float* C, int M, int N, int K) {
  int m = blockIdx.y * 16, n = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.0f);
  for (int k = 0; k < K; k += 16) {
    wmma::load_matrix_sync(a, A + (size_t)k * M + m, M);
    wmma::load_matrix_sync(b, B + (size_t)k * N + n, N);
    wmma::mma_sync(c, a, b, c);
  }
  wmma::store_matrix_sync(C + (size_t)m * N + n, c, N, wmma::mem_row_major);
}

// ---- v2: 64 x 64 tile per block through shared memory
constexpr int T = 64, KT = 32, LDT = T + 8;

__global__ void atb_v2(const half* A, const half* B, float* C, int M, int N, int K) {
  __shared__ __align__(32) half sa[KT * LDT], sb[KT * LDT];
  const int m0 = blockIdx.y * T, n0 = blockIdx.x * T;
  const int warp = threadIdx.x / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[2][2];
  for (int i = 0; i < 4; i++) wmma::fill_fragment(c[i / 2][i % 2], 0.0f);
  for (int k0 = 0; k0 < K; k0 += KT) {
    for (int i = threadIdx.x; i < KT * T / 8; i += blockDim.x) {
      int k = i / (T / 8), x = i % (T / 8) * 8;
      *(float4*)&sa[k * LDT + x] = *(const float4*)&A[(size_t)(k0 + k) * M + m0 + x];
      *(float4*)&sb[k * LDT + x] = *(const float4*)&B[(size_t)(k0 + k) * N + n0 + x];
    }
    __syncthreads();
    for (int k = 0; k < KT; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> a[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
      for (int i = 0; i < 2; i++) {
        wmma::load_matrix_sync(a[i], &sa[k * LDT + wm + i * 16], LDT);
        wmma::load_matrix_sync(b[i], &sb[k * LDT + wn + i * 16], LDT);
      }
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) wmma::mma_sync(c[i][j], a[i], b[j], c[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++)
      wmma::store_matrix_sync(C + (size_t)(m0 + wm + i * 16) * N + n0 + wn + j * 16, c[i][j], N, wmma::mem_row_major);
}

// ---- v3: cp.async double buffer, mma.sync, ldmatrix.trans for both operands. blockIdx.z: part of K (v4)
__device__ __forceinline__ void ldsm_t(unsigned* r, const half* p) {
  unsigned s = (unsigned)__cvta_generic_to_shared(p);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(s));
}

__global__ void atb_v3(const half* A, const half* B, float* C, int M, int N, int K, int kpart) {
  __shared__ __align__(16) half sa[2][KT * LDT], sb[2][KT * LDT];
  const int m0 = blockIdx.y * T, n0 = blockIdx.x * T;
  const int kbeg = blockIdx.z * kpart, kend = min(K, kbeg + kpart);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;
  C += (size_t)blockIdx.z * M * N;

  auto copy = [&](int buf, int k0) {
    for (int i = threadIdx.x; i < KT * T / 8; i += blockDim.x) {
      int k = i / (T / 8), x = i % (T / 8) * 8;
      unsigned da = (unsigned)__cvta_generic_to_shared(&sa[buf][k * LDT + x]);
      unsigned db = (unsigned)__cvta_generic_to_shared(&sb[buf][k * LDT + x]);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(da), "l"(A + (size_t)(k0 + k) * M + m0 + x));
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(db), "l"(B + (size_t)(k0 + k) * N + n0 + x));
    }
    asm volatile("cp.async.commit_group;");
  };

  float c[2][4][4] = {};
  if (kbeg < kend) copy(0, kbeg);
  for (int k0 = kbeg, buf = 0; k0 < kend; k0 += KT, buf ^= 1) {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    if (k0 + KT < kend) copy(buf ^ 1, k0 + KT);
    for (int k = 0; k < KT; k += 16) {
      unsigned a[2][4], b[2][4];
      for (int i = 0; i < 2; i++) {
        // A is stored k by m: matrices 0..3 are (k, m), (k, m + 8), (k + 8, m), (k + 8, m + 8)
        ldsm_t(a[i], &sa[buf][(k + lane % 8 + lane / 16 * 8) * LDT + wm + i * 16 + lane / 8 % 2 * 8]);
        // and those of B (k, n), (k + 8, n), (k, n + 8), (k + 8, n + 8)
        ldsm_t(b[i], &sb[buf][(k + lane % 16) * LDT + wn + i * 16 + lane / 16 * 8]);
      }
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
          asm volatile(
              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
              : "+f"(c[i][j][0]), "+f"(c[i][j][1]), "+f"(c[i][j][2]), "+f"(c[i][j][3])
              : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j / 2][j % 2 * 2]),
                "r"(b[j / 2][j % 2 * 2 + 1]));
    }
  }
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 4; j++) {
      float* p = C + (size_t)(m0 + wm + i * 16 + lane / 4) * N + n0 + wn + j * 8 + lane % 4 * 2;
      *(float2*)p = make_float2(c[i][j][0], c[i][j][1]);
      *(float2*)(p + 8 * (size_t)N) = make_float2(c[i][j][2], c[i][j][3]);
    }
}

// ---- v4: v3 with K in parts, then their sum
__global__ void sum_parts(const float* ws, float* C, int mn, int parts) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= mn) return;
  float s = 0.0f;
  for (int p = 0; p < parts; p++) s += ws[(size_t)p * mn + i];
  C[i] = s;
}

int main(int argc, char** argv) {
  int M = 128, N = 192, K = 512, repeats = 1;
  if (argc >= 4) M = atoi(argv[1]), N = atoi(argv[2]), K = atoi(argv[3]);
  if (argc >= 5) repeats = atoi(argv[4]);
  if (M % T || N % T || K % KT || M <= 0 || N <= 0 || K <= 0) {
    printf("M and N must be multiples of %d, K of %d\n", T, KT);
    return 1;
  }
  const int parts = 4, kpart = (K / KT + parts - 1) / parts * KT;

  std::vector<half> hA((size_t)K * M), hB((size_t)K * N);
  for (auto& v : hA) v = __float2half((rand() % 201 - 100) / 100.0f);
  for (auto& v : hB) v = __float2half((rand() % 201 - 100) / 100.0f);
  half *A, *B;
  float *C, *R, *ws;
  CHECK(cudaMalloc(&A, hA.size() * sizeof(half)));
  CHECK(cudaMalloc(&B, hB.size() * sizeof(half)));
  CHECK(cudaMalloc(&C, (size_t)M * N * sizeof(float)));
  CHECK(cudaMalloc(&R, (size_t)M * N * sizeof(float)));
  CHECK(cudaMalloc(&ws, (size_t)parts * M * N * sizeof(float)));
  CHECK(cudaMemcpy(A, hA.data(), hA.size() * sizeof(half), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(B, hB.data(), hB.size() * sizeof(half), cudaMemcpyHostToDevice));

  // cuBLAS is column-major: it computes C^T = B^T A
  cublasHandle_t handle;
  cublasCreate(&handle);
  const float one = 1.0f, zero = 0.0f;
  auto blas = [&] {
    cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_T, N, M, K, &one, B, CUDA_R_16F, N, A, CUDA_R_16F, M, &zero, R,
                 CUDA_R_32F, N, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  };
  blas();
  std::vector<float> ref((size_t)M * N), out(ref.size());
  CHECK(cudaMemcpy(ref.data(), R, ref.size() * sizeof(float), cudaMemcpyDeviceToHost));

  const dim3 tiles(N / T, M / T);
  struct Version {
    std::string name;
    std::function<void()> launch;
  };
  const std::vector<Version> versions = {
      {"v1 global", [&] { atb_v1<<<dim3(N / 16, M / 16), 32>>>(A, B, C, M, N, K); }},
      {"v2 shared", [&] { atb_v2<<<tiles, 128>>>(A, B, C, M, N, K); }},
      {"v3 async", [&] { atb_v3<<<tiles, 128>>>(A, B, C, M, N, K, K); }},
      {"v4 split-K", [&] {
         atb_v3<<<dim3(N / T, M / T, parts), 128>>>(A, B, ws, M, N, K, kpart);
         sum_parts<<<(M * N + 255) / 256, 256>>>(ws, C, M * N, parts);
       }},
  };

  cudaEvent_t start, stop;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  int failures = 0;
  for (const auto& v : versions) {
    CHECK(cudaMemset(C, 0, (size_t)M * N * sizeof(float)));
    CHECK(cudaEventRecord(start));
    for (int i = 0; i < repeats; i++) v.launch();
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    CHECK(cudaGetLastError());
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    CHECK(cudaMemcpy(out.data(), C, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
    float err = 0;
    for (size_t i = 0; i < out.size(); i++) err = fmaxf(err, fabsf(out[i] - ref[i]));
    const bool ok = err < 1e-2f;
    failures += !ok;
    printf("%-12s %8.3f ms %9.1f GFLOP/s  max err %.2e  %s\n", v.name.c_str(), ms / repeats,
           2.0 * M * N * K * repeats / ms * 1e-6, err, ok ? "ok" : "WRONG");
  }
  cublasDestroy(handle);
  for (void* p : {(void*)A, (void*)B, (void*)C, (void*)R, (void*)ws}) CHECK(cudaFree(p));
  return failures;
}
