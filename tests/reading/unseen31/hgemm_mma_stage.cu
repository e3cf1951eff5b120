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
#define LDST32BITS(value) (reinterpret_cast<half2 *>(&(value))[0])
#define LDST128BITS(value) (reinterpret_cast<float4 *>(&(value))[0])
// ca(cache all, L1 + L2): support 4, 8, 16 bytes, cg(cache global, L2): only support 16 bytes.
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_ALL() asm volatile("cp.async.wait_all;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define CP_ASYNC_CG(dst, src, bytes) asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(bytes))
#define LDMATRIX_X4(R0, R1, R2, R3, addr) asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr) asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(R0), "=r"(R1) : "r"(addr))
#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1) asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};\n" : "=r"(RD0), "=r"(RD1) : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0), "r"(RC1))

HOST_DEVICE_INLINE
int div_ceil(int a, int b) { return (a % b != 0) ? (a / b + 1) : (a / b); }

// 128x128, mma2x4, warp4x4(64,32,16), stages, block swizzle, padding
// A: [M,K] 行优先, B: [K,N] 行优先, C: [M,N] 行优先; M、N 为128的倍数, K 为16的倍数且 K >= 16*(K_STAGE-1)
template <const int MMA_M = 16, const int MMA_N = 8, const int MMA_K = 16,
          const int MMA_TILE_M = 2, const int MMA_TILE_N = 4,
          const int WARP_TILE_M = 4, const int WARP_TILE_N = 4,
          const int A_PAD = 8, const int B_PAD = 8, const int K_STAGE = 3,
          const bool BLOCK_SWIZZLE = true>
__global__ void __launch_bounds__(256)
    hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_kernel(half *A, half *B, half *C, int M, int N, int K) {
  // BLOCK_SWIZZLE 0/1 控制是否使用 block swizzle
  const int bx = ((int)BLOCK_SWIZZLE) * blockIdx.z * gridDim.x + blockIdx.x;
  const int by = blockIdx.y;
  const int NUM_K_TILES = div_ceil(K, MMA_K);
  constexpr int BM = MMA_M * MMA_TILE_M * WARP_TILE_M; // 16*2*4=128
  constexpr int BN = MMA_N * MMA_TILE_N * WARP_TILE_N; // 8*4*4=128
  constexpr int BK = MMA_K;                            // 16

  // N 不能被 swizzle 的块数整除时, 多出来的 block 直接退出
  if (by * BM >= M || bx * BN >= N)
    return;

  __shared__ half s_a[K_STAGE][BM][BK + A_PAD]; // 128*24*2=6KB/stage
  __shared__ half s_b[K_STAGE][BK][BN + B_PAD]; // 16*136*2=4.25KB/stage
  constexpr int s_a_stage_offset = BM * (BK + A_PAD);
  constexpr int s_b_stage_offset = BK * (BN + B_PAD);

  const int tid = threadIdx.y * blockDim.x + threadIdx.x; // within block
  const int warp_id = tid / WARP_SIZE;                    // 0~7 warp_id within block
  const int lane_id = tid % WARP_SIZE;                    // 0~31
  const int warp_m = warp_id % 2;                         // 0,1
  const int warp_n = warp_id / 2;                         // 0,1,2,3

  // 先计算 shared memory 中的索引
  // tile A: 128x16, 每行16个half, 由2个线程加载, 每个线程8个half
  int load_smem_a_m = tid / 2;                // row 0~127
  int load_smem_a_k = (tid % 2 == 0) ? 0 : 8; // col 0,8
  // tile B: 16x128, 每行128个half, 由16个线程加载
  int load_smem_b_k = tid / 16;       // row 0~15
  int load_smem_b_n = (tid % 16) * 8; // col 0,8,...,120
  // 再计算全局内存中的索引
  int load_gmem_a_m = by * BM + load_smem_a_m;
  int load_gmem_b_n = bx * BN + load_smem_b_n;

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

  // 预取 K_STAGE-1 个 tile
#pragma unroll
  for (int k = 0; k < (K_STAGE - 1); ++k) {
    int load_gmem_a_k = k * BK + load_smem_a_k;
    int load_gmem_a_addr = load_gmem_a_m * K + load_gmem_a_k;
    int load_gmem_b_k = k * BK + load_smem_b_k;
    int load_gmem_b_addr = load_gmem_b_k * N + load_gmem_b_n;

    uint32_t load_smem_a_ptr =
        (smem_a_base_ptr + (k * s_a_stage_offset + load_smem_a_m * (BK + A_PAD) + load_smem_a_k) * sizeof(half));
    CP_ASYNC_CG(load_smem_a_ptr, &A[load_gmem_a_addr], 16);

    uint32_t load_smem_b_ptr =
        (smem_b_base_ptr + (k * s_b_stage_offset + load_smem_b_k * (BN + B_PAD) + load_smem_b_n) * sizeof(half));
    CP_ASYNC_CG(load_smem_b_ptr, &B[load_gmem_b_addr], 16);

    CP_ASYNC_COMMIT_GROUP();
  }

  CP_ASYNC_WAIT_GROUP(K_STAGE - 2); // s2->0, s3->1, s4->2
  __syncthreads();

  // 计算一个 16-k 的 tile, smem_sel 为其所在的 stage
  auto compute_tile = [&](int smem_sel) {
    uint32_t RA[WARP_TILE_M][4];
    uint32_t RB[WARP_TILE_N][2];

#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i) {
      int warp_smem_a_m = warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M;
      int lane_smem_a_m = warp_smem_a_m + lane_id % 16; // 0~15
      int lane_smem_a_k = (lane_id / 16) * 8;           // 0,8
      uint32_t lane_smem_a_ptr =
          (smem_a_base_ptr +
           (smem_sel * s_a_stage_offset + lane_smem_a_m * (BK + A_PAD) + lane_smem_a_k) * sizeof(half));
      LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], lane_smem_a_ptr);
    }

