// Backward pass of  Y = relu(X W^T + b)  for a half precision linear layer.
//
//   in :  dY [M, N]  Y [M, N]  X [M, K]  W [N, K]      (half, contiguous)
//   out:  dX [M, K]  half      = dZ W
//         dW [N, K]  float     = dZ^T X
//         db [N]     float     = column sums of dZ
//   with  dZ = dY where Y > 0, else 0
//
// M is arbitrary, N and K have to be multiples of 8 (16 byte loads).
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/extension.h>

#include <tuple>
#include <type_traits>

namespace wmma = nvcuda::wmma;

namespace {

constexpr int kTileR = 64;   // rows of the result
constexpr int kTileS = 64;   // columns of the result
constexpr int kTileL = 32;   // the dimension that is summed over
constexpr int kThreads = 128;
constexpr int kPad = 8;

__device__ __forceinline__ void store(half* p, float v) { *p = __float2half(v); }
__device__ __forceinline__ void store(float* p, float v) { *p = v; }

__global__ void relu_backward_kernel(const half* __restrict__ dy, const half* __restrict__ y, half* __restrict__ dz,
                                     size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    dz[i] = __half2float(y[i]) > 0.f ? dy[i] : __float2half(0.f);
}

// 32 columns per block, 8 threads share a column.
__global__ void bias_backward_kernel(const half* __restrict__ dz, float* __restrict__ db, int M, int N) {
  __shared__ float part[8][33];
  const int n = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.f;
  if (n < N)
    for (int m = threadIdx.y; m < M; m += 8) sum += __half2float(dz[(size_t)m * N + n]);
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  for (int s = 4; s > 0; s >>= 1) {
    if (threadIdx.y < s) part[threadIdx.y][threadIdx.x] += part[threadIdx.y + s][threadIdx.x];
    __syncthreads();
  }
  if (threadIdx.y == 0 && n < N) db[n] = part[0][threadIdx.x];
}

// A ROWS x COLS tile of a row-major matrix, zero outside.
template <int ROWS, int COLS>
__device__ __forceinline__ void load_tile(half* dst, const half* __restrict__ src, int row0, int col0, int rows,
                                          int cols) {
  constexpr int kChunks = COLS / 8;
  for (int i = threadIdx.x; i < ROWS * kChunks; i += kThreads) {
    const int r = i / kChunks, c = i % kChunks * 8;
    uint4 v = make_uint4(0u, 0u, 0u, 0u);
    if (row0 + r < rows && col0 + c < cols)
      v = *reinterpret_cast<const uint4*>(src + (size_t)(row0 + r) * cols + col0 + c);
    *reinterpret_cast<uint4*>(dst + r * (COLS + kPad) + c) = v;
  }
}

// out[R, S] = op(A) B,  B is [L, S];  op(A) = A [R, L], or A^T with A [L, R] if TRANS_A.
template <bool TRANS_A, typename Out>
__global__ void __launch_bounds__(kThreads)
gemm_kernel(const half* __restrict__ A, const half* __restrict__ B, Out* __restrict__ out, int R, int S, int L) {
  using LayoutA = typename std::conditional<TRANS_A, wmma::col_major, wmma::row_major>::type;
  constexpr int kLdA = (TRANS_A ? kTileR : kTileL) + kPad;
  constexpr int kLdB = kTileS + kPad;
  constexpr int kLdC = kTileS + 4;
  __shared__ __align__(32) half sa[(TRANS_A ? kTileL : kTileR) * kLdA];
  __shared__ __align__(32) half sb[kTileL * kLdB];
  __shared__ __align__(32) float sc[kTileR * kLdC];

  const int r0 = blockIdx.y * kTileR, s0 = blockIdx.x * kTileS;
  const int warp = threadIdx.x / 32;
  const int wr = warp / 2 * 32, ws = warp % 2 * 32;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[i][j], 0.f);

  for (int l0 = 0; l0 < L; l0 += kTileL) {
    if (TRANS_A)
      load_tile<kTileL, kTileR>(sa, A, l0, r0, L, R);
    else
      load_tile<kTileR, kTileL>(sa, A, r0, l0, R, L);
    load_tile<kTileL, kTileS>(sb, B, l0, s0, L, S);
    __syncthreads();
#pragma unroll
    for (int l = 0; l < kTileL; l += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, LayoutA> a[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int r = wr + i * 16;
        wmma::load_matrix_sync(a[i], sa + (TRANS_A ? l * kLdA + r : r * kLdA + l), kLdA);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) wmma::load_matrix_sync(b[j], sb + l * kLdB + ws + j * 16, kLdB);
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j)
      wmma::store_matrix_sync(sc + (wr + i * 16) * kLdC + ws + j * 16, acc[i][j], kLdC, wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < kTileR * kTileS; i += kThreads) {
    const int r = i / kTileS, s = i % kTileS;
    if (r0 + r < R && s0 + s < S) store(out + (size_t)(r0 + r) * S + s0 + s, sc[r * kLdC + s]);
  }
}

inline int ceil_div(int a, int b) { return (a + b - 1) / b; }

}  // namespace

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> linear_relu_backward(torch::Tensor dy, torch::Tensor y,
                                                                             torch::Tensor x, torch::Tensor w) {
  TORCH_CHECK(dy.is_cuda() && y.is_cuda() && x.is_cuda() && w.is_cuda(), "expected CUDA tensors");
  TORCH_CHECK(dy.dtype() == torch::kHalf && y.dtype() == torch::kHalf && x.dtype() == torch::kHalf &&
                  w.dtype() == torch::kHalf,
              "expected half tensors");
  TORCH_CHECK(dy.is_contiguous() && y.is_contiguous() && x.is_contiguous() && w.is_contiguous(),
              "expected contiguous tensors");
  TORCH_CHECK(dy.dim() == 2 && x.dim() == 2 && w.dim() == 2 && dy.sizes() == y.sizes(), "bad shapes");
  const int M = x.size(0), K = x.size(1), N = w.size(0);
  TORCH_CHECK(w.size(1) == K && dy.size(0) == M && dy.size(1) == N, "bad shapes");
  TORCH_CHECK(N % 8 == 0 && K % 8 == 0, "N and K must be multiples of 8");
  TORCH_CHECK(M > 0, "empty batch");

  auto dz = torch::empty_like(dy);
  auto dx = torch::empty_like(x);
  auto dw = torch::empty({N, K}, x.options().dtype(torch::kFloat));
  auto db = torch::empty({N}, x.options().dtype(torch::kFloat));
  auto h = [](const torch::Tensor& t) { return reinterpret_cast<half*>(t.data_ptr<at::Half>()); };
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();

  relu_backward_kernel<<<256, 256, 0, stream>>>(h(dy), h(y), h(dz), (size_t)M * N);
  bias_backward_kernel<<<ceil_div(N, 32), dim3(32, 8), 0, stream>>>(h(dz), db.data_ptr<float>(), M, N);
  // dX [M, K] = dZ [M, N] W [N, K]
  gemm_kernel<false, half><<<dim3(ceil_div(K, kTileS), ceil_div(M, kTileR)), kThreads, 0, stream>>>(
      h(dz), h(w), h(dx), M, K, N);
  // dW [N, K] = dZ^T [N, M] X [M, K]
  gemm_kernel<true, float><<<dim3(ceil_div(K, kTileS), ceil_div(N, kTileR)), kThreads, 0, stream>>>(
      h(dz), h(x), dw.data_ptr<float>(), N, K, M);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dx, dw, db};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backward", &linear_relu_backward, "relu(x w^T + b) backward: dx, dw, db");
}
