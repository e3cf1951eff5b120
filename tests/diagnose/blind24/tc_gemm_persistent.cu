/*
 * D = alpha * A * B + beta * C      (A, B: half; C, D: float)
 *
 * A is row major, B is column major, C and D are row major.
 *
 * Each CTA computes one 64 x 64 tile of D at a time and then strides through the matrix by the number of CTAs
 * launched, so the grid can be any size (one CTA per SM is a good choice).
 *
 *   - the C tile is streamed into shared memory in long rows, then each warp loads its fragments from there
 *   - C is pre-scaled by beta / alpha so that one multiplication by alpha at the end is all that is needed
 *   - CHUNK_K slices of A and B are staged in shared memory, warps 0..1 copy A, warps 2..3 copy B
 *   - rows of A and B are skewed by SKEW_HALF halves to keep load_matrix_sync free of bank conflicts
 */
#include <cuda_fp16.h>
#include <mma.h>

#define WARP_SIZE 32

// WMMA dimensions
#define M 16
#define N 16
#define K 16

// 4 k-steps of 16 are staged at once: a row of the slice is 128 bytes
#define CHUNK_K 4
#define CHUNK_LINE_BYTES (CHUNK_K * K * sizeof(half))
#define CHUNK_COPY_LINES_PER_WARP (WARP_SIZE * sizeof(int4) / CHUNK_LINE_BYTES)
#define CHUNK_COPY_LINE_LANES (WARP_SIZE / CHUNK_COPY_LINES_PER_WARP)

#define BLOCK_ROW_WARPS 2
#define BLOCK_COL_WARPS 2

#define WARP_ROW_TILES 2
#define WARP_COL_TILES 2

#define BLOCK_ROW_TILES (WARP_ROW_TILES * BLOCK_ROW_WARPS)
#define BLOCK_COL_TILES (WARP_COL_TILES * BLOCK_COL_WARPS)

#define WARPS_PER_BLOCK (BLOCK_ROW_WARPS * BLOCK_COL_WARPS)
#define THREADS_PER_BLOCK (WARP_SIZE * WARPS_PER_BLOCK)

#define SHMEM_STRIDE (N * BLOCK_ROW_TILES)
#define SHMEM_OFFSET (N * WARP_ROW_TILES)

#define SKEW_HALF 16

using namespace nvcuda;

