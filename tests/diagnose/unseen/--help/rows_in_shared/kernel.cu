// out = P V for whole rows: 16 queries per block of 2 warps, the columns of V split between the warps.
#include <cuda_fp16.h>
#include <mma.h>

__global__ void weigh(const half* P, const half* V, half* out, int rows, int keys, int dim) {
  extern __shared__ float4 storage[];
  half* p = reinterpret_cast<half*>(storage);
  const int kp = keys + 8;
  float* o = reinterpret_cast<float*>(p + 16 * kp);
  const int op = dim + 4;
  const int bh = blockIdx.y, r0 = blockIdx.x * 16;
  P += (size_t)bh * rows * keys;
  V += (size_t)bh * keys * dim;
  out += (size_t)bh * rows * dim;
  for (int i = threadIdx.x; i < 16 * keys; i += blockDim.x) {
    const int r = i / keys, c = i - r * keys;
    p[r * kp + c] = r0 + r < rows ? P[(size_t)(r0 + r) * keys + c] : __float2half(0.f);
  }
  __syncthreads();
  using namespace nvcuda;
  for (int n = (threadIdx.x / 32) * 16; n < dim; n += 32) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);
    for (int j = 0; j < keys; j += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
      wmma::load_matrix_sync(a, p + j, kp);
      wmma::load_matrix_sync(b, V + (size_t)j * dim + n, dim);
      wmma::mma_sync(acc, a, b, acc);
    }
    wmma::store_matrix_sync(o + n, acc, op, wmma::mem_row_major);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 16 * dim; i += blockDim.x) {
    const int r = i / dim, c = i % dim;
    if (r0 + r < rows) out[(size_t)(r0 + r) * dim + c] = __float2half_rn(o[r * op + c]);
  }
}
