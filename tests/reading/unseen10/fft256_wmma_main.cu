// Batched 256-point complex FFT with WMMA: 256 = 16 x 16, two radix-16 DFTs (matrix products) and a twiddle in between.
// Real and imaginary parts are kept in separate planes ("planar" layout), half precision in and out.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <cmath>
#include <complex>
#include <cstdio>
#include <random>
#include <vector>

using namespace nvcuda;

#define checkCuda(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char* file, int line) {
  if (code != cudaSuccess) {
    fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
    exit(code);
  }
}

using frag_a = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
using frag_b = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major>;
using frag_c = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

// (cr, ci) = (ar, ai) * (br, bi), complex 16x16x16
__device__ __forceinline__ void complex_mma(frag_c& cr, frag_c& ci, frag_a& ar, frag_a& ai, frag_b& br, frag_b& bi) {
  frag_a ai_neg;
#pragma unroll
  for (int i = 0; i < ai.num_elements; ++i) ai_neg.x[i] = __hneg(ai.x[i]);
  wmma::fill_fragment(cr, 0.f);
  wmma::fill_fragment(ci, 0.f);
  wmma::mma_sync(cr, ar, br, cr);
  wmma::mma_sync(cr, ai_neg, bi, cr);
  wmma::mma_sync(ci, ar, bi, ci);
  wmma::mma_sync(ci, ai, br, ci);
}

// One warp per transform. x[n1 * 16 + n2] ; F16 * X -> twiddle -> * F16, result X[k1 + 16 * k2] at [k1][k2]
__global__ void fft256_kernel(const half* __restrict__ in_re, const half* __restrict__ in_im, half* __restrict__ out_re,
                              half* __restrict__ out_im, const half* __restrict__ f_re, const half* __restrict__ f_im,
                              const float2* __restrict__ twiddle, int batch) {
  __shared__ float t_re[4][256], t_im[4][256];
  __shared__ __align__(32) half h_re[4][256], h_im[4][256];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int b = blockIdx.x * 4 + warp;
  if (b >= batch) return;

  frag_a fa_re, fa_im;
  frag_b fb_re, fb_im;
  frag_c c_re, c_im;
  wmma::load_matrix_sync(fa_re, f_re, 16);
  wmma::load_matrix_sync(fa_im, f_im, 16);
  wmma::load_matrix_sync(fb_re, in_re + b * 256, 16);
  wmma::load_matrix_sync(fb_im, in_im + b * 256, 16);
  complex_mma(c_re, c_im, fa_re, fa_im, fb_re, fb_im);
  wmma::store_matrix_sync(t_re[warp], c_re, 16, wmma::mem_row_major);
  wmma::store_matrix_sync(t_im[warp], c_im, 16, wmma::mem_row_major);
  __syncwarp();

  for (int i = lane; i < 256; i += 32) {
    const float2 w = twiddle[i];
    const float re = t_re[warp][i], im = t_im[warp][i];
    h_re[warp][i] = __float2half(re * w.x - im * w.y);
    h_im[warp][i] = __float2half(re * w.y + im * w.x);
  }
  __syncwarp();

  wmma::load_matrix_sync(fa_re, h_re[warp], 16);
  wmma::load_matrix_sync(fa_im, h_im[warp], 16);
  wmma::load_matrix_sync(fb_re, f_re, 16);
  wmma::load_matrix_sync(fb_im, f_im, 16);
  complex_mma(c_re, c_im, fa_re, fa_im, fb_re, fb_im);
  wmma::store_matrix_sync(t_re[warp], c_re, 16, wmma::mem_row_major);
  wmma::store_matrix_sync(t_im[warp], c_im, 16, wmma::mem_row_major);
  __syncwarp();

  for (int i = lane; i < 256; i += 32) {
    const int k1 = i / 16, k2 = i % 16;
    out_re[b * 256 + k1 + 16 * k2] = __float2half(t_re[warp][i]);
    out_im[b * 256 + k1 + 16 * k2] = __float2half(t_im[warp][i]);
  }
}

int main() {
  const int batch = 10;
  const double pi = std::acos(-1.0);
  std::mt19937 gen(123);
  std::uniform_real_distribution<float> dist(-0.5f, 0.5f);

  std::vector<half> h_re(batch * 256), h_im(batch * 256), f_re(256), f_im(256);
  std::vector<float2> tw(256);
  for (size_t i = 0; i < h_re.size(); ++i) {
    h_re[i] = __float2half(dist(gen));
    h_im[i] = __float2half(dist(gen));
  }
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 16; ++c) {
      f_re[r * 16 + c] = __float2half((float)std::cos(-2 * pi * r * c / 16));
      f_im[r * 16 + c] = __float2half((float)std::sin(-2 * pi * r * c / 16));
      tw[r * 16 + c] = make_float2((float)std::cos(-2 * pi * r * c / 256), (float)std::sin(-2 * pi * r * c / 256));
    }

  half *d_re, *d_im, *o_re, *o_im, *d_fr, *d_fi;
  float2* d_tw;
  const size_t bytes = batch * 256 * sizeof(half);
  checkCuda(cudaMalloc(&d_re, bytes));
  checkCuda(cudaMalloc(&d_im, bytes));
  checkCuda(cudaMalloc(&o_re, bytes));
  checkCuda(cudaMalloc(&o_im, bytes));
  checkCuda(cudaMalloc(&d_fr, 256 * sizeof(half)));
  checkCuda(cudaMalloc(&d_fi, 256 * sizeof(half)));
  checkCuda(cudaMalloc(&d_tw, 256 * sizeof(float2)));
  checkCuda(cudaMemcpy(d_re, h_re.data(), bytes, cudaMemcpyHostToDevice));
  checkCuda(cudaMemcpy(d_im, h_im.data(), bytes, cudaMemcpyHostToDevice));
  checkCuda(cudaMemcpy(d_fr, f_re.data(), 256 * sizeof(half), cudaMemcpyHostToDevice));
  checkCuda(cudaMemcpy(d_fi, f_im.data(), 256 * sizeof(half), cudaMemcpyHostToDevice));
  checkCuda(cudaMemcpy(d_tw, tw.data(), 256 * sizeof(float2), cudaMemcpyHostToDevice));

  fft256_kernel<<<(batch + 3) / 4, 128>>>(d_re, d_im, o_re, o_im, d_fr, d_fi, d_tw, batch);
  checkCuda(cudaGetLastError());
  checkCuda(cudaDeviceSynchronize());

  std::vector<half> r_re(batch * 256), r_im(batch * 256);
  checkCuda(cudaMemcpy(r_re.data(), o_re, bytes, cudaMemcpyDeviceToHost));
  checkCuda(cudaMemcpy(r_im.data(), o_im, bytes, cudaMemcpyDeviceToHost));

  double worst = 0;
  for (int b = 0; b < batch; ++b)
    for (int k = 0; k < 256; ++k) {
      std::complex<double> sum = 0;
      for (int n = 0; n < 256; ++n)
        sum += std::complex<double>(__half2float(h_re[b * 256 + n]), __half2float(h_im[b * 256 + n])) *
               std::polar(1.0, -2 * pi * k * n / 256);
      worst = std::max(worst, std::abs(sum - std::complex<double>(__half2float(r_re[b * 256 + k]), __half2float(r_im[b * 256 + k]))));
    }
  printf("max abs error: %g\n", worst);
  if (worst > 0.05) {
    printf("TEST FAILED\n");
    return EXIT_FAILURE;
  }
  printf("TEST PASSED\n");
  return EXIT_SUCCESS;
}
