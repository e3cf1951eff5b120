// Block sparse matrix times dense matrix with WMMA.
//
// usage: ./bsr_spmm [block_rows] [block_cols] [N] [density in %]
//
// A : block_rows*32 x block_cols*32, BSR format, dense 32x32 blocks
// B : block_cols*32 x N
// C : block_rows*32 x N

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cmath>
#include <iostream>
#include <random>
#include <vector>

#define BLOCK_DIM 32
#define N_TILE 64

#define checkCuda(x)                                                                       \
  {                                                                                        \
    cudaError_t e = (x);                                                                   \
    if (e != cudaSuccess) {                                                                \
      std::cerr << __FILE__ << ":" << __LINE__ << " " << cudaGetErrorString(e) << std::endl; \
      std::exit(1);                                                                        \
    }                                                                                      \
  }

using nvcuda::wmma::accumulator;
using nvcuda::wmma::col_major;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::row_major;

template <typename T>
struct BsrMatrix {
  int block_rows;
  int block_cols;
  std::vector<int> row_ptr;
  std::vector<int> col_ind;
  std::vector<T> values;  // nnzb blocks, row-major inside
};

__global__ void bsr_spmm_kernel(const int *__restrict__ row_ptr, const int *__restrict__ col_ind,
                                const half *__restrict__ values, const half *__restrict__ B, float *__restrict__ C,
                                int N) {
  __shared__ __align__(32) half a_tile[BLOCK_DIM * BLOCK_DIM];
  __shared__ __align__(32) half b_tile[BLOCK_DIM * N_TILE];

  const int block_row = blockIdx.y;
  const int n_start = blockIdx.x * N_TILE;
  const int tid = threadIdx.x;
  const int warp = tid / 32;
  const int warp_row = (warp / 2) * 16;
  const int warp_col = (warp % 2) * 32;

  fragment<accumulator, 16, 16, 16, float> acc0, acc1;
  nvcuda::wmma::fill_fragment(acc0, 0.0f);
  nvcuda::wmma::fill_fragment(acc1, 0.0f);

  const int begin = row_ptr[block_row];
  const int end = row_ptr[block_row + 1];
  for (int idx = begin; idx < end; ++idx) {
    const float4 *a_src = reinterpret_cast<const float4 *>(values + (size_t)idx * BLOCK_DIM * BLOCK_DIM);
    float4 *a_dst = reinterpret_cast<float4 *>(a_tile);
    a_dst[tid] = a_src[tid];  // 1024 halves = 128 float4

    const int k_start = col_ind[idx] * BLOCK_DIM;
    for (int i = tid; i < BLOCK_DIM * N_TILE / 8; i += 128) {
      const int k = i / (N_TILE / 8);
      const int n = (i % (N_TILE / 8)) * 8;
      *reinterpret_cast<float4 *>(b_tile + k * N_TILE + n) =
          *reinterpret_cast<const float4 *>(B + (size_t)(k_start + k) * N + n_start + n);
    }
    __syncthreads();

    for (int k = 0; k < BLOCK_DIM; k += 16) {
      fragment<matrix_a, 16, 16, 16, half, row_major> a;
      fragment<matrix_b, 16, 16, 16, half, row_major> b0, b1;
      nvcuda::wmma::load_matrix_sync(a, a_tile + warp_row * BLOCK_DIM + k, BLOCK_DIM);
      nvcuda::wmma::load_matrix_sync(b0, b_tile + k * N_TILE + warp_col, N_TILE);
      nvcuda::wmma::load_matrix_sync(b1, b_tile + k * N_TILE + warp_col + 16, N_TILE);
      nvcuda::wmma::mma_sync(acc0, a, b0, acc0);
      nvcuda::wmma::mma_sync(acc1, a, b1, acc1);
    }
    __syncthreads();
  }

  float *c = C + (size_t)(block_row * BLOCK_DIM + warp_row) * N + n_start + warp_col;
  nvcuda::wmma::store_matrix_sync(c, acc0, N, nvcuda::wmma::mem_row_major);
  nvcuda::wmma::store_matrix_sync(c + 16, acc1, N, nvcuda::wmma::mem_row_major);
}

void bsr_spmm(int block_rows, const int *d_row_ptr, const int *d_col_ind, const half *d_values, const half *d_B,
              float *d_C, int N) {
  dim3 grid(N / N_TILE, block_rows);
  bsr_spmm_kernel<<<grid, 128>>>(d_row_ptr, d_col_ind, d_values, d_B, d_C, N);
}

