// HGEMM 优化第 6 版: mma.sync.m16n8k16 + ldmatrix + cp.async 三级流水
//
// C[M,N] = A[M,K] * B[K,N]，全部行主序，half 输入输出，FP32 累加
// M、N 可以是 8 的任意倍数(边界补零)，K 也必须是 8 的倍数
//
// 编译: nvcc -O3 -arch=sm_80 hgemm_async_mma.cu -lcublas -o hgemm
// 运行: ./hgemm [M N K]
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

#define HOST_DEVICE_INLINE __device__ __host__ inline
#define DIV_UP(a, b) (((a) + (b) - 1) / (b))

#define CUDA_CHECK(call)                                                                        \
  do {                                                                                          \
    cudaError_t err__ = (call);                                                                 \
    if (err__ != cudaSuccess) {                                                                 \
      fprintf(stderr, "CUDA error %s at %s:%d\n", cudaGetErrorString(err__), __FILE__, __LINE__); \
      exit(EXIT_FAILURE);                                                                       \
    }                                                                                           \
  } while (0)

#define CP_ASYNC_CG_ZFILL(dst, src, n)                                                   \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(n))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(N) asm volatile("cp.async.wait_group %0;\n" ::"n"(N))

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                                 \
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"       \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                   \
               : "r"((uint32_t)(addr)))
#define LDMATRIX_X2_T(R0, R1, addr)                                                       \
  asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n"         \
               : "=r"(R0), "=r"(R1)                                                       \
               : "r"((uint32_t)(addr)))
#define HMMA16816F32(D, A, B)                                                             \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "                       \
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"        \
               : "+f"((D)[0]), "+f"((D)[1]), "+f"((D)[2]), "+f"((D)[3])                   \
               : "r"((A)[0]), "r"((A)[1]), "r"((A)[2]), "r"((A)[3]), "r"((B)[0]), "r"((B)[1]))

// 每个 block 算 BM x BN，2x2 个 warp，每个 warp 32 x 32
template <int BM = 64, int BN = 64, int BK = 32, int STAGES = 3, int A_PAD = 8, int B_PAD = 8>
__global__ void __launch_bounds__(128)
    hgemm_mma_m16n8k16_stages_kernel(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C,
                                     int M, int N, int K) {
  extern __shared__ half smem[];
  constexpr int A_STAGE = BM * (BK + A_PAD);
  constexpr int B_STAGE = BK * (BN + B_PAD);
  half* s_a = smem;
  half* s_b = smem + STAGES * A_STAGE;
  const uint32_t s_a_base = (uint32_t)__cvta_generic_to_shared(s_a);
  const uint32_t s_b_base = (uint32_t)__cvta_generic_to_shared(s_b);

  const int tid = threadIdx.x;
  const int warp_id = tid / 32, lane_id = tid % 32;
  const int warp_m = warp_id / 2, warp_n = warp_id % 2;
  const int by = blockIdx.y, bx = blockIdx.x;
  const int num_k_tiles = DIV_UP(K, BK);

  // gmem -> smem，越界的 16 字节补零
  auto load_stage = [&](int stage, int k_tile) {
#pragma unroll
    for (int i = tid; i < BM * BK / 8; i += 128) {
      int r = i / (BK / 8), c = (i % (BK / 8)) * 8;
      int gm = by * BM + r, gk = k_tile * BK + c;
      bool ok = gm < M && gk < K;
      const half* src = ok ? A + (size_t)gm * K + gk : A;
      uint32_t dst = s_a_base + (stage * A_STAGE + r * (BK + A_PAD) + c) * sizeof(half);
      CP_ASYNC_CG_ZFILL(dst, src, ok ? 16 : 0);
    }
#pragma unroll
    for (int i = tid; i < BK * BN / 8; i += 128) {
      int r = i / (BN / 8), c = (i % (BN / 8)) * 8;
      int gk = k_tile * BK + r, gn = bx * BN + c;
      bool ok = gk < K && gn < N;
      const half* src = ok ? B + (size_t)gk * N + gn : B;
      uint32_t dst = s_b_base + (stage * B_STAGE + r * (BN + B_PAD) + c) * sizeof(half);
      CP_ASYNC_CG_ZFILL(dst, src, ok ? 16 : 0);
    }
  };

  float acc[2][4][4] = {};

  // 预取 STAGES-1 块
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < num_k_tiles) load_stage(s, s);
    CP_ASYNC_COMMIT_GROUP();
  }

  for (int kt = 0; kt < num_k_tiles; ++kt) {
    CP_ASYNC_WAIT_GROUP(STAGES - 2);
    __syncthreads();

    // 上一轮用完的那块，现在可以装入 kt + STAGES - 1
    int next = kt + STAGES - 1;
    if (next < num_k_tiles) load_stage(next % STAGES, next);
    CP_ASYNC_COMMIT_GROUP();

    const int sel = kt % STAGES;
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      uint32_t ra[2][4], rb[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int r = warp_m * 32 + i * 16 + lane_id % 16;
        int c = k + (lane_id / 16) * 8;
        LDMATRIX_X4(ra[i][0], ra[i][1], ra[i][2], ra[i][3],
                    s_a_base + (sel * A_STAGE + r * (BK + A_PAD) + c) * sizeof(half));
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        int r = k + lane_id % 16;
        int c = warp_n * 32 + j * 8;
        LDMATRIX_X2_T(rb[j][0], rb[j][1], s_b_base + (sel * B_STAGE + r * (BN + B_PAD) + c) * sizeof(half));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) HMMA16816F32(acc[i][j], ra[i], rb[j]);
    }
  }

  // 写回，N 是偶数，所以 half2 不会跨越边界
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int row = by * BM + warp_m * 32 + i * 16 + lane_id / 4;
      int col = bx * BN + warp_n * 32 + j * 8 + (lane_id % 4) * 2;
      if (col >= N) continue;
      if (row < M) *(half2*)(C + (size_t)row * N + col) = __floats2half2_rn(acc[i][j][0], acc[i][j][1]);
      if (row + 8 < M) *(half2*)(C + (size_t)(row + 8) * N + col) = __floats2half2_rn(acc[i][j][2], acc[i][j][3]);
    }
  }
}

