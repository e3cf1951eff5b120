// HGEMM: C[M,N] = A[M,K] x B[K,N], all row-major half, fp16 accumulate
// mma.sync.m16n8k16 + ldmatrix + cp.async multi stages + smem swizzle + collective store
//   BM x BN x BK = 128 x 128 x 32, 256 threads, 8 warps = 2(M) x 4(N), warp tile 64 x 32
#include <stdio.h>
#include <stdlib.h>
#include <algorithm>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <torch/extension.h>
#include <torch/types.h>

#define WARP_SIZE 32
#define DEVICE_INLINE __device__ inline
#define HOST_DEVICE_INLINE __device__ __host__ inline
#define LDST32BITS(value) (reinterpret_cast<uint32_t *>(&(value))[0])
#define LDST128BITS(value) (reinterpret_cast<float4 *>(&(value))[0])

#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define CP_ASYNC_CG(dst, src, bytes)                                                     \
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(dst),        \
               "l"(src), "n"(bytes))
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                                \
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"      \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                  \
               : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr)                                                      \
  asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n"        \
               : "=r"(R0), "=r"(R1)                                                      \
               : "r"(addr))
#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1)                      \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, "            \
               "{%2, %3, %4, %5}, {%6, %7}, {%8, %9};\n"                                 \
               : "=r"(RD0), "=r"(RD1)                                                    \
               : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0),   \
                 "r"(RC1))

HOST_DEVICE_INLINE int div_ceil(int a, int b) { return (a % b != 0) ? (a / b + 1) : (a / b); }

// i: row, j: col, both in halfs. A rows are 64 bytes (4 chunks of 16 bytes): two rows share
// one 128-byte line, so the xor changes every second row.
template <const int kColStride = 32>
DEVICE_INLINE int swizzle_A(int i, int j) {
  return i * kColStride + ((((j >> 3) ^ (i >> 1)) & 3) << 3);
}

// B rows are 256 bytes (16 chunks): xor of the low three chunk bits with the row
template <const int kColStride = 128>
DEVICE_INLINE int swizzle_B(int i, int j) {
  return i * kColStride + (((j >> 3) ^ (i & 7)) << 3);
}

template <const int MMA_M = 16, const int MMA_N = 8, const int MMA_K = 16,
          const int MMA_TILE_M = 2, const int MMA_TILE_N = 4,
          const int WARP_TILE_M = 4, const int WARP_TILE_N = 4,
          const int WARP_TILE_K = 2, const int K_STAGE = 3>
__global__ void __launch_bounds__(256)
hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_swizzle_kernel(
    half *__restrict__ A, half *__restrict__ B, half *__restrict__ C, int M, int N, int K) {
  constexpr int BM = MMA_M * MMA_TILE_M * WARP_TILE_M; // 16*2*4=128
  constexpr int BN = MMA_N * MMA_TILE_N * WARP_TILE_N; // 8*4*4=128
  constexpr int BK = MMA_K * WARP_TILE_K;              // 16*2=32
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
  const int warp_m = warp_id % 2; // 0,1
  const int warp_n = warp_id / 2; // 0,1,2,3

  // s_a 128x32: 2 threads per row, 16 halfs each. s_b 32x128: 8 threads per row, 16 halfs each
  const int load_smem_a_m = tid / 2;
  const int load_smem_a_k = (tid % 2 == 0) ? 0 : 16;
  const int load_smem_b_k = tid / 8;
  const int load_smem_b_n = (tid % 8) * 16;
  const int load_gmem_a_m = by * BM + load_smem_a_m;
  const int load_gmem_b_n = bx * BN + load_smem_b_n;

  uint32_t RC[WARP_TILE_M][WARP_TILE_N][2];
#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      RC[i][j][0] = 0;
      RC[i][j][1] = 0;
    }
  }

  const uint32_t smem_a_base_ptr = __cvta_generic_to_shared(s_a);
  const uint32_t smem_b_base_ptr = __cvta_generic_to_shared(s_b);

  auto g2s = [&](int k_tile, int stage) {
    const int load_gmem_a_k = k_tile * BK + load_smem_a_k;
    const int load_gmem_b_k = k_tile * BK + load_smem_b_k;
    const half *gmem_a = A + load_gmem_a_m * K + load_gmem_a_k;
    const half *gmem_b = B + load_gmem_b_k * N + load_gmem_b_n;
#pragma unroll
    for (int v = 0; v < 16; v += 8) {
      uint32_t a_ptr = smem_a_base_ptr + (stage * s_a_stage_offset +
                       swizzle_A<BK>(load_smem_a_m, load_smem_a_k + v)) * sizeof(half);
      CP_ASYNC_CG(a_ptr, gmem_a + v, 16);
      uint32_t b_ptr = smem_b_base_ptr + (stage * s_b_stage_offset +
                       swizzle_B<BN>(load_smem_b_k, load_smem_b_n + v)) * sizeof(half);
      CP_ASYNC_CG(b_ptr, gmem_b + v, 16);
    }
  };

#pragma unroll
  for (int k = 0; k < K_STAGE - 1; ++k) {
    if (k < NUM_K_TILES) {
      g2s(k, k);
    }
    CP_ASYNC_COMMIT_GROUP();
  }
  CP_ASYNC_WAIT_GROUP(K_STAGE - 2);
  __syncthreads();

