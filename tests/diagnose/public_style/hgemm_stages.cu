#include <algorithm>
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
#define LDST128BITS(value) (reinterpret_cast<float4 *>(&(value))[0])
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_ALL() asm volatile("cp.async.wait_all;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define CP_ASYNC_CG(dst, src, bytes)                                                      \
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(dst), "l"(src), \
               "n"(bytes))
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                        \
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                           \
               : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr)                                              \
  asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" \
               : "=r"(R0), "=r"(R1)                                               \
               : "r"(addr))
#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1)                        \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, " \
               "{%6, %7}, {%8, %9};\n"                                                     \
               : "=r"(RD0), "=r"(RD1)                                                      \
               : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0), "r"(RC1))

HOST_DEVICE_INLINE int div_ceil(int a, int b) { return (a % b != 0) ? (a / b + 1) : (a / b); }

// column j (in halfs) of row i, permuted in chunks of 8 halfs
template <const int kStride, const int kMask, const int kShift>
static __device__ __forceinline__ int swizzle_permuted_j(int i, int j) {
  static_assert(kStride % 8 == 0, "chunks of 16 bytes");
  return (((j >> 3) ^ ((i >> kShift) & kMask)) << 3) + (j & 7);
}

// 128x128x32 block tile, 8 warps of 64x32, mma m16n8k16, kStage stages
template <const int MMA_M = 16, const int MMA_N = 8, const int MMA_K = 16, const int MMA_TILE_M = 2,
          const int MMA_TILE_N = 4, const int WARP_TILE_M = 4, const int WARP_TILE_N = 4,
          const int K_STAGE = 3>
__global__ void __launch_bounds__(256)
    hgemm_mma_m16n8k16_stages_swizzle_kernel(half *A, half *B, half *C, int M, int N, int K) {
  constexpr int BM = MMA_M * MMA_TILE_M * WARP_TILE_M;
  constexpr int BN = MMA_N * MMA_TILE_N * WARP_TILE_N;
  constexpr int BK = 2 * MMA_K;
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int NUM_K_TILES = div_ceil(K, BK);

  extern __shared__ half smem[];
  half *s_a = smem;
  half *s_b = smem + K_STAGE * BM * BK;
  constexpr int s_a_stage_offset = BM * BK;
  constexpr int s_b_stage_offset = BK * BN;

  const int tid = threadIdx.y * blockDim.x + threadIdx.x;
  const int warp_id = tid / WARP_SIZE;
  const int lane_id = tid % WARP_SIZE;
  const int warp_m = warp_id % 2;
  const int warp_n = warp_id / 2;

  int load_smem_a_m = tid / 2;
  int load_smem_a_k = (tid % 2 == 0) ? 0 : 16;
  int load_smem_b_k = tid / 8;
  int load_smem_b_n = (tid % 8) * 16;
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

  uint32_t smem_a_base_ptr = __cvta_generic_to_shared(s_a);
  uint32_t smem_b_base_ptr = __cvta_generic_to_shared(s_b);

#define LOAD_STAGE(stage, k)                                                                        \
  {                                                                                                 \
    int load_gmem_a_addr = load_gmem_a_m * K + (k) * BK + load_smem_a_k;                            \
    int load_gmem_b_addr = ((k) * BK + load_smem_b_k) * N + load_gmem_b_n;                          \
    _Pragma("unroll") for (int c = 0; c < 16; c += 8) {                                             \
      uint32_t dst_a = smem_a_base_ptr +                                                            \
                       ((stage) * s_a_stage_offset + load_smem_a_m * BK +                           \
                        swizzle_permuted_j<BK, 3, 1>(load_smem_a_m, load_smem_a_k + c)) *           \
                           sizeof(half);                                                            \
      CP_ASYNC_CG(dst_a, &A[load_gmem_a_addr + c], 16);                                             \
      uint32_t dst_b = smem_b_base_ptr +                                                            \
                       ((stage) * s_b_stage_offset + load_smem_b_k * BN +                           \
                        swizzle_permuted_j<BN, 7, 0>(load_smem_b_k, load_smem_b_n + c)) *           \
                           sizeof(half);                                                            \
      CP_ASYNC_CG(dst_b, &B[load_gmem_b_addr + c], 16);                                             \
    }                                                                                               \
  }

#pragma unroll
  for (int k = 0; k < (K_STAGE - 1); ++k) {
    if (k < NUM_K_TILES) LOAD_STAGE(k, k);
    CP_ASYNC_COMMIT_GROUP();
  }

#pragma unroll 1
  for (int k = 0; k < NUM_K_TILES; ++k) {
    CP_ASYNC_WAIT_GROUP(K_STAGE - 2);
    __syncthreads();

    const int k_next = k + K_STAGE - 1;
    if (k_next < NUM_K_TILES) LOAD_STAGE(k_next % K_STAGE, k_next);
    CP_ASYNC_COMMIT_GROUP();

    const int stage_sel = k % K_STAGE;
#pragma unroll
    for (int kk = 0; kk < BK; kk += MMA_K) {
      uint32_t RA[WARP_TILE_M][4];
      uint32_t RB[WARP_TILE_N][2];
#pragma unroll
      for (int i = 0; i < WARP_TILE_M; ++i) {
        int lane_smem_a_m = warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id % 16;
        int lane_smem_a_k = kk + (lane_id / 16) * 8;
        uint32_t ptr = smem_a_base_ptr + (stage_sel * s_a_stage_offset + lane_smem_a_m * BK +
                                          swizzle_permuted_j<BK, 3, 1>(lane_smem_a_m, lane_smem_a_k)) *
                                             sizeof(half);
        LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], ptr);
      }
#pragma unroll
      for (int j = 0; j < WARP_TILE_N; ++j) {
        int lane_smem_b_n = warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
        int lane_smem_b_k = kk + lane_id % 16;
        uint32_t ptr = smem_b_base_ptr + (stage_sel * s_b_stage_offset + lane_smem_b_k * BN +
                                          swizzle_permuted_j<BN, 7, 0>(lane_smem_b_k, lane_smem_b_n)) *
                                             sizeof(half);
        LDMATRIX_X2_T(RB[j][0], RB[j][1], ptr);
      }
#pragma unroll
      for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
        for (int j = 0; j < WARP_TILE_N; ++j) {
          int j_s = (i % 2) ? (WARP_TILE_N - j - 1) : j;
          HMMA16816(RC[i][j_s][0], RC[i][j_s][1], RA[i][0], RA[i][1], RA[i][2], RA[i][3], RB[j_s][0],
                    RB[j_s][1], RC[i][j_s][0], RC[i][j_s][1]);
        }
      }
    }
  }

  // collective store: four lanes share 8 halfs of a row
