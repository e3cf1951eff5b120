// HGEMM with WMMA API, cp.async and double buffers.
// C[M,N] = A[M,K] x B[K,N], all row-major half, accumulate in half.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <torch/extension.h>
#include <torch/types.h>

using namespace nvcuda;

#define WARP_SIZE 32
#define DEVICE_INLINE __device__ __forceinline__
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define CP_ASYNC_CG(dst, src, bytes)                                           \
  asm volatile("cp.async.cg.shared.global [%0], [%1], %2;\n" ::"r"(dst),       \
               "l"(src), "n"(bytes))

__host__ __device__ inline int div_ceil(int a, int b) { return (a + b - 1) / b; }

// 8 warps (4x2), every warp computes 2x4 tiles of 16x16, block tile 128x128
template <const int WMMA_M = 16, const int WMMA_N = 16, const int WMMA_K = 16,
          const int WMMA_TILE_M = 4, const int WMMA_TILE_N = 2,
          const int WARP_TILE_M = 2, const int WARP_TILE_N = 4,
          const int A_PAD = 8, const int B_PAD = 8>
__global__ void __launch_bounds__(256)
    hgemm_wmma_m16n16k16_mma4x2_warp2x4_dbuf_async_kernel(
        const half *__restrict__ A, const half *__restrict__ B,
        half *__restrict__ C, const int M, const int N, const int K) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int NUM_K_TILES = div_ceil(K, WMMA_K);
  constexpr int BM = WMMA_M * WMMA_TILE_M * WARP_TILE_M; // 128
  constexpr int BN = WMMA_N * WMMA_TILE_N * WARP_TILE_N; // 128
  constexpr int BK = WMMA_K;                             // 16
  __shared__ half s_a[2][BM][BK + A_PAD];
  __shared__ half s_b[2][BK][BN + B_PAD];

  const int tid = threadIdx.y * blockDim.x + threadIdx.x;
  const int warp_id = tid / WARP_SIZE;
  const int warp_m = warp_id / 2; // 0..3
  const int warp_n = warp_id % 2; // 0..1

  // 128x16 halfs of A: 2 threads a row, 8 halfs each
  const int load_smem_a_m = tid / 2;
  const int load_smem_a_k = (tid % 2 == 0) ? 0 : 8;
  // 16x128 halfs of B: 16 threads a row, 8 halfs each
  const int load_smem_b_k = tid / 16;
  const int load_smem_b_n = (tid % 16) * 8;
  const int load_gmem_a_m = by * BM + load_smem_a_m;
  const int load_gmem_b_n = bx * BN + load_smem_b_n;
  if (load_gmem_a_m >= M || load_gmem_b_n >= N)
    return;

  wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, half>
      C_frag[WARP_TILE_M][WARP_TILE_N];
#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      wmma::fill_fragment(C_frag[i][j], 0.0);
    }
  }

  auto load_tile = [&](int k_tile, int buf) {
    int load_gmem_a_addr = load_gmem_a_m * K + k_tile * WMMA_K + load_smem_a_k;
    int load_gmem_b_addr = (k_tile * WMMA_K + load_smem_b_k) * N + load_gmem_b_n;
    uint32_t a_ptr = __cvta_generic_to_shared(&s_a[buf][load_smem_a_m][load_smem_a_k]);
    CP_ASYNC_CG(a_ptr, &A[load_gmem_a_addr], 16);
    uint32_t b_ptr = __cvta_generic_to_shared(&s_b[buf][load_smem_b_k][load_smem_b_n]);
    CP_ASYNC_CG(b_ptr, &B[load_gmem_b_addr], 16);
    CP_ASYNC_COMMIT_GROUP();
  };

  auto compute_tile = [&](int buf) {
    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major>
        A_frag[WARP_TILE_M];
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major>
        B_frag[WARP_TILE_N];
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i) {
      const int warp_smem_a_m = warp_m * (WMMA_M * WARP_TILE_M) + i * WMMA_M;
      wmma::load_matrix_sync(A_frag[i], &s_a[buf][warp_smem_a_m][0], BK + A_PAD);
    }
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      const int warp_smem_b_n = warp_n * (WMMA_N * WARP_TILE_N) + j * WMMA_N;
      wmma::load_matrix_sync(B_frag[j], &s_b[buf][0][warp_smem_b_n], BN + B_PAD);
    }
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
      for (int j = 0; j < WARP_TILE_N; ++j) {
        wmma::mma_sync(C_frag[i][j], A_frag[i], B_frag[j], C_frag[i][j]);
      }
    }
  };

  load_tile(0, 0);
#pragma unroll 1
  for (int k = 1; k < NUM_K_TILES; ++k) {
    const int smem_sel = (k - 1) & 1;
    const int smem_sel_next = k & 1;
    load_tile(k, smem_sel_next);
    CP_ASYNC_WAIT_GROUP(1);
    __syncthreads();
    compute_tile(smem_sel);
    __syncthreads();
  }
  CP_ASYNC_WAIT_GROUP(0);
  __syncthreads();
  compute_tile((NUM_K_TILES - 1) & 1);

#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      const int store_gmem_c_m = by * BM + warp_m * (WMMA_M * WARP_TILE_M) + i * WMMA_M;
      const int store_gmem_c_n = bx * BN + warp_n * (WMMA_N * WARP_TILE_N) + j * WMMA_N;
      wmma::store_matrix_sync(C + store_gmem_c_m * N + store_gmem_c_n, C_frag[i][j], N,
                              wmma::mem_row_major);
    }
  }
}

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

void hgemm_wmma_m16n16k16_mma4x2_warp2x4_dbuf_async(torch::Tensor a, torch::Tensor b,
                                                    torch::Tensor c) {
  CHECK_TORCH_TENSOR_DTYPE(a, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(b, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(c, torch::kHalf)
  const int M = a.size(0);
  const int K = a.size(1);
  const int N = b.size(1);
  CHECK_TORCH_TENSOR_SHAPE(a, M, K)
  CHECK_TORCH_TENSOR_SHAPE(b, K, N)
  CHECK_TORCH_TENSOR_SHAPE(c, M, N)
  constexpr int BM = 128;
  constexpr int BN = 128;
  // M, N must be multiples of 128, K of 16
  dim3 block(256);
  dim3 grid(div_ceil(N, BN), div_ceil(M, BM));
  hgemm_wmma_m16n16k16_mma4x2_warp2x4_dbuf_async_kernel<16, 16, 16, 4, 2, 2, 4, 8, 8>
      <<<grid, block>>>(reinterpret_cast<half *>(a.data_ptr()),
                        reinterpret_cast<half *>(b.data_ptr()),
                        reinterpret_cast<half *>(c.data_ptr()), M, N, K);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  TORCH_BINDING_COMMON_EXTENSION(hgemm_wmma_m16n16k16_mma4x2_warp2x4_dbuf_async)
}
