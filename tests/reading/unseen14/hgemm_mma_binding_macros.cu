#include <algorithm>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <torch/extension.h>
#include <torch/types.h>
#include <vector>

#define WARP_SIZE 32
#define DEVICE_INLINE __device__ inline
#define HOST_DEVICE_INLINE __device__ __host__ inline
#define INT4(value) (reinterpret_cast<int4 *>(&(value))[0])
#define LDST32BITS(value) (reinterpret_cast<half2 *>(&(value))[0])
#define LDST128BITS(value) (reinterpret_cast<float4 *>(&(value))[0])
#define LDMATRIX_X2_T(R0, R1, addr)                                                                  \
  asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(R0), "=r"(R1) : "r"(addr))
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                                            \
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"                  \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1)                                  \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};\n" \
               : "=r"(RD0), "=r"(RD1)                                                                \
               : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0), "r"(RC1))

HOST_DEVICE_INLINE
int div_ceil(int a, int b) { return (a % b != 0) ? (a / b + 1) : (a / b); }

// 128x128, 2x4 warps, each 4x4 of m16n8k16; block swizzle by the third dimension of the grid
template <const int MMA_M = 16, const int MMA_N = 8, const int MMA_K = 16, const int MMA_TILE_M = 2,
          const int MMA_TILE_N = 4, const int WARP_TILE_M = 4, const int WARP_TILE_N = 4, const int A_PAD = 8,
          const int B_PAD = 8, const bool BLOCK_SWIZZLE = false>
__global__ void __launch_bounds__(256)
    hgemm_mma_m16n8k16_mma2x4_warp4x4_kernel(half *A, half *B, half *C, int M, int N, int K) {
  const int bx = ((int)BLOCK_SWIZZLE) * blockIdx.z * gridDim.x + blockIdx.x;
  const int by = blockIdx.y;
  const int NUM_K_TILES = div_ceil(K, MMA_K);
  constexpr int BM = MMA_M * MMA_TILE_M * WARP_TILE_M;
  constexpr int BN = MMA_N * MMA_TILE_N * WARP_TILE_N;
  constexpr int BK = MMA_K;

  __shared__ half s_a[BM][BK + A_PAD];
  __shared__ half s_b[BK][BN + B_PAD];

  const int tid = threadIdx.y * blockDim.x + threadIdx.x;
  const int warp_id = tid / WARP_SIZE;
  const int lane_id = tid % WARP_SIZE;
  const int warp_m = warp_id % 2;
  const int warp_n = warp_id / 2;

  int load_smem_a_m = tid / 2;
  int load_smem_a_k = (tid % 2 == 0) ? 0 : 8;
  int load_smem_b_k = tid / 16;
  int load_smem_b_n = (tid % 16) * 8;
  int load_gmem_a_m = by * BM + load_smem_a_m;
  int load_gmem_b_n = bx * BN + load_smem_b_n;
  if (load_gmem_a_m >= M || load_gmem_b_n >= N)
    return;

  uint32_t RC[WARP_TILE_M][WARP_TILE_N][2];
#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      RC[i][j][0] = 0;
      RC[i][j][1] = 0;
    }
  }

