#include <torch/extension.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

#define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda() && x.is_contiguous() && x.dtype() == torch::kHalf, #x " must be contiguous half")

// scores[bh][i][j] = scale * q[bh][i] . k[bh][j]; 4 warps, 32 x 32
__global__ void scores_kernel(const half* q, const half* k, half* scores, int seq, int dim, float scale) {
  __shared__ __align__(32) float out[32][32];
  const int warp = threadIdx.x / 32, r = warp / 2 * 16, c = warp % 2 * 16;
  q += (size_t)blockIdx.z * seq * dim;
  k += (size_t)blockIdx.z * seq * dim;
  scores += (size_t)blockIdx.z * seq * seq;
  const int i0 = blockIdx.y * 32, j0 = blockIdx.x * 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.f);
  for (int d = 0; d < dim; d += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::load_matrix_sync(a, q + (i0 + r) * dim + d, dim);
    wmma::load_matrix_sync(b, k + (j0 + c) * dim + d, dim);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(&out[r][c], acc, 32, wmma::mem_row_major);
  __syncthreads();
  for (int e = threadIdx.x; e < 1024; e += blockDim.x)
    scores[(i0 + e / 32) * seq + j0 + e % 32] = __float2half(out[e / 32][e % 32] * scale);
}

// a warp per row, in place
__global__ void softmax_inplace_kernel(half* scores, int rows, int cols) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  half* s = scores + (size_t)row * cols;
  float m = -INFINITY, sum = 0.f;
  for (int j = lane; j < cols; j += 32) m = fmaxf(m, __half2float(s[j]));
  for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
  for (int j = lane; j < cols; j += 32) sum += __expf(__half2float(s[j]) - m);
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  for (int j = lane; j < cols; j += 32) s[j] = __float2half(__expf(__half2float(s[j]) - m) / sum);
}

__global__ void context_kernel(const half* probs, const half* v, half* o, int seq, int dim) {
  __shared__ __align__(32) float out[16][16];
  probs += (size_t)blockIdx.z * seq * seq;
  v += (size_t)blockIdx.z * seq * dim;
  o += (size_t)blockIdx.z * seq * dim;
  const int i0 = blockIdx.y * 16, d0 = blockIdx.x * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.f);
  for (int j = 0; j < seq; j += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::load_matrix_sync(a, probs + i0 * seq + j, seq);
    wmma::load_matrix_sync(b, v + j * dim + d0, dim);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(&out[0][0], acc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int e = threadIdx.x; e < 256; e += 32) o[(i0 + e / 16) * dim + d0 + e % 16] = __float2half(out[e / 16][e % 16]);
}

torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
  CHECK_INPUT(q);
  CHECK_INPUT(k);
  CHECK_INPUT(v);
  const int bh = q.size(0) * q.size(1), seq = q.size(2), dim = q.size(3);
  auto scores = torch::empty({q.size(0), q.size(1), seq, seq}, q.options());
  auto out = torch::empty_like(q);
  auto* s = reinterpret_cast<half*>(scores.data_ptr<at::Half>());
  scores_kernel<<<dim3(seq / 32, seq / 32, bh), 128>>>((half*)q.data_ptr(), (half*)k.data_ptr(), s, seq, dim,
                                                       1.0f / sqrtf((float)dim));
  softmax_inplace_kernel<<<(bh * seq + 3) / 4, 128>>>(s, bh * seq, seq);
  context_kernel<<<dim3(dim / 16, seq / 16, bh), 32>>>(s, (half*)v.data_ptr(), (half*)out.data_ptr(), seq, dim);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &attention); }
