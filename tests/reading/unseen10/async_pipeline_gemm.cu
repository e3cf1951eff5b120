// bf16 GEMM with cuda::pipeline / cuda::memcpy_async, 2 stages. D = alpha * A * B + beta * C.
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cassert>
#include <iostream>

namespace cg = cooperative_groups;
using namespace nvcuda;

#ifndef SHARED_STAGES
#define SHARED_STAGES 2
#endif

enum { BLOCK_ROWS = 64, BLOCK_COLS = 64, CHUNK_K = 32, WARPS = 4, THREADS = WARPS * 32 };
enum { SKEW = 8 };

#define checkCudaErrors(val) check((val), #val, __FILE__, __LINE__)
inline void check(cudaError_t result, const char* func, const char* file, int line) {
  if (result) {
    std::cerr << "CUDA error at " << file << ":" << line << " code=" << static_cast<unsigned>(result) << " \"" << func << "\"\n";
    exit(EXIT_FAILURE);
  }
}

struct alignas(128) Stage {
  __nv_bfloat16 a[BLOCK_ROWS][CHUNK_K + SKEW];
  __nv_bfloat16 b[CHUNK_K][BLOCK_COLS + SKEW];
};

__global__ void __launch_bounds__(THREADS)
compute_bf16gemm_async_copy(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
                            const float* __restrict__ C, float* __restrict__ D, int m_global, int n_global, int k_global,
                            float alpha, float beta) {
  extern __shared__ __align__(128) unsigned char shmem[];
  Stage* stages = reinterpret_cast<Stage*>(shmem);
  float(*out)[BLOCK_COLS] = reinterpret_cast<float(*)[BLOCK_COLS]>(shmem);

  const auto block = cg::this_thread_block();
  cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
  const auto shape16 = cuda::aligned_size_t<alignof(int4)>(sizeof(int4));

  const unsigned warp_id = threadIdx.x / warpSize;
  // Offset in shared memory from which the B matrix is stored / tiles are visited in a grid-stride loop
  const int tiles_n = n_global / BLOCK_COLS;
  const int tiles = (m_global / BLOCK_ROWS) * tiles_n;

  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int row0 = (tile / tiles_n) * BLOCK_ROWS, col0 = (tile % tiles_n) * BLOCK_COLS;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[BLOCK_COLS / 16];
#pragma unroll
    for (auto& f : acc) wmma::fill_fragment(f, 0.0f);

    auto load_stage = [&](int stage, int k) {
      pipe.producer_acquire();
      for (int i = threadIdx.x; i < BLOCK_ROWS * CHUNK_K / 8; i += THREADS) {
        const int r = i / (CHUNK_K / 8), c = (i % (CHUNK_K / 8)) * 8;
        cuda::memcpy_async(&stages[stage].a[r][c], &A[(size_t)(row0 + r) * k_global + k + c], shape16, pipe);
      }
      for (int i = threadIdx.x; i < CHUNK_K * BLOCK_COLS / 8; i += THREADS) {
        const int r = i / (BLOCK_COLS / 8), c = (i % (BLOCK_COLS / 8)) * 8;
        cuda::memcpy_async(&stages[stage].b[r][c], &B[(size_t)(k + r) * n_global + col0 + c], shape16, pipe);
      }
      pipe.producer_commit();
    };

    const int chunks = k_global / CHUNK_K;
    load_stage(0, 0);
    for (int i = 0; i < chunks; ++i) {
      if (i + 1 < chunks) {
        load_stage((i + 1) % SHARED_STAGES, (i + 1) * CHUNK_K);
        cuda::pipeline_consumer_wait_prior<1>(pipe);
      } else {
        cuda::pipeline_consumer_wait_prior<0>(pipe);
      }
      block.sync();
      const Stage& s = stages[i % SHARED_STAGES];
#pragma unroll
      for (int k = 0; k < CHUNK_K; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa;
        wmma::load_matrix_sync(fa, &s.a[warp_id * 16][k], CHUNK_K + SKEW);
#pragma unroll
        for (int j = 0; j < BLOCK_COLS / 16; ++j) {
          wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> fb;
          wmma::load_matrix_sync(fb, &s.b[k][j * 16], BLOCK_COLS + SKEW);
          wmma::mma_sync(acc[j], fa, fb, acc[j]);
        }
      }
      block.sync();
      pipe.consumer_release();
    }

#pragma unroll
    for (int j = 0; j < BLOCK_COLS / 16; ++j) {
#pragma unroll
      for (int t = 0; t < acc[j].num_elements; t++) acc[j].x[t] *= alpha;
      wmma::store_matrix_sync(&out[warp_id * 16][j * 16], acc[j], BLOCK_COLS, wmma::mem_row_major);
    }
    block.sync();
    for (int i = threadIdx.x; i < BLOCK_ROWS * BLOCK_COLS / 4; i += THREADS) {
      const int r = i / (BLOCK_COLS / 4), c = (i % (BLOCK_COLS / 4)) * 4;
      const size_t at = (size_t)(row0 + r) * n_global + col0 + c;
      float4 v = *reinterpret_cast<float4*>(&out[r][c]);
      const float4 old = *reinterpret_cast<const float4*>(&C[at]);
      v.x += beta * old.x;
      v.y += beta * old.y;
      v.z += beta * old.z;
      v.w += beta * old.w;
      *reinterpret_cast<float4*>(&D[at]) = v;
    }
    block.sync();
  }
}

void runBf16Gemm(const __nv_bfloat16* A, const __nv_bfloat16* B, const float* C, float* D, int m, int n, int k,
                 float alpha, float beta) {
  assert(m % BLOCK_ROWS == 0 && n % BLOCK_COLS == 0 && k % CHUNK_K == 0);
  cudaDeviceProp deviceProp;
  checkCudaErrors(cudaGetDeviceProperties(&deviceProp, 0));
  if (deviceProp.major < 8) {
    std::cout << "requires SM 8.0 or higher to use Tensor Cores. Exiting...\n";
    exit(0);
  }
  constexpr size_t SHMEM_SZ = sizeof(Stage) * SHARED_STAGES > BLOCK_ROWS * BLOCK_COLS * sizeof(float)
                                  ? sizeof(Stage) * SHARED_STAGES
                                  : BLOCK_ROWS * BLOCK_COLS * sizeof(float);
  checkCudaErrors(cudaFuncSetAttribute(compute_bf16gemm_async_copy, cudaFuncAttributeMaxDynamicSharedMemorySize, SHMEM_SZ));
  compute_bf16gemm_async_copy<<<deviceProp.multiProcessorCount * 2, THREADS, SHMEM_SZ>>>(A, B, C, D, m, n, k, alpha, beta);
  checkCudaErrors(cudaGetLastError());
}