#pragma unroll 1
  for (int k = 0; k < NUM_K_TILES; ++k) {
    const int k_next = k + K_STAGE - 1;
    if (k_next < NUM_K_TILES) {
      g2s(k_next, k_next % K_STAGE);
    }
    CP_ASYNC_COMMIT_GROUP();

    const int smem_sel = k % K_STAGE;
#pragma unroll
    for (int wk = 0; wk < WARP_TILE_K; ++wk) {
      uint32_t RA[WARP_TILE_M][4];
      uint32_t RB[WARP_TILE_N][2];
#pragma unroll
      for (int i = 0; i < WARP_TILE_M; ++i) {
        int lane_smem_a_m = warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id % 16;
        int lane_smem_a_k = wk * MMA_K + (lane_id / 16) * 8;
        uint32_t a_ptr = smem_a_base_ptr + (smem_sel * s_a_stage_offset +
                         swizzle_A<BK>(lane_smem_a_m, lane_smem_a_k)) * sizeof(half);
        LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], a_ptr);
      }
#pragma unroll
      for (int j = 0; j < WARP_TILE_N; ++j) {
        int lane_smem_b_k = wk * MMA_K + lane_id % 16; // x2: lanes 16..31 are ignored
        int lane_smem_b_n = warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
        uint32_t b_ptr = smem_b_base_ptr + (smem_sel * s_b_stage_offset +
                         swizzle_B<BN>(lane_smem_b_k, lane_smem_b_n)) * sizeof(half);
        LDMATRIX_X2_T(RB[j][0], RB[j][1], b_ptr);
      }
#pragma unroll
      for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
        for (int j = 0; j < WARP_TILE_N; ++j) {
          HMMA16816(RC[i][j][0], RC[i][j][1], RA[i][0], RA[i][1], RA[i][2], RA[i][3],
                    RB[j][0], RB[j][1], RC[i][j][0], RC[i][j][1]);
        }
      }
    }
    CP_ASYNC_WAIT_GROUP(K_STAGE - 2);
    __syncthreads();
  }

  // collective store: the four lanes of a quad hold 8 consecutive halfs of one row
#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      __align__(16) uint32_t RZ[2][4];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        RZ[r][0] = RC[i][j][r];
        RZ[r][1] = __shfl_sync(0xffffffff, RC[i][j][r], lane_id + 1);
        RZ[r][2] = __shfl_sync(0xffffffff, RC[i][j][r], lane_id + 2);
        RZ[r][3] = __shfl_sync(0xffffffff, RC[i][j][r], lane_id + 3);
      }
      if (lane_id % 4 == 0) {
        int store_gmem_c_m = by * BM + warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id / 4;
        int store_gmem_c_n = bx * BN + warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
        int addr_0 = store_gmem_c_m * N + store_gmem_c_n;
        int addr_1 = (store_gmem_c_m + 8) * N + store_gmem_c_n;
        LDST128BITS(C[addr_0]) = LDST128BITS(RZ[0][0]);
        LDST128BITS(C[addr_1]) = LDST128BITS(RZ[1][0]);
      }
    }
  }
}

// --------------------- PyTorch bindings for custom kernel -----------------------
#define STRINGFY(str) #str
#define TORCH_BINDING_COMMON_EXTENSION(func) m.def(STRINGFY(func), &func, STRINGFY(func));

#define CHECK_TORCH_TENSOR_DTYPE(T, th_type)                                             \
  if (((T).options().dtype() != (th_type))) {                                            \
    throw std::runtime_error("values must be " #th_type);                                \
  }
#define CHECK_TORCH_TENSOR_SHAPE(T, S0, S1)                                              \
  if (((T).size(0) != (S0)) || ((T).size(1) != (S1))) {                                  \
    throw std::runtime_error("Tensor size mismatch!");                                   \
  }

// 16 KB per stage: 2 -> 32 KB, 3 -> 48 KB, 4 -> 64 KB, 5 -> 80 KB
#define LAUNCH_HGEMM_STAGES_KERNEL(stages)                                               \
  {                                                                                      \
    const int smem_max_size = (stages) * (128 * 32 + 32 * 128) * (int)sizeof(half);      \
    cudaFuncSetAttribute(                                                                \
        hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_swizzle_kernel<16, 8, 16, 2, 4, 4, 4,   \
                                                                2, (stages)>,            \
        cudaFuncAttributeMaxDynamicSharedMemorySize, smem_max_size);                     \
    dim3 block(256);                                                                     \
    dim3 grid(div_ceil(N, 128), div_ceil(M, 128));                                       \
    hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_swizzle_kernel<16, 8, 16, 2, 4, 4, 4, 2,    \
                                                            (stages)>                    \
        <<<grid, block, smem_max_size>>>(reinterpret_cast<half *>(a.data_ptr()),         \
                                         reinterpret_cast<half *>(b.data_ptr()),         \
                                         reinterpret_cast<half *>(c.data_ptr()), M, N, K); \
  }

// a: [M,K], b: [K,N], c: [M,N]; M, N multiples of 128, K multiple of 32
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
  if (M % 128 != 0 || N % 128 != 0 || K % 32 != 0) {
    throw std::runtime_error("M, N must be multiples of 128, K of 32");
  }
  switch (stages) {
  case 2:
    LAUNCH_HGEMM_STAGES_KERNEL(2);
    break;
  case 3:
    LAUNCH_HGEMM_STAGES_KERNEL(3);
    break;
  case 4:
    LAUNCH_HGEMM_STAGES_KERNEL(4);
    break;
  case 5:
    LAUNCH_HGEMM_STAGES_KERNEL(5);
    break;
  default:
    LAUNCH_HGEMM_STAGES_KERNEL(3);
    break;
  }
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  TORCH_BINDING_COMMON_EXTENSION(hgemm_mma_stages_swizzle)
}