__global__ void compute_gemm(const half *A, const half *B, const float *C, float *D,
                             int m_tiles, int n_tiles, int k_tiles, float alpha, float beta) {
  extern __shared__ __align__(128) half shmem[][CHUNK_K * K + SKEW_HALF];

  const int m_global = m_tiles * M;
  const int n_global = n_tiles * N;
  const int k_global = k_tiles * K;

  // Warp and lane identification.
  const unsigned int warpId = threadIdx.x / WARP_SIZE;
  const unsigned int laneId = threadIdx.x % WARP_SIZE;

  // Offset in shared memory from which the B slice is stored.
  const size_t shmem_idx_b_off = BLOCK_COL_TILES * M;

  // The fragments of C (and D) of this warp, seen as floats in shared memory.
  float *shmem_warp_tile_ptr = (float *)&shmem[0][0] +
                               (warpId / BLOCK_ROW_WARPS) * SHMEM_STRIDE * M * WARP_COL_TILES +
                               (warpId % BLOCK_ROW_WARPS) * SHMEM_OFFSET;

  // The rows of C (and D) that this warp streams between global and shared memory.
  float *shmem_warp_stream_ptr = (float *)&shmem[0][0] + warpId * SHMEM_STRIDE * M;

  // Pre-scale beta, so that D = alpha * (A * B + beta / alpha * C).
  beta /= alpha;

  for (unsigned int block_pos = blockIdx.x;; block_pos += gridDim.x) {
    const unsigned int block_tile_i =
        ((block_pos * BLOCK_ROW_TILES) / n_tiles) * BLOCK_COL_TILES;
    const unsigned int block_tile_j = (block_pos * BLOCK_ROW_TILES) % n_tiles;

    // Stop when there are no more D matrix tiles to compute in this CTA.
    if (block_tile_i >= m_tiles) {
      break;
    }

    // This warp's pointer into the C matrix: 16 rows of the tile.
    const size_t gmem_idx = (block_tile_i + warpId) * M * n_global + block_tile_j * N;
    const float *src_gmem_warp_stream_ptr = &C[gmem_idx];

    // Stream multiple C rows to shared memory, half a warp per row.
#pragma unroll
    for (int i = 0; i < M; i += 2) {
      const int row = i + laneId / 16;
      *((float4 *)(shmem_warp_stream_ptr + SHMEM_STRIDE * row) + laneId % 16) =
          *((const float4 *)(src_gmem_warp_stream_ptr + (size_t)n_global * row) + laneId % 16);
    }

    __syncthreads();

    // These fragments will accumulate the result of A and B matrix fragment multiplications along K.
    wmma::fragment<wmma::accumulator, M, N, K, float> c[WARP_COL_TILES][WARP_ROW_TILES];

#pragma unroll
    for (int i = 0; i < WARP_COL_TILES; i++) {
#pragma unroll
      for (int j = 0; j < WARP_ROW_TILES; j++) {
        const float *tile_ptr = shmem_warp_tile_ptr + i * SHMEM_STRIDE * M + j * N;
        wmma::load_matrix_sync(c[i][j], tile_ptr, SHMEM_STRIDE, wmma::mem_row_major);
      }
    }

    __syncthreads();

    // Scale the C matrix.
#pragma unroll
    for (int i = 0; i < WARP_COL_TILES; i++) {
#pragma unroll
      for (int j = 0; j < WARP_ROW_TILES; j++) {
#pragma unroll
        for (int t = 0; t < c[i][j].num_elements; t++) {
          c[i][j].x[t] *= beta;
        }
      }
    }

    // Select what to copy: the first half of the warps copies A, the other half B. Each warp has 32 rows of it.
    const half *warp_ptr =
        (warpId < (WARPS_PER_BLOCK / 2))
            ? (&A[block_tile_i * M * k_global] + M * k_global * (warpId % (WARPS_PER_BLOCK / 2)) * 2)
            : (&B[block_tile_j * N * k_global] + N * k_global * (warpId % (WARPS_PER_BLOCK / 2)) * 2);

    // Go through the global K dimension by a fixed step at a time.
    for (int tile_k = 0; tile_k < k_tiles; tile_k += CHUNK_K) {
      // Copy slices of the A and B matrices to shared memory.
      size_t shmem_idx = warpId < (WARPS_PER_BLOCK / 2)
                             ? (M * (warpId % (WARPS_PER_BLOCK / 2)) * 2)
                             : (N * (warpId % (WARPS_PER_BLOCK / 2)) * 2 + shmem_idx_b_off);

      // First half of the lanes of a line copies the first bytes of the row, and so on.
      const int4 *lane_ptr = (const int4 *)(warp_ptr + tile_k * K +
                                            (laneId / CHUNK_COPY_LINE_LANES) * k_global) +
                             (laneId % CHUNK_COPY_LINE_LANES);

      // Shift the second and later lanes to the next row in shared memory.
      shmem_idx += laneId / CHUNK_COPY_LINE_LANES;

#pragma unroll
      for (int i = 0; i < 2 * M / CHUNK_COPY_LINES_PER_WARP; i++) {
        // Copy 16 bytes at once in each lane.
        *((int4 *)&shmem[shmem_idx][0] + (laneId % CHUNK_COPY_LINE_LANES)) = *lane_ptr;

        // Advance the global memory pointer and the shared memory index.
        lane_ptr = (const int4 *)((const half *)lane_ptr + k_global * CHUNK_COPY_LINES_PER_WARP);
        shmem_idx += CHUNK_COPY_LINES_PER_WARP;
      }

      __syncthreads();

      // Compute a grid of C matrix tiles in each warp.
#pragma unroll
      for (int k_step = 0; k_step < CHUNK_K; k_step++) {
        wmma::fragment<wmma::matrix_a, M, N, K, half, wmma::row_major> a[WARP_COL_TILES];
        wmma::fragment<wmma::matrix_b, M, N, K, half, wmma::col_major> b[WARP_ROW_TILES];

#pragma unroll
        for (int i = 0; i < WARP_COL_TILES; i++) {
          size_t shmem_idx_a = (warpId / BLOCK_ROW_WARPS) * M * WARP_COL_TILES + (i * M);
          const half *tile_ptr = &shmem[shmem_idx_a][k_step * K];

          wmma::load_matrix_sync(a[i], tile_ptr, K * CHUNK_K + SKEW_HALF);

#pragma unroll
          for (int j = 0; j < WARP_ROW_TILES; j++) {
            if (i == 0) {
              // Load the B matrix fragment once, because it is going to be reused against the other A fragments.
              size_t shmem_idx_b = shmem_idx_b_off + (WARP_ROW_TILES * N) * (warpId % BLOCK_ROW_WARPS) + (j * N);
              const half *tile_ptr_b = &shmem[shmem_idx_b][k_step * K];

              wmma::load_matrix_sync(b[j], tile_ptr_b, K * CHUNK_K + SKEW_HALF);
            }

            wmma::mma_sync(c[i][j], a[i], b[j], c[i][j]);
          }
        }
      }

      __syncthreads();
    }

    // Store the D fragments to shared memory.
#pragma unroll
    for (int i = 0; i < WARP_COL_TILES; i++) {
#pragma unroll
      for (int j = 0; j < WARP_ROW_TILES; j++) {
#pragma unroll
        for (int t = 0; t < c[i][j].num_elements; t++) {
          c[i][j].x[t] *= alpha;
        }

        float *out_ptr = shmem_warp_tile_ptr + i * SHMEM_STRIDE * M + j * N;
        wmma::store_matrix_sync(out_ptr, c[i][j], SHMEM_STRIDE, wmma::mem_row_major);
      }
    }

    __syncthreads();

    // Now that shared memory contains all the D tiles, stream them to global memory.
    float *dst_gmem_warp_stream_ptr = &D[gmem_idx];

#pragma unroll
    for (int i = 0; i < M; i += 2) {
      const int row = i + laneId / 16;
      *((float4 *)(dst_gmem_warp_stream_ptr + (size_t)n_global * row) + laneId % 16) =
          *((float4 *)(shmem_warp_stream_ptr + SHMEM_STRIDE * row) + laneId % 16);
    }

    __syncthreads();
  }
}

void launch_gemm(const half *A, const half *B, const float *C, float *D, int m, int n, int k, float alpha, float beta,
                 int num_sms) {
  const size_t ab_bytes = sizeof(half) * (BLOCK_COL_TILES + BLOCK_ROW_TILES) * M * (CHUNK_K * K + SKEW_HALF);
  const size_t c_bytes = sizeof(float) * BLOCK_COL_TILES * M * BLOCK_ROW_TILES * N;
  const size_t shmem = ab_bytes > c_bytes ? ab_bytes : c_bytes;
  cudaFuncSetAttribute(compute_gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shmem);
  compute_gemm<<<num_sms, THREADS_PER_BLOCK, shmem>>>(A, B, C, D, m / M, n / N, k / K, alpha, beta);
}
