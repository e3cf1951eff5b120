// HGEMM  C = A * B   (NN: A [M,K], B [K,N], C [M,N], everything row-major, half, fp32 accumulate)
//
//   * mma.sync.m16n8k16 + ldmatrix
//   * XOR swizzled shared memory, no padding
//   * cp.async with K_STAGE buffers
//   * thread block swizzle for L2 locality (grid.z = number of stripes)
//
// ref: sgemm notes part 7. M % 128 == 0, N % 128 == 0, K % 32 == 0 only, no boundary checks.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define WARP_SIZE 32
#define DEVICE_INLINE __device__ __forceinline__
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define CP_ASYNC_CG(dst, src, bytes) \
  asm volatile("cp.async.cg.shared.global [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(bytes))
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                             \
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"   \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                               \
               : "r"(addr))
#define LDMATRIX_X4_T(R0, R1, R2, R3, addr)                                                 \
  asm volatile("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"   \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                     \
               : "r"(addr))
#define HMMA16816F32(D0, D1, D2, D3, A0, A1, A2, A3, B0, B1)                                  \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "         \
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"                              \
               : "+f"(D0), "+f"(D1), "+f"(D2), "+f"(D3)                                       \
               : "r"(A0), "r"(A1), "r"(A2), "r"(A3), "r"(B0), "r"(B1))

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = 32;
constexpr int NUM_THREADS = 256;           // 2 x 4 warps, 64 x 32 each
constexpr int A_STAGE = BM * BK;
constexpr int B_STAGE = BK * BN;

// A tile: 4 chunks of 16 bytes per row, two rows share a 128 byte line
DEVICE_INLINE int swz_a(int row, int chunk) { return row * BK + ((chunk ^ ((row >> 1) & 3)) << 3); }
// B tile: 16 chunks of 16 bytes per row
DEVICE_INLINE int swz_b(int row, int chunk) { return row * BN + ((chunk ^ (row & 7)) << 3); }

template <const int K_STAGE = 3, const bool BLOCK_SWIZZLE = true>
__global__ void __launch_bounds__(NUM_THREADS)
    hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_swizzle_kernel(const half *__restrict__ A, const half *__restrict__ B,
                                                            half *__restrict__ C, int M, int N, int K) {
  const int bx = ((int)BLOCK_SWIZZLE) * blockIdx.z * gridDim.x + blockIdx.x;
  const int by = blockIdx.y;
  if (bx * BN >= N || by * BM >= M) return;

  extern __shared__ half smem[];
  half *s_a = smem;
  half *s_b = smem + K_STAGE * A_STAGE;

  const int tid = threadIdx.x;
  const int warp_id = tid / WARP_SIZE;
  const int lane_id = tid % WARP_SIZE;
  const int warp_m = warp_id / 4;  // 0,1
  const int warp_n = warp_id % 4;  // 0,1,2,3

  const uint32_t smem_a_base = static_cast<uint32_t>(__cvta_generic_to_shared(s_a));
  const uint32_t smem_b_base = static_cast<uint32_t>(__cvta_generic_to_shared(s_b));
  const int NUM_K_TILES = K / BK;

  // 512 chunks per operand and stage, two per thread
  auto load_stage = [&](int stage, int k_tile) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int c = tid + i * NUM_THREADS;
      const int a_m = c >> 2, a_c = c & 3;
      CP_ASYNC_CG(smem_a_base + (stage * A_STAGE + swz_a(a_m, a_c)) * 2,
                  A + (size_t)(by * BM + a_m) * K + k_tile * BK + a_c * 8, 16);
      const int b_k = c >> 4, b_c = c & 15;
      CP_ASYNC_CG(smem_b_base + (stage * B_STAGE + swz_b(b_k, b_c)) * 2,
                  B + (size_t)(k_tile * BK + b_k) * N + bx * BN + b_c * 8, 16);
    }
  };

  float RC[4][4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) RC[i][j][e] = 0.f;

#pragma unroll
  for (int s = 0; s < K_STAGE - 1; ++s) {
    if (s < NUM_K_TILES) load_stage(s, s);
    CP_ASYNC_COMMIT_GROUP();
  }

  for (int k = 0; k < NUM_K_TILES; ++k) {
    CP_ASYNC_WAIT_GROUP(K_STAGE - 2);
    __syncthreads();
    const int k_next = k + K_STAGE - 1;
    if (k_next < NUM_K_TILES) load_stage(k_next % K_STAGE, k_next);
    CP_ASYNC_COMMIT_GROUP();

    const int sel = k % K_STAGE;
#pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
      uint32_t RA[4][4];
      uint32_t RB[4][2];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = warp_m * 64 + i * 16 + lane_id % 16;
        const uint32_t ptr = smem_a_base + (sel * A_STAGE + swz_a(row, kk * 2 + lane_id / 16)) * 2;
        LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], ptr);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int row = kk * 16 + lane_id % 16;
        const uint32_t ptr = smem_b_base + (sel * B_STAGE + swz_b(row, warp_n * 4 + j * 2 + lane_id / 16)) * 2;
        LDMATRIX_X4_T(RB[2 * j][0], RB[2 * j][1], RB[2 * j + 1][0], RB[2 * j + 1][1], ptr);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          HMMA16816F32(RC[i][j][0], RC[i][j][1], RC[i][j][2], RC[i][j][3], RA[i][0], RA[i][1], RA[i][2], RA[i][3],
                       RB[j][0], RB[j][1]);
    }
  }

#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = by * BM + warp_m * 64 + i * 16 + lane_id / 4;
      const int col = bx * BN + warp_n * 32 + j * 8 + (lane_id % 4) * 2;
      *reinterpret_cast<half2 *>(C + (size_t)row * N + col) = __floats2half2_rn(RC[i][j][0], RC[i][j][1]);
      *reinterpret_cast<half2 *>(C + (size_t)(row + 8) * N + col) = __floats2half2_rn(RC[i][j][2], RC[i][j][3]);
    }
  }
}

template <const int K_STAGE>
static cudaError_t launch_stages(const half *A, const half *B, half *C, int M, int N, int K, int stride,
                                 cudaStream_t stream) {
  auto kernel = hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_swizzle_kernel<K_STAGE, true>;
  const int smem_bytes = K_STAGE * (A_STAGE + B_STAGE) * sizeof(half);
  cudaError_t err = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes);
  if (err != cudaSuccess) return err;
  const int n_swizzle = (N + stride - 1) / stride;
  dim3 block(NUM_THREADS);
  dim3 grid(((N / BN) + n_swizzle - 1) / n_swizzle, M / BM, n_swizzle);
  kernel<<<grid, block, smem_bytes, stream>>>(A, B, C, M, N, K);
  return cudaGetLastError();
}

// stages: 2..4, swizzle_stride: columns of C per stripe (e.g. 1024)
cudaError_t hgemm_mma_stages_swizzle(const half *A, const half *B, half *C, int M, int N, int K, int stages,
                                     int swizzle_stride, cudaStream_t stream) {
  if (M % BM || N % BN || K % BK || swizzle_stride < BN) return cudaErrorInvalidValue;
  switch (stages) {
    case 2: return launch_stages<2>(A, B, C, M, N, K, swizzle_stride, stream);
    case 3: return launch_stages<3>(A, B, C, M, N, K, swizzle_stride, stream);
    case 4: return launch_stages<4>(A, B, C, M, N, K, swizzle_stride, stream);
  }
  return cudaErrorInvalidValue;
}
