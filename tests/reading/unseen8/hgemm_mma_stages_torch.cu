#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <torch/extension.h>
#include <torch/types.h>

#define WARP_SIZE 32
#define DIV_CEIL(a, b) (((a) + (b) - 1) / (b))
#define LDST128BITS(value) (reinterpret_cast<float4 *>(&(value))[0])
#define LDST32BITS(value) (reinterpret_cast<half2 *>(&(value))[0])
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define CP_ASYNC_CG(dst, src, bytes) \
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(bytes))
#define LDMATRIX_X2_T(R0, R1, addr)                                                 \
  asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n"   \
               : "=r"(R0), "=r"(R1)                                                 \
               : "r"(addr))
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                                  \
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"        \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                    \
               : "r"(addr))
#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1)                              \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, "  \
               "{%6, %7}, {%8, %9};\n"                                                           \
               : "=r"(RD0), "=r"(RD1)                                                            \
               : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0), "r"(RC1))

// 64x64 block, 4 warps (2x2), warp tile 32x32 by 2x4 mma m16n8k16, K_STAGE buffers
template <const int MMA_M = 16, const int MMA_N = 8, const int MMA_K = 16, const int MMA_TILE_M = 2,
          const int MMA_TILE_N = 2, const int WARP_TILE_M = 2, const int WARP_TILE_N = 4, const int A_PAD = 8,
          const int B_PAD = 8, const int K_STAGE = 2>
__global__ void __launch_bounds__(128)
    hgemm_mma_m16n8k16_stages_kernel(const half *A, const half *B, half *C, int M, int N, int K) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int NUM_K_TILES = DIV_CEIL(K, MMA_K);
  constexpr int BM = MMA_M * MMA_TILE_M * WARP_TILE_M;  // 64
  constexpr int BN = MMA_N * MMA_TILE_N * WARP_TILE_N;  // 64
  constexpr int BK = MMA_K;                             // 16

  __shared__ half s_a[K_STAGE][BM][BK + A_PAD];
  __shared__ half s_b[K_STAGE][BK][BN + B_PAD];

  const int tid = threadIdx.y * blockDim.x + threadIdx.x;
  const int warp_id = tid / WARP_SIZE;
  const int lane_id = tid % WARP_SIZE;
  const int warp_m = warp_id % 2;
  const int warp_n = warp_id / 2;

  int load_smem_a_m = tid / 2;
  int load_smem_a_k = (tid % 2) * 8;
  int load_smem_b_k = tid / 8;
  int load_smem_b_n = (tid % 8) * 8;
  int load_gmem_a_m = by * BM + load_smem_a_m;
  int load_gmem_b_n = bx * BN + load_smem_b_n;
  if (by * BM >= M || bx * BN >= N) return;

  uint32_t RC[WARP_TILE_M][WARP_TILE_N][2];
#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) RC[i][j][0] = RC[i][j][1] = 0;

  auto load_stage = [&](int stage, int k) {
    uint32_t a_ptr = __cvta_generic_to_shared(&s_a[stage][load_smem_a_m][load_smem_a_k]);
    CP_ASYNC_CG(a_ptr, &A[load_gmem_a_m * K + k * BK + load_smem_a_k], 16);
    uint32_t b_ptr = __cvta_generic_to_shared(&s_b[stage][load_smem_b_k][load_smem_b_n]);
    CP_ASYNC_CG(b_ptr, &B[(k * BK + load_smem_b_k) * N + load_gmem_b_n], 16);
  };

#pragma unroll
  for (int k = 0; k < K_STAGE - 1; ++k) {
    if (k < NUM_K_TILES) load_stage(k, k);
    CP_ASYNC_COMMIT_GROUP();
  }

  for (int k = 0; k < NUM_K_TILES; ++k) {
    CP_ASYNC_WAIT_GROUP(K_STAGE - 2);
    __syncthreads();
    int next = k + K_STAGE - 1;
    if (next < NUM_K_TILES) load_stage(next % K_STAGE, next);
    CP_ASYNC_COMMIT_GROUP();

    int sel = k % K_STAGE;
    uint32_t RA[WARP_TILE_M][4];
    uint32_t RB[WARP_TILE_N][2];
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i) {
      int m = warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id % 16;
      int kk = (lane_id / 16) * 8;
      uint32_t ptr = __cvta_generic_to_shared(&s_a[sel][m][kk]);
      LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], ptr);
    }
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      int n = warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
      int kk = lane_id % 16;
      uint32_t ptr = __cvta_generic_to_shared(&s_b[sel][kk][n]);
      LDMATRIX_X2_T(RB[j][0], RB[j][1], ptr);
    }
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
      for (int j = 0; j < WARP_TILE_N; ++j)
        HMMA16816(RC[i][j][0], RC[i][j][1], RA[i][0], RA[i][1], RA[i][2], RA[i][3], RB[j][0], RB[j][1], RC[i][j][0],
                  RC[i][j][1]);
  }

#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      int row = by * BM + warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id / 4;
      int col = bx * BN + warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N + (lane_id % 4) * 2;
      LDST32BITS(C[row * N + col]) = LDST32BITS(RC[i][j][0]);
      LDST32BITS(C[(row + 8) * N + col]) = LDST32BITS(RC[i][j][1]);
    }
  }
}

#define CHECK_TORCH_TENSOR_DTYPE(T, th_type)                 \
  if (((T).options().dtype() != (th_type))) {                \
    std::cout << "Tensor Info:" << (T).options() << std::endl; \
    throw std::runtime_error("values must be " #th_type);    \
  }
#define CHECK_TORCH_TENSOR_SHAPE(T, S0, S1)             \
  if (((T).size(0) != (S0)) || ((T).size(1) != (S1))) { \
    throw std::runtime_error("Tensor size mismatch!");  \
  }

#define LAUNCH_HGEMM_STAGES(stages)                                                                    \
  hgemm_mma_m16n8k16_stages_kernel<16, 8, 16, 2, 2, 2, 4, 8, 8, (stages)><<<grid, block>>>(             \
      reinterpret_cast<half *>(a.data_ptr()), reinterpret_cast<half *>(b.data_ptr()),                  \
      reinterpret_cast<half *>(c.data_ptr()), M, N, K)

void hgemm_mma_stages(torch::Tensor a, torch::Tensor b, torch::Tensor c, int stages) {
  CHECK_TORCH_TENSOR_DTYPE(a, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(b, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(c, torch::kHalf)
  const int M = a.size(0);
  const int K = a.size(1);
  const int N = b.size(1);
  CHECK_TORCH_TENSOR_SHAPE(a, M, K)
  CHECK_TORCH_TENSOR_SHAPE(b, K, N)
  CHECK_TORCH_TENSOR_SHAPE(c, M, N)
  dim3 block(128);
  dim3 grid(DIV_CEIL(N, 64), DIV_CEIL(M, 64));
  switch (stages) {
    case 2:
      LAUNCH_HGEMM_STAGES(2);
      break;
    case 3:
      LAUNCH_HGEMM_STAGES(3);
      break;
    default:
      LAUNCH_HGEMM_STAGES(4);
      break;
  }
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("hgemm_mma_stages", &hgemm_mma_stages, "hgemm_mma_stages"); }