void hgemm_mma_stages(const half* A, const half* B, half* C, int M, int N, int K) {
  constexpr int BM = 64, BN = 64, BK = 32, STAGES = 3;
  size_t smem = STAGES * (BM * (BK + 8) + BK * (BN + 8)) * sizeof(half);
  CUDA_CHECK(cudaFuncSetAttribute(hgemm_mma_m16n8k16_stages_kernel<BM, BN, BK, STAGES>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem));
  dim3 grid(DIV_UP(N, BN), DIV_UP(M, BM));
  hgemm_mma_m16n8k16_stages_kernel<BM, BN, BK, STAGES><<<grid, 128, smem>>>(A, B, C, M, N, K);
  CUDA_CHECK(cudaGetLastError());
}

// cuBLAS 是列主序: 行主序的 C = A*B 相当于 C^T = B^T * A^T
void hgemm_cublas(cublasHandle_t handle, half* A, half* B, half* C, int M, int N, int K) {
  float alpha = 1.0f, beta = 0.0f;
  cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &alpha, B, CUDA_R_16F, N, A, CUDA_R_16F, K, &beta, C,
               CUDA_R_16F, N, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP);
}

int main(int argc, char** argv) {
  int M = 136, N = 88, K = 168;
  if (argc == 4) M = atoi(argv[1]), N = atoi(argv[2]), K = atoi(argv[3]);

  std::vector<half> h_a(M * K), h_b(K * N), h_c(M * N), h_ref(M * N);
  srand(42);
  for (auto& x : h_a) x = __float2half((rand() / (float)RAND_MAX) - 0.5f);
  for (auto& x : h_b) x = __float2half((rand() / (float)RAND_MAX) - 0.5f);

  half *d_a, *d_b, *d_c, *d_ref;
  CUDA_CHECK(cudaMalloc(&d_a, h_a.size() * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&d_b, h_b.size() * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&d_c, h_c.size() * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&d_ref, h_ref.size() * sizeof(half)));
  CUDA_CHECK(cudaMemcpy(d_a, h_a.data(), h_a.size() * sizeof(half), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(d_b, h_b.data(), h_b.size() * sizeof(half), cudaMemcpyHostToDevice));

  cublasHandle_t handle;
  cublasCreate(&handle);
  hgemm_mma_stages(d_a, d_b, d_c, M, N, K);
  hgemm_cublas(handle, d_a, d_b, d_ref, M, N, K);
  CUDA_CHECK(cudaDeviceSynchronize());

  CUDA_CHECK(cudaMemcpy(h_c.data(), d_c, h_c.size() * sizeof(half), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaMemcpy(h_ref.data(), d_ref, h_ref.size() * sizeof(half), cudaMemcpyDeviceToHost));
  float max_err = 0.f;
  for (size_t i = 0; i < h_c.size(); ++i) {
    float e = fabsf(__half2float(h_c[i]) - __half2float(h_ref[i]));
    if (e > max_err || isnan(e)) max_err = isnan(e) ? INFINITY : e;
  }
  bool pass = max_err < 1e-2f;
  printf("M=%d N=%d K=%d 最大误差 %.6f  %s\n", M, N, K, max_err, pass ? "PASS" : "FAIL");

  cublasDestroy(handle);
  cudaFree(d_a);
  cudaFree(d_b);
  cudaFree(d_c);
  cudaFree(d_ref);
  return pass ? 0 : 1;
}
