#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

// Convolution as im2col followed by a tensor-core GEMM, image by image in one launch each.
//   input [N, C, H, W], weight [K, C, R, S], bias [K], output [N, K, P, Q], col [N, C * R * S, P * Q] (padded to 16)

__global__ void im2col_kernel(const half* input, half* col, int C, int H, int W, int R, int S, int P, int Q, int pad,
                              int stride, int rows_padded, int cols_padded) {
  const int n = blockIdx.y;
  const int total = rows_padded * cols_padded;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
    const int row = i / cols_padded, pix = i % cols_padded;
    half v = __float2half(0.f);
    if (row < C * R * S && pix < P * Q) {
      const int c = row / (R * S), r = row / S % R, s = row % S;
      const int y = pix / Q * stride - pad + r, x = pix % Q * stride - pad + s;
      if (y >= 0 && y < H && x >= 0 && x < W) v = input[((n * C + c) * H + y) * W + x];
    }
    col[(size_t)n * total + i] = v;
  }
}

__global__ void conv_gemm_kernel(const half* weight, const half* col, const half* bias, half* output, int K, int CRS,
                                 int PQ, int rows_padded, int cols_padded) {
  using namespace nvcuda::wmma;
  __shared__ __align__(32) half w[16][16];
  __shared__ __align__(32) float out[16][16];
  const int k0 = blockIdx.y * 16, p0 = blockIdx.x * 16, n = blockIdx.z;
  const half* image = col + (size_t)n * rows_padded * cols_padded;
  fragment<accumulator, 16, 16, 16, float> acc;
  fill_fragment(acc, 0.f);
  for (int e0 = 0; e0 < rows_padded; e0 += 16) {
    for (int i = threadIdx.x; i < 256; i += 32) {
      const int k = k0 + i / 16, e = e0 + i % 16;
      w[i / 16][i % 16] = k < K && e < CRS ? weight[k * CRS + e] : __float2half(0.f);
    }
    __syncwarp();
    fragment<matrix_a, 16, 16, 16, half, row_major> a;
    fragment<matrix_b, 16, 16, 16, half, row_major> b;
    load_matrix_sync(a, &w[0][0], 16);
    load_matrix_sync(b, image + e0 * cols_padded + p0, cols_padded);
    mma_sync(acc, a, b, acc);
    __syncwarp();
  }
  store_matrix_sync(&out[0][0], acc, 16, mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) {
    const int k = k0 + i / 16, p = p0 + i % 16;
    if (k < K && p < PQ) output[((size_t)n * K + k) * PQ + p] = __float2half(out[i / 16][i % 16] + __half2float(bias[k]));
  }
}

void conv2d_forward(const half* input, const half* weight, const half* bias, half* output, half* col, int N, int C, int H,
                    int W, int K, int R, int S, int pad, int stride) {
  const int P = (H + 2 * pad - R) / stride + 1, Q = (W + 2 * pad - S) / stride + 1;
  const int rows_padded = (C * R * S + 15) / 16 * 16, cols_padded = (P * Q + 15) / 16 * 16;
  im2col_kernel<<<dim3(32, N), 256>>>(input, col, C, H, W, R, S, P, Q, pad, stride, rows_padded, cols_padded);
  conv_gemm_kernel<<<dim3(cols_padded / 16, (K + 15) / 16, N), 32>>>(weight, col, bias, output, K, C * R * S, P * Q,
                                                                     rows_padded, cols_padded);
}
