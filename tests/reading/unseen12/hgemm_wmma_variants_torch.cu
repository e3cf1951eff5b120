#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <torch/extension.h>
#include <torch/types.h>
using namespace nvcuda;

#define WARP_SIZE 32
#define HOST_DEVICE_INLINE __device__ __host__ inline
#define LDST64BITS(value) (reinterpret_cast<float2*>(&(value))[0])
#define LDST128BITS(value) (reinterpret_cast<float4*>(&(value))[0])
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define CP_ASYNC_CG(dst, src, bytes) asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(bytes))

HOST_DEVICE_INLINE int div_ceil(int a, int b) { return (a % b != 0) ? (a / b + 1) : (a / b); }

// 1 warp, 16x16 tile
template <const int WMMA_M = 16, const int WMMA_N = 16, const int WMMA_K = 16>
__global__ void hgemm_wmma_naive_kernel(half* A, half* B, half* C, int M, int N, int K) {
  const int NUM_K_TILES = div_ceil(K, WMMA_K);
  const int load_gmem_a_m = blockIdx.y * WMMA_M;
  const int load_gmem_b_n = blockIdx.x * WMMA_N;
  if (load_gmem_a_m >= M && load_gmem_b_n >= N) return;

  wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, half> C_frag;
  wmma::fill_fragment(C_frag, 0.0);
  wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> A_frag;
  wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> B_frag;

#pragma unroll
  for (int k = 0; k < NUM_K_TILES; ++k) {
    wmma::load_matrix_sync(A_frag, A + load_gmem_a_m * K + k * WMMA_K, K);
    wmma::load_matrix_sync(B_frag, B + (k * WMMA_K) * N + load_gmem_b_n, N);
    wmma::mma_sync(C_frag, A_frag, B_frag, C_frag);
    __syncthreads();
  }
  wmma::store_matrix_sync(C + load_gmem_a_m * N + load_gmem_b_n, C_frag, N, wmma::mem_row_major);
}

// 8 warps (4x2), each 32x64: block tile 128x128, double buffered with cp.async
template <const int WMMA_M = 16, const int WMMA_N = 16, const int WMMA_K = 16, const int WMMA_TILE_M = 4,
          const int WMMA_TILE_N = 2, const int WARP_TILE_M = 2, const int WARP_TILE_N = 4, const int OFFSET = 8>
__global__ void __launch_bounds__(256)
hgemm_wmma_4x2_warp2x4_dbuf_async_kernel(half* A, half* B, half* C, int M, int N, int K) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int NUM_K_TILES = div_ceil(K, WMMA_K);
  constexpr int BM = WMMA_M * WMMA_TILE_M * WARP_TILE_M;
  constexpr int BN = WMMA_N * WMMA_TILE_N * WARP_TILE_N;
  constexpr int BK = WMMA_K;
  __shared__ half s_a[2][BM][BK + OFFSET];
  __shared__ half s_b[2][BK][BN + OFFSET];

  const int tid = threadIdx.y * blockDim.x + threadIdx.x;
  const int warp_id = tid / WARP_SIZE;
  const int warp_m = warp_id / 2;
  const int warp_n = warp_id % 2;

  // 256 threads: s_a 128x16, 8 halves each; s_b 16x128, 8 halves each
  const int load_smem_a_m = tid / 2;
  const int load_smem_a_k = (tid % 2 == 0) ? 0 : 8;
  const int load_smem_b_k = tid / 16;
  const int load_smem_b_n = (tid % 16) * 8;
  const int load_gmem_a_m = by * BM + load_smem_a_m;
  const int load_gmem_b_n = bx * BN + load_smem_b_n;
  if (load_gmem_a_m >= M || load_gmem_b_n >= N) return;

  wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, half> C_frag[WARP_TILE_M][WARP_TILE_N];
#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) wmma::fill_fragment(C_frag[i][j], 0.0);
  }

  // k = 0
  {
    int addr_a = load_gmem_a_m * K + load_smem_a_k;
    int addr_b = load_smem_b_k * N + load_gmem_b_n;
    uint32_t ptr_a = __cvta_generic_to_shared(&s_a[0][load_smem_a_m][load_smem_a_k]);
    CP_ASYNC_CG(ptr_a, &A[addr_a], 16);
    uint32_t ptr_b = __cvta_generic_to_shared(&s_b[0][load_smem_b_k][load_smem_b_n]);
    CP_ASYNC_CG(ptr_b, &B[addr_b], 16);
    CP_ASYNC_COMMIT_GROUP();
    CP_ASYNC_WAIT_GROUP(0);
  }
  __syncthreads();