#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      int warp_smem_b_n = warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
      int lane_smem_b_k = lane_id % 16; // 0~15, x2 只用前16个lane的地址
      int lane_smem_b_n = warp_smem_b_n;
      uint32_t lane_smem_b_ptr =
          (smem_b_base_ptr +
           (smem_sel * s_b_stage_offset + lane_smem_b_k * (BN + B_PAD) + lane_smem_b_n) * sizeof(half));
      LDMATRIX_X2_T(RB[j][0], RB[j][1], lane_smem_b_ptr);
    }

#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
      for (int j = 0; j < WARP_TILE_N; ++j) {
        HMMA16816(RC[i][j][0], RC[i][j][1], RA[i][0], RA[i][1], RA[i][2], RA[i][3], RB[j][0], RB[j][1],
                  RC[i][j][0], RC[i][j][1]);
      }
    }
  };

  // main loop: 加载第 k 个 tile, 同时计算第 k-(K_STAGE-1) 个
  for (int k = (K_STAGE - 1); k < NUM_K_TILES; ++k) {
    // s3: k=2 -> sel 0, next 2; k=3 -> sel 1, next 0; ...
    int smem_sel = (k + 1) % K_STAGE;
    int smem_sel_next = k % K_STAGE;

    int load_gmem_a_k = k * BK + load_smem_a_k;
    int load_gmem_a_addr = load_gmem_a_m * K + load_gmem_a_k;
    int load_gmem_b_k = k * BK + load_smem_b_k;
    int load_gmem_b_addr = load_gmem_b_k * N + load_gmem_b_n;

    uint32_t load_smem_a_ptr =
        (smem_a_base_ptr +
         (smem_sel_next * s_a_stage_offset + load_smem_a_m * (BK + A_PAD) + load_smem_a_k) * sizeof(half));
    CP_ASYNC_CG(load_smem_a_ptr, &A[load_gmem_a_addr], 16);

    uint32_t load_smem_b_ptr =
        (smem_b_base_ptr +
         (smem_sel_next * s_b_stage_offset + load_smem_b_k * (BN + B_PAD) + load_smem_b_n) * sizeof(half));
    CP_ASYNC_CG(load_smem_b_ptr, &B[load_gmem_b_addr], 16);
    CP_ASYNC_COMMIT_GROUP();

    compute_tile(smem_sel);

    CP_ASYNC_WAIT_GROUP(K_STAGE - 2);
    __syncthreads();
  }

  // 确保剩余的数据都已经到达 smem
  if ((K_STAGE - 2) > 0) {
    CP_ASYNC_WAIT_GROUP(0);
    __syncthreads();
  }

  // 处理最后 (K_STAGE-1) 个 tile
#pragma unroll
  for (int k = 0; k < (K_STAGE - 1); ++k) {
    const int stage_sel = ((NUM_K_TILES - (K_STAGE - 1) + k) % K_STAGE);
    compute_tile(stage_sel);
  }

  // reg -> gmem, 4个lane的 8 个half 通过shuffle收集后, 由 lane%4==0 的线程一次写 128 bits