#pragma unroll
  for (int k = 0; k < NUM_K_TILES; ++k) {
    int load_gmem_a_k = k * BK + load_smem_a_k;
    int load_gmem_a_addr = load_gmem_a_m * K + load_gmem_a_k;
    int load_gmem_b_k = k * BK + load_smem_b_k;
    int load_gmem_b_addr = load_gmem_b_k * N + load_gmem_b_n;
    LDST128BITS(s_b[load_smem_b_k][load_smem_b_n]) = LDST128BITS(B[load_gmem_b_addr]);
    LDST128BITS(s_a[load_smem_a_m][load_smem_a_k]) = LDST128BITS(A[load_gmem_a_addr]);
    __syncthreads();

    uint32_t RA[WARP_TILE_M][4];
    uint32_t RB[WARP_TILE_N][2];
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i) {
      const int warp_smem_a_m = warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M;
      int lane_smem_a_m = warp_smem_a_m + lane_id % 16;
      int lane_smem_a_k = (lane_id / 16) * 8;
      uint32_t lane_smem_a_ptr = __cvta_generic_to_shared(&s_a[lane_smem_a_m][lane_smem_a_k]);
      LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], lane_smem_a_ptr);
    }
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      const int warp_smem_b_n = warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
      int lane_smem_b_k = lane_id % 16;
      uint32_t lane_smem_b_ptr = __cvta_generic_to_shared(&s_b[lane_smem_b_k][warp_smem_b_n]);
      LDMATRIX_X2_T(RB[j][0], RB[j][1], lane_smem_b_ptr);
    }
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
      for (int j = 0; j < WARP_TILE_N; ++j) {
        HMMA16816(RC[i][j][0], RC[i][j][1], RA[i][0], RA[i][1], RA[i][2], RA[i][3], RB[j][0], RB[j][1], RC[i][j][0],
                  RC[i][j][1]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      int store_lane_gmem_c_m = by * BM + warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id / 4;
      int store_lane_gmem_c_n = bx * BN + warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N + (lane_id % 4) * 2;
      LDST32BITS(C[store_lane_gmem_c_m * N + store_lane_gmem_c_n]) = LDST32BITS(RC[i][j][0]);
      LDST32BITS(C[(store_lane_gmem_c_m + 8) * N + store_lane_gmem_c_n]) = LDST32BITS(RC[i][j][1]);
    }
  }
}

#define STRINGFY(str) #str
#define TORCH_BINDING_COMMON_EXTENSION(func) m.def(STRINGFY(func), &func, STRINGFY(func));

#define CHECK_TORCH_TENSOR_DTYPE(T, th_type)                                                         \
  if (((T).options().dtype() != (th_type))) {                                                        \
    std::cout << "Tensor Info:" << (T).options() << std::endl;                                       \
    throw std::runtime_error("values must be " #th_type);                                            \
  }

#define CHECK_TORCH_TENSOR_SHAPE(T, S0, S1)                                                          \
  if (((T).size(0) != (S0)) || ((T).size(1) != (S1))) {                                              \
    throw std::runtime_error("Tensor size mismatch!");                                               \
  }

#define LAUNCH_SWIZZLE_KERNEL(stride)                                                                \
  {                                                                                                  \
    const int N_SWIZZLE = (N + (stride)-1) / (stride);                                               \
    dim3 block(256);                                                                                 \
    dim3 grid((div_ceil(N, 128) + N_SWIZZLE - 1) / N_SWIZZLE, div_ceil(M, 128), N_SWIZZLE);          \
    hgemm_mma_m16n8k16_mma2x4_warp4x4_kernel<16, 8, 16, 2, 4, 4, 4, 8, 8, true>                      \
        <<<grid, block>>>(reinterpret_cast<half *>(a.data_ptr()), reinterpret_cast<half *>(b.data_ptr()), \
                          reinterpret_cast<half *>(c.data_ptr()), M, N, K);                          \
  }

void hgemm_mma_m16n8k16_mma2x4_warp4x4(torch::Tensor a, torch::Tensor b, torch::Tensor c) {
  CHECK_TORCH_TENSOR_DTYPE(a, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(b, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(c, torch::kHalf)
  const int M = a.size(0);
  const int K = a.size(1);
  const int N = b.size(1);
  CHECK_TORCH_TENSOR_SHAPE(a, M, K)
  CHECK_TORCH_TENSOR_SHAPE(b, K, N)
  CHECK_TORCH_TENSOR_SHAPE(c, M, N)
  if (N > 2048) {
    LAUNCH_SWIZZLE_KERNEL(2048)
  } else {
    constexpr int NUM_THREADS = 2 * 4 * WARP_SIZE;
    dim3 block(NUM_THREADS);
    dim3 grid(div_ceil(N, 128), div_ceil(M, 128));
    hgemm_mma_m16n8k16_mma2x4_warp4x4_kernel<><<<grid, block>>>(reinterpret_cast<half *>(a.data_ptr()),
                                                               reinterpret_cast<half *>(b.data_ptr()),
                                                               reinterpret_cast<half *>(c.data_ptr()), M, N, K);
  }
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { TORCH_BINDING_COMMON_EXTENSION(hgemm_mma_m16n8k16_mma2x4_warp4x4) }
