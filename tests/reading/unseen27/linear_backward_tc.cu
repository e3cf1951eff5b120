#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <type_traits>
#include <vector>

// y = x W^T + b      x: [M, I]   W: [O, I]   b: [O]   y: [M, O]
//
// dx = dy W          [M, I]   (NN)
// dW = dy^T x        [O, I]   (TN)
// db = sum_m dy      [O]
//
// fp16 operands, fp32 gradients. M, I and O have to be multiples of 16.

#define CHECK_INPUT(x)                                             \
  TORCH_CHECK((x).is_cuda(), #x " must be a CUDA tensor");         \
  TORCH_CHECK((x).is_contiguous(), #x " must be contiguous");      \
  TORCH_CHECK((x).scalar_type() == torch::kHalf, #x " must be half")

using namespace nvcuda;

constexpr int TILE = 16;
constexpr int WARPS_ROW = 2;
constexpr int WARPS_COL = 2;

// C (m x n, row-major) = op(A) B.  op(A) is A (m x k, row-major) or the transpose of A (k x m, row-major),
// the latter is the same memory seen as a column-major m x k matrix.
template <typename LayoutA>
__global__ void gemm_warp_tile(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C,
                               int m, int n, int k, int lda, int ldb, int ldc) {
  const int warp = threadIdx.y;
  const int row = (blockIdx.y * WARPS_ROW + warp / WARPS_COL) * TILE;
  const int col = (blockIdx.x * WARPS_COL + warp % WARPS_COL) * TILE;
  if (row >= m || col >= n) return;  // whole warps only, no barrier below

  wmma::fragment<wmma::matrix_a, TILE, TILE, TILE, half, LayoutA> a;
  wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, half, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, TILE, TILE, TILE, float> c;
  wmma::fill_fragment(c, 0.0f);

  for (int p = 0; p < k; p += TILE) {
    const half* a_ptr;
    if (std::is_same<LayoutA, wmma::row_major>::value)
      a_ptr = A + (size_t)row * lda + p;
    else
      a_ptr = A + (size_t)p * lda + row;
    wmma::load_matrix_sync(a, a_ptr, lda);
    wmma::load_matrix_sync(b, B + (size_t)p * ldb + col, ldb);
    wmma::mma_sync(c, a, b, c);
  }
  wmma::store_matrix_sync(C + (size_t)row * ldc + col, c, ldc, wmma::mem_row_major);
}

// one block of 32 x 8 threads per 32 columns
__global__ void bias_grad_kernel(const half* __restrict__ dy, float* __restrict__ db, int M, int O) {
  __shared__ float partial[8][33];
  const int col = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  if (col < O)
    for (int r = threadIdx.y; r < M; r += 8) sum += __half2float(dy[(size_t)r * O + col]);
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && col < O) {
    for (int i = 1; i < 8; ++i) sum += partial[i][threadIdx.x];
    db[col] = sum;
  }
}

std::vector<torch::Tensor> linear_backward(torch::Tensor grad_output, torch::Tensor input, torch::Tensor weight) {
  CHECK_INPUT(grad_output);
  CHECK_INPUT(input);
  CHECK_INPUT(weight);
  const int M = input.size(0);
  const int I = input.size(1);
  const int O = weight.size(0);
  TORCH_CHECK(grad_output.size(0) == M && grad_output.size(1) == O && weight.size(1) == I, "shape mismatch");
  TORCH_CHECK(M % TILE == 0 && I % TILE == 0 && O % TILE == 0, "sizes must be multiples of 16");

  auto opts = input.options().dtype(torch::kFloat32);
  auto grad_input = torch::empty({M, I}, opts);
  auto grad_weight = torch::empty({O, I}, opts);
  auto grad_bias = torch::empty({O}, opts);

  const half* dy = reinterpret_cast<const half*>(grad_output.data_ptr<at::Half>());
  const half* x = reinterpret_cast<const half*>(input.data_ptr<at::Half>());
  const half* w = reinterpret_cast<const half*>(weight.data_ptr<at::Half>());
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();

  const dim3 block(32, WARPS_ROW * WARPS_COL);
  const int block_rows = WARPS_ROW * TILE, block_cols = WARPS_COL * TILE;
  const dim3 grid_x((I + block_cols - 1) / block_cols, (M + block_rows - 1) / block_rows);
  const dim3 grid_w((I + block_cols - 1) / block_cols, (O + block_rows - 1) / block_rows);

  // dx[M, I] = dy[M, O] * W[O, I]
  gemm_warp_tile<wmma::row_major><<<grid_x, block, 0, stream>>>(
      dy, w, grad_input.data_ptr<float>(), M, I, O, O, I, I);
  // dW[O, I] = dy[M, O]^T * x[M, I]
  gemm_warp_tile<wmma::col_major><<<grid_w, block, 0, stream>>>(
      dy, x, grad_weight.data_ptr<float>(), O, I, M, O, I, I);
  bias_grad_kernel<<<(O + 31) / 32, dim3(32, 8), 0, stream>>>(dy, grad_bias.data_ptr<float>(), M, O);

  return {grad_input, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &linear_backward, "linear layer backward on tensor cores (CUDA)");
}