BsrMatrix<half> random_bsr(int block_rows, int block_cols, int density, std::mt19937 &gen) {
  BsrMatrix<half> a;
  a.block_rows = block_rows;
  a.block_cols = block_cols;
  std::uniform_int_distribution<int> percent(0, 99);
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  a.row_ptr.push_back(0);
  for (int r = 0; r < block_rows; ++r) {
    for (int c = 0; c < block_cols; ++c) {
      if (percent(gen) >= density) continue;
      a.col_ind.push_back(c);
      for (int e = 0; e < BLOCK_DIM * BLOCK_DIM; ++e) a.values.push_back(__float2half(value(gen)));
    }
    a.row_ptr.push_back((int)a.col_ind.size());
  }
  return a;
}

int main(int argc, char **argv) {
  const int block_rows = argc > 1 ? atoi(argv[1]) : 16;
  const int block_cols = argc > 2 ? atoi(argv[2]) : 16;
  const int N = argc > 3 ? atoi(argv[3]) : 256;
  const int density = argc > 4 ? atoi(argv[4]) : 20;
  if (N % N_TILE != 0) {
    std::cerr << "N has to be a multiple of " << N_TILE << std::endl;
    return 1;
  }
  std::mt19937 gen(42);
  BsrMatrix<half> a = random_bsr(block_rows, block_cols, density, gen);
  const int M = block_rows * BLOCK_DIM, K = block_cols * BLOCK_DIM;
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  std::vector<half> b((size_t)K * N);
  for (auto &x : b) x = __float2half(value(gen));
  std::vector<float> c((size_t)M * N), ref((size_t)M * N, 0.0f);

  int *d_row_ptr, *d_col_ind;
  half *d_values, *d_b;
  float *d_c;
  checkCuda(cudaMalloc((void **)&d_row_ptr, a.row_ptr.size() * sizeof(int)));
  checkCuda(cudaMalloc((void **)&d_col_ind, a.col_ind.size() * sizeof(int)));
  checkCuda(cudaMalloc((void **)&d_values, a.values.size() * sizeof(half)));
  checkCuda(cudaMalloc((void **)&d_b, b.size() * sizeof(half)));
  checkCuda(cudaMalloc((void **)&d_c, c.size() * sizeof(float)));
  checkCuda(cudaMemcpy(d_row_ptr, a.row_ptr.data(), a.row_ptr.size() * sizeof(int), cudaMemcpyHostToDevice));
  checkCuda(cudaMemcpy(d_col_ind, a.col_ind.data(), a.col_ind.size() * sizeof(int), cudaMemcpyHostToDevice));
  checkCuda(cudaMemcpy(d_values, a.values.data(), a.values.size() * sizeof(half), cudaMemcpyHostToDevice));
  checkCuda(cudaMemcpy(d_b, b.data(), b.size() * sizeof(half), cudaMemcpyHostToDevice));

  bsr_spmm(block_rows, d_row_ptr, d_col_ind, d_values, d_b, d_c, N);
  checkCuda(cudaGetLastError());
  checkCuda(cudaMemcpy(c.data(), d_c, c.size() * sizeof(float), cudaMemcpyDeviceToHost));

  for (int br = 0; br < block_rows; ++br)
    for (int idx = a.row_ptr[br]; idx < a.row_ptr[br + 1]; ++idx)
      for (int i = 0; i < BLOCK_DIM; ++i)
        for (int k = 0; k < BLOCK_DIM; ++k) {
          const float v = __half2float(a.values[((size_t)idx * BLOCK_DIM + i) * BLOCK_DIM + k]);
          for (int n = 0; n < N; ++n)
            ref[(size_t)(br * BLOCK_DIM + i) * N + n] +=
                v * __half2float(b[(size_t)(a.col_ind[idx] * BLOCK_DIM + k) * N + n]);
        }
  float max_err = 0.0f;
  for (size_t i = 0; i < c.size(); ++i) max_err = std::fmax(max_err, std::fabs(c[i] - ref[i]));
  std::cout << "nnzb " << a.col_ind.size() << ", max error " << max_err << (max_err < 1e-2f ? " OK" : " WRONG")
            << std::endl;
  cudaFree(d_row_ptr);
  cudaFree(d_col_ind);
  cudaFree(d_values);
  cudaFree(d_b);
  cudaFree(d_c);
  return max_err < 1e-2f ? 0 : 1;
}
