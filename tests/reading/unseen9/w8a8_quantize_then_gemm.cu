#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

// activations are quantised row by row, then multiplied with int8 weights; weights have one scale per output feature
__global__ void quantize_rows_kernel(const half* x, int8_t* q, float* scale, int k) {
  const int row = blockIdx.x;
  __shared__ float red[8];
  float m = 0.f;
  for (int i = threadIdx.x; i < k; i += blockDim.x) m = fmaxf(m, fabsf(__half2float(x[(size_t)row * k + i])));
  for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
  if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = m;
  __syncthreads();
  m = red[0];
  for (int w = 1; w < blockDim.x / 32; ++w) m = fmaxf(m, red[w]);
  const float s = m / 127.f;
  if (threadIdx.x == 0) scale[row] = s;
  for (int i = threadIdx.x; i < k; i += blockDim.x) {
    const float v = __half2float(x[(size_t)row * k + i]) / s;
    q[(size_t)row * k + i] = (int8_t)max(-127, min(127, __float2int_rn(v)));
  }
}

__global__ void int8_gemm_dequant_kernel(const int8_t* a, const int8_t* w, const float* a_scale, const float* w_scale,
                                         half* y, int m, int n, int k) {
  using namespace nvcuda::wmma;
  __shared__ __align__(32) int out[16][16];
  const int r = blockIdx.y * 16, c = blockIdx.x * 16;
  fragment<accumulator, 16, 16, 16, int> acc;
  fill_fragment(acc, 0);
  for (int i = 0; i < k; i += 16) {
    fragment<matrix_a, 16, 16, 16, signed char, row_major> fa;
    fragment<matrix_b, 16, 16, 16, signed char, col_major> fw;
    load_matrix_sync(fa, a + (size_t)r * k + i, k);
    load_matrix_sync(fw, w + (size_t)c * k + i, k);
    mma_sync(acc, fa, fw, acc);
  }
  store_matrix_sync(&out[0][0], acc, 16, mem_row_major);
  __syncwarp();
  for (int e = threadIdx.x; e < 256; e += 32)
    y[(size_t)(r + e / 16) * n + c + e % 16] =
        __float2half((float)out[e / 16][e % 16] * a_scale[r + e / 16] * w_scale[c + e % 16]);
}

void w8a8_linear(const half* x, const int8_t* w, const float* w_scale, half* y, int8_t* xq, float* x_scale, int m, int n,
                 int k, cudaStream_t stream) {
  quantize_rows_kernel<<<m, 256, 0, stream>>>(x, xq, x_scale, k);
  int8_gemm_dequant_kernel<<<dim3(n / 16, m / 16), 32, 0, stream>>>(xq, w, x_scale, w_scale, y, m, n, k);
}