#pragma unroll
  for (int k = 1; k < NUM_K_TILES; ++k) {
    int sel = (k - 1) & 1;
    int next = k & 1;
    int addr_a = load_gmem_a_m * K + k * WMMA_K + load_smem_a_k;
    int addr_b = (k * WMMA_K + load_smem_b_k) * N + load_gmem_b_n;
    uint32_t ptr_a = __cvta_generic_to_shared(&s_a[next][load_smem_a_m][load_smem_a_k]);
    CP_ASYNC_CG(ptr_a, &A[addr_a], 16);
    uint32_t ptr_b = __cvta_generic_to_shared(&s_b[next][load_smem_b_k][load_smem_b_n]);
    CP_ASYNC_CG(ptr_b, &B[addr_b], 16);
    CP_ASYNC_COMMIT_GROUP();

    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> A_frag[WARP_TILE_M];
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> B_frag[WARP_TILE_N];
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i)
      wmma::load_matrix_sync(A_frag[i], &s_a[sel][warp_m * (WMMA_M * WARP_TILE_M) + i * WMMA_M][0], BK + OFFSET);
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j)
      wmma::load_matrix_sync(B_frag[j], &s_b[sel][0][warp_n * (WMMA_N * WARP_TILE_N) + j * WMMA_N], BN + OFFSET);
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
      for (int j = 0; j < WARP_TILE_N; ++j) wmma::mma_sync(C_frag[i][j], A_frag[i], B_frag[j], C_frag[i][j]);
    }
    CP_ASYNC_WAIT_GROUP(0);
    __syncthreads();
  }

  {
    int sel = (NUM_K_TILES - 1) & 1;
    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> A_frag[WARP_TILE_M];
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> B_frag[WARP_TILE_N];
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i)
      wmma::load_matrix_sync(A_frag[i], &s_a[sel][warp_m * (WMMA_M * WARP_TILE_M) + i * WMMA_M][0], BK + OFFSET);
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j)
      wmma::load_matrix_sync(B_frag[j], &s_b[sel][0][warp_n * (WMMA_N * WARP_TILE_N) + j * WMMA_N], BN + OFFSET);
#pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
      for (int j = 0; j < WARP_TILE_N; ++j) wmma::mma_sync(C_frag[i][j], A_frag[i], B_frag[j], C_frag[i][j]);
    }
  }

#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      const int store_gmem_a_m = by * BM + warp_m * (WMMA_M * WARP_TILE_M) + i * WMMA_M;
      const int store_gmem_a_n = bx * BN + warp_n * (WMMA_N * WARP_TILE_N) + j * WMMA_N;
      wmma::store_matrix_sync(C + store_gmem_a_m * N + store_gmem_a_n, C_frag[i][j], N, wmma::mem_row_major);
    }
  }
}

#define CHECK_TORCH_TENSOR_DTYPE(T, th_type)                   \
  if (((T).options().dtype() != (th_type))) {                  \
    throw std::runtime_error("values must be " #th_type);      \
  }
#define CHECK_TORCH_TENSOR_SHAPE(T, S0, S1)                    \
  if (((T).size(0) != (S0)) || ((T).size(1) != (S1))) {        \
    throw std::runtime_error("Tensor size mismatch!");         \
  }

void hgemm_wmma_naive(torch::Tensor a, torch::Tensor b, torch::Tensor c) {
  CHECK_TORCH_TENSOR_DTYPE(a, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(b, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(c, torch::kHalf)
  const int M = a.size(0);
  const int K = a.size(1);
  const int N = b.size(1);
  CHECK_TORCH_TENSOR_SHAPE(a, M, K)
  CHECK_TORCH_TENSOR_SHAPE(b, K, N)
  CHECK_TORCH_TENSOR_SHAPE(c, M, N)
  constexpr int WMMA_M = 16;
  constexpr int WMMA_N = 16;
  constexpr int WMMA_K = 16;

  dim3 block(32);
  dim3 grid(div_ceil(N, WMMA_N), div_ceil(M, WMMA_M));
  hgemm_wmma_naive_kernel<WMMA_M, WMMA_N, WMMA_K><<<grid, block>>>(
      reinterpret_cast<half*>(a.data_ptr()), reinterpret_cast<half*>(b.data_ptr()), reinterpret_cast<half*>(c.data_ptr()), M, N, K);
}

void hgemm_wmma_4x2_warp2x4_dbuf_async(torch::Tensor a, torch::Tensor b, torch::Tensor c) {
  CHECK_TORCH_TENSOR_DTYPE(a, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(b, torch::kHalf)
  CHECK_TORCH_TENSOR_DTYPE(c, torch::kHalf)
  const int M = a.size(0);
  const int K = a.size(1);
  const int N = b.size(1);
  CHECK_TORCH_TENSOR_SHAPE(a, M, K)
  CHECK_TORCH_TENSOR_SHAPE(b, K, N)
  CHECK_TORCH_TENSOR_SHAPE(c, M, N)
  constexpr int WMMA_M = 16, WMMA_N = 16, WMMA_K = 16;
  constexpr int WMMA_TILE_M = 4, WMMA_TILE_N = 2, WARP_TILE_M = 2, WARP_TILE_N = 4;
  constexpr int NUM_THREADS = (WMMA_TILE_M * WMMA_TILE_N * WARP_SIZE);
  dim3 block(NUM_THREADS);
  dim3 grid(div_ceil(N, WMMA_N * WMMA_TILE_N * WARP_TILE_N), div_ceil(M, WMMA_M * WMMA_TILE_M * WARP_TILE_M));
  hgemm_wmma_4x2_warp2x4_dbuf_async_kernel<WMMA_M, WMMA_N, WMMA_K, WMMA_TILE_M, WMMA_TILE_N, WARP_TILE_M, WARP_TILE_N, 8>
      <<<grid, block>>>(reinterpret_cast<half*>(a.data_ptr()), reinterpret_cast<half*>(b.data_ptr()),
                        reinterpret_cast<half*>(c.data_ptr()), M, N, K);
}