#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
    uint32_t RZ[2][4];
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      RZ[0][0] = RC[i][j][0];
      RZ[1][0] = RC[i][j][1];
#pragma unroll
      for (int s = 1; s < 4; ++s) {
        RZ[0][s] = __shfl_down_sync((0xffffffff), RC[i][j][0], s);
        RZ[1][s] = __shfl_down_sync((0xffffffff), RC[i][j][1], s);
      }
      if (lane_id % 4 == 0) {
        int store_m = by * BM + warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id / 4;
        int store_n = bx * BN + warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
        LDST128BITS(C[store_m * N + store_n]) = LDST128BITS(RZ[0][0]);
        LDST128BITS(C[(store_m + 8) * N + store_n]) = LDST128BITS(RZ[1][0]);
      }
    }
  }
}

#define STRINGFY(str) #str
#define TORCH_BINDING_COMMON_EXTENSION(func) m.def(STRINGFY(func), &func, STRINGFY(func));
#define CHECK_TORCH_TENSOR_DTYPE(T, th_type)                 \
  if (((T).options().dtype() != (th_type))) {                \
    std::cout << "Tensor Info:" << (T).options() << std::endl; \
    throw std::runtime_error("values must be " #th_type);    \
  }
#define CHECK_TORCH_TENSOR_SHAPE(T, S0, S1)                  \
  if (((T).size(0) != (S0)) || ((T).size(1) != (S1))) {      \
    throw std::runtime_error("Tensor size mismatch!");       \
  }

#define LAUNCH_HGEMM_STAGES(stages)                                                            \
  {                                                                                            \
    const int smem_max_size = (stages) * (128 * 32 + 32 * 128) * sizeof(half);                 \
    cudaFuncSetAttribute(                                                                      \
        hgemm_mma_m16n8k16_stages_swizzle_kernel<16, 8, 16, 2, 4, 4, 4, (stages)>,             \
        cudaFuncAttributeMaxDynamicSharedMemorySize, 98304);                                   \
    dim3 block(256);                                                                           \
    dim3 grid(div_ceil(N, 128), div_ceil(M, 128));                                             \
    hgemm_mma_m16n8k16_stages_swizzle_kernel<16, 8, 16, 2, 4, 4, 4, (stages)>                  \
        <<<grid, block, smem_max_size>>>(reinterpret_cast<half *>(a.data_ptr()),               \
                                         reinterpret_cast<half *>(b.data_ptr()),               \
                                         reinterpret_cast<half *>(c.data_ptr()), M, N, K);     \
  }

void hgemm_mma_stages_swizzle(torch::Tensor a, torch::Tensor b, torch::Tensor c, int stages) {
  CHECK_TORCH_TENSOR_DTYPE(a, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(b, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(c, torch::kHalf)
  const int M = a.size(0);
  const int K = a.size(1);
  const int N = b.size(1);
  CHECK_TORCH_TENSOR_SHAPE(a, M, K)
  CHECK_TORCH_TENSOR_SHAPE(b, K, N)
  CHECK_TORCH_TENSOR_SHAPE(c, M, N)
  switch (stages) {
  case 2: LAUNCH_HGEMM_STAGES(2); break;
  default: LAUNCH_HGEMM_STAGES(3); break;
  }
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { TORCH_BINDING_COMMON_EXTENSION(hgemm_mma_stages_swizzle) }
