// Implicit GEMM convolution, NHWC activations, KRSC filters, fp16 with fp32
// accumulation.
//
//   GEMM M = N * P * Q   (output pixels)
//   GEMM N = K           (output channels)
//   GEMM K = R * S * C   (filter taps x input channels)
//
// The im2col matrix never exists: every row of the A tile is gathered on the fly.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

struct ConvProblem {
  int N, H, W, C;
  int K, R, S;
  int pad_h, pad_w;
  int stride_h, stride_w;

  __host__ __device__ int P() const { return (H + 2 * pad_h - R) / stride_h + 1; }
  __host__ __device__ int Q() const { return (W + 2 * pad_w - S) / stride_w + 1; }
};

constexpr int kTileM = 64;
constexpr int kTileN = 32;
constexpr int kTileK = 32;

using nvcuda::wmma::accumulator;
using nvcuda::wmma::col_major;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::row_major;

__global__ void conv2d_fprop_nhwc(ConvProblem p, const half* __restrict__ x, const half* __restrict__ w,
                                  half* __restrict__ y) {
  __shared__ __align__(32) half sA[kTileM][kTileK + 8];
  __shared__ __align__(32) half sB[kTileN][kTileK + 8];
  __shared__ __align__(32) float sC[kTileM][kTileN + 4];

  const int P = p.P(), Q = p.Q();
  const int gemm_m = p.N * P * Q;
  const int gemm_k = p.R * p.S * p.C;
  const int m0 = blockIdx.x * kTileM;
  const int n0 = blockIdx.y * kTileN;
  const int warp = threadIdx.x >> 5;

  // Each thread gathers for one fixed output pixel: 128 threads, 64 rows, two
  // threads per row.
  const int a_row = threadIdx.x >> 1;
  const int a_col0 = (threadIdx.x & 1) * (kTileK / 2);
  const int pixel = m0 + a_row;
  const int img = pixel / (P * Q);
  const int oy = (pixel / Q) % P;
  const int ox = pixel % Q;
  const int iy0 = oy * p.stride_h - p.pad_h;
  const int ix0 = ox * p.stride_w - p.pad_w;

  fragment<accumulator, 16, 16, 16, float> acc[2];
  nvcuda::wmma::fill_fragment(acc[0], 0.0f);
  nvcuda::wmma::fill_fragment(acc[1], 0.0f);

  for (int k0 = 0; k0 < gemm_k; k0 += kTileK) {
    for (int j = 0; j < kTileK / 2; ++j) {
      const int kk = k0 + a_col0 + j;
      half v = __float2half(0.0f);
      if (pixel < gemm_m && kk < gemm_k) {
        const int c = kk % p.C;
        const int rs = kk / p.C;
        const int iy = iy0 + rs / p.S;
        const int ix = ix0 + rs % p.S;
        if (iy >= 0 && iy < p.H && ix >= 0 && ix < p.W) v = x[((img * p.H + iy) * p.W + ix) * p.C + c];
      }
      sA[a_row][a_col0 + j] = v;
    }
    for (int i = threadIdx.x; i < kTileN * kTileK; i += blockDim.x) {
      const int n = i / kTileK, kk = i % kTileK;
      sB[n][kk] = (n0 + n < p.K && k0 + kk < gemm_k) ? w[(n0 + n) * gemm_k + k0 + kk] : __float2half(0.0f);
    }
    __syncthreads();
    for (int kk = 0; kk < kTileK; kk += 16) {
      fragment<matrix_a, 16, 16, 16, half, row_major> a;
      nvcuda::wmma::load_matrix_sync(a, &sA[warp * 16][kk], kTileK + 8);
      for (int j = 0; j < 2; ++j) {
        fragment<matrix_b, 16, 16, 16, half, col_major> b;
        nvcuda::wmma::load_matrix_sync(b, &sB[j * 16][kk], kTileK + 8);
        nvcuda::wmma::mma_sync(acc[j], a, b, acc[j]);
      }
    }
    __syncthreads();
  }

  for (int j = 0; j < 2; ++j)
    nvcuda::wmma::store_matrix_sync(&sC[warp * 16][j * 16], acc[j], kTileN + 4, nvcuda::wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < kTileM * kTileN; i += blockDim.x) {
    const int m = m0 + i / kTileN, n = n0 + i % kTileN;
    if (m < gemm_m && n < p.K) y[m * p.K + n] = __float2half(sC[i / kTileN][i % kTileN]);
  }
}

static void conv_cpu(const ConvProblem& p, const std::vector<float>& x, const std::vector<float>& w,
                     std::vector<float>& y) {
  for (int n = 0; n < p.N; ++n)
    for (int oy = 0; oy < p.P(); ++oy)
      for (int ox = 0; ox < p.Q(); ++ox)
        for (int k = 0; k < p.K; ++k) {
          float s = 0;
          for (int r = 0; r < p.R; ++r)
            for (int q = 0; q < p.S; ++q) {
              int iy = oy * p.stride_h - p.pad_h + r, ix = ox * p.stride_w - p.pad_w + q;
              if (iy < 0 || iy >= p.H || ix < 0 || ix >= p.W) continue;
              for (int c = 0; c < p.C; ++c)
                s += x[((n * p.H + iy) * p.W + ix) * p.C + c] * w[((k * p.R + r) * p.S + q) * p.C + c];
            }
          y[((n * p.P() + oy) * p.Q() + ox) * p.K + k] = s;
        }
}

int main() {
  ConvProblem prob{2, 14, 14, 32, 64, 3, 3, 1, 1, 1, 1};
  const size_t nx = (size_t)prob.N * prob.H * prob.W * prob.C;
  const size_t nw = (size_t)prob.K * prob.R * prob.S * prob.C;
  const size_t ny = (size_t)prob.N * prob.P() * prob.Q() * prob.K;
  std::vector<float> x(nx), w(nw), y(ny);
  std::vector<half> hx(nx), hw(nw), hy(ny);
  for (size_t i = 0; i < nx; ++i) x[i] = __half2float(hx[i] = __float2half((rand() % 200 - 100) * 0.01f));
  for (size_t i = 0; i < nw; ++i) w[i] = __half2float(hw[i] = __float2half((rand() % 200 - 100) * 0.01f));
  half *dx, *dw, *dy;
  cudaMalloc(&dx, nx * sizeof(half));
  cudaMalloc(&dw, nw * sizeof(half));
  cudaMalloc(&dy, ny * sizeof(half));
  cudaMemcpy(dx, hx.data(), nx * sizeof(half), cudaMemcpyHostToDevice);
  cudaMemcpy(dw, hw.data(), nw * sizeof(half), cudaMemcpyHostToDevice);
  const int gemm_m = prob.N * prob.P() * prob.Q();
  dim3 grid((gemm_m + kTileM - 1) / kTileM, (prob.K + kTileN - 1) / kTileN);
  conv2d_fprop_nhwc<<<grid, 128>>>(prob, dx, dw, dy);
  cudaMemcpy(hy.data(), dy, ny * sizeof(half), cudaMemcpyDeviceToHost);
  conv_cpu(prob, x, w, y);
  float worst = 0;
  for (size_t i = 0; i < ny; ++i) worst = std::max(worst, std::abs(__half2float(hy[i]) - y[i]));
  printf("max abs err %f\n", worst);
  return worst < 0.1f ? 0 : 1;
}