#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      uint32_t RZ[2][4];
      RZ[0][0] = RC[i][j][0];
      RZ[1][0] = RC[i][j][1];
      RZ[0][1] = __shfl_sync((0xffffffff), RC[i][j][0], lane_id + 1);
      RZ[0][2] = __shfl_sync((0xffffffff), RC[i][j][0], lane_id + 2);
      RZ[0][3] = __shfl_sync((0xffffffff), RC[i][j][0], lane_id + 3);
      RZ[1][1] = __shfl_sync((0xffffffff), RC[i][j][1], lane_id + 1);
      RZ[1][2] = __shfl_sync((0xffffffff), RC[i][j][1], lane_id + 2);
      RZ[1][3] = __shfl_sync((0xffffffff), RC[i][j][1], lane_id + 3);

      if (lane_id % 4 == 0) {
        int store_gmem_c_m = by * BM + warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id / 4;
        int store_gmem_c_n = bx * BN + warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
        LDST128BITS(C[store_gmem_c_m * N + store_gmem_c_n]) = LDST128BITS(RZ[0][0]);
        LDST128BITS(C[(store_gmem_c_m + 8) * N + store_gmem_c_n]) = LDST128BITS(RZ[1][0]);
      }
    }
  }
}

// --------------------- PyTorch bindings for custom kernel -----------------------
#define STRINGFY(str) #str
#define TORCH_BINDING_COMMON_EXTENSION(func) m.def(STRINGFY(func), &func, STRINGFY(func));

#define CHECK_TORCH_TENSOR_DTYPE(T, th_type)                                   \
  if (((T).options().dtype() != (th_type))) {                                  \
    std::cout << "Tensor Info:" << (T).options() << std::endl;                 \
    throw std::runtime_error("values must be " #th_type);                      \
  }

#define CHECK_TORCH_TENSOR_SHAPE(T, S0, S1)                                    \
  if (((T).size(0) != (S0)) || ((T).size(1) != (S1))) {                        \
    throw std::runtime_error("Tensor size mismatch!");                         \
  }

#define LAUNCH_STAGE_KERNEL(stages)                                            \
  {                                                                            \
    const int NUM_SWIZZLE = div_ceil(N, swizzle_stride);                       \
    dim3 block(256);                                                           \
    dim3 grid(div_ceil(div_ceil(N, 128), NUM_SWIZZLE), div_ceil(M, 128), NUM_SWIZZLE); \
    hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_kernel<16, 8, 16, 2, 4, 4, 4, 8, 8, (stages), true> \
        <<<grid, block>>>(reinterpret_cast<half *>(a.data_ptr()),              \
                          reinterpret_cast<half *>(b.data_ptr()),              \
                          reinterpret_cast<half *>(c.data_ptr()), M, N, K);    \
  }

#define LAUNCH_STAGE_NO_SWIZZLE_KERNEL(stages)                                 \
  {                                                                            \
    dim3 block(256);                                                           \
    dim3 grid(div_ceil(N, 128), div_ceil(M, 128));                             \
    hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_kernel<16, 8, 16, 2, 4, 4, 4, 8, 8, (stages), false> \
        <<<grid, block>>>(reinterpret_cast<half *>(a.data_ptr()),              \
                          reinterpret_cast<half *>(b.data_ptr()),              \
                          reinterpret_cast<half *>(c.data_ptr()), M, N, K);    \
  }

// 128x128 warp4x4, stage 2/3/4, swizzle_stride 例如 1024/2048
void hgemm_mma_m16n8k16_mma2x4_warp4x4_stages(torch::Tensor a, torch::Tensor b, torch::Tensor c, int stages,
                                              bool swizzle, int swizzle_stride) {
  CHECK_TORCH_TENSOR_DTYPE(a, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(b, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(c, torch::kHalf)
  const int M = a.size(0);
  const int K = a.size(1);
  const int N = b.size(1);
  CHECK_TORCH_TENSOR_SHAPE(a, M, K)
  CHECK_TORCH_TENSOR_SHAPE(b, K, N)
  CHECK_TORCH_TENSOR_SHAPE(c, M, N)
  if (M % 128 != 0 || N % 128 != 0 || K % 16 != 0 || K < 48) {
    throw std::runtime_error("M, N must be multiples of 128, K a multiple of 16 and >= 48");
  }

  if (swizzle) {
    switch (stages) {
    case 2:
      LAUNCH_STAGE_KERNEL(2);
      break;
    case 3:
      LAUNCH_STAGE_KERNEL(3);
      break;
    default:
      LAUNCH_STAGE_KERNEL(4);
      break;
    }
  } else {
    switch (stages) {
    case 2:
      LAUNCH_STAGE_NO_SWIZZLE_KERNEL(2);
      break;
    case 3:
      LAUNCH_STAGE_NO_SWIZZLE_KERNEL(3);
      break;
    default:
      LAUNCH_STAGE_NO_SWIZZLE_KERNEL(4);
      break;
    }
  }
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  TORCH_BINDING_COMMON_EXTENSION(hgemm_mma_m16n8k16_mma2x4_warp4x4_stages)
}
