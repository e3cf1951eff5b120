// Implicit GEMM convolution on tensor cores (forward, NHWC, fp16).
//
//   input  [N, H, W, C]      filter [K, R, S, C]      output [N, P, Q, K]
//
// seen as a GEMM:   M = N*P*Q,   N = K,   reduction = R*S*C
// The im2col matrix is never written, its rows are gathered while filling shared memory.
// bias + ReLU are fused. C has to be a multiple of 8, so that 8 neighbours of the
// reduction always share one filter tap (r, s). The rest is free.
//
// g++-style usage: nvcc -O3 -std=c++14 -arch=sm_75 conv2d_implicit_gemm.cu -o conv && ./conv

#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

#define CUDA_CALL(x)                                                               \
  do {                                                                             \
    cudaError_t rc = (x);                                                          \
    if (rc != cudaSuccess) {                                                       \
      fprintf(stderr, "%s failed: %s\n", #x, cudaGetErrorString(rc));              \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)

struct ConvShape {
  int n, h, w, c;      // input
  int k, r, s;         // filter
  int pad, stride;
  int p, q;            // output height and width
};

static ConvShape make_shape(int n, int h, int w, int c, int k, int r, int s, int pad, int stride) {
  ConvShape cs = {n, h, w, c, k, r, s, pad, stride, 0, 0};
  cs.p = (h + 2 * pad - r) / stride + 1;
  cs.q = (w + 2 * pad - s) / stride + 1;
  return cs;
}

const int TILE_M = 64;    // output pixels
const int TILE_N = 64;    // output channels
const int TILE_K = 32;
const int SKEW = 8;
const int LD = TILE_K + SKEW;
const int LD_OUT = TILE_N + 4;
const int NUM_THREADS = 128;

__global__ void conv2d_wmma(const half* __restrict__ in, const half* __restrict__ filt,
                            const float* __restrict__ bias, half* __restrict__ out,
                            ConvShape cs) {
  __shared__ __align__(32) half s_in[TILE_M * LD];
  __shared__ __align__(32) half s_filt[TILE_N * LD];
  __shared__ __align__(32) float s_out[TILE_M * LD_OUT];

  const int gemm_m = cs.n * cs.p * cs.q;
  const int gemm_k = cs.r * cs.s * cs.c;
  const int m0 = blockIdx.x * TILE_M;
  const int n0 = blockIdx.y * TILE_N;
  const int tid = threadIdx.x;
  const int warp_m = (tid / 32) % 2 * 32;
  const int warp_n = (tid / 64) * 32;

  // Thread t always fills the rows t / 4 and t / 4 + 32 of the tiles, chunk t % 4.
  // The pixel coordinates of these rows do not change over the main loop.
  const int chunk = (tid % 4) * 8;
  int img[2], y0[2], x0[2];
  for (int i = 0; i < 2; ++i) {
    int m = m0 + tid / 4 + i * 32;
    if (m < gemm_m) {
      img[i] = m / (cs.p * cs.q);
      int pq = m % (cs.p * cs.q);
      y0[i] = pq / cs.q * cs.stride - cs.pad;
      x0[i] = pq % cs.q * cs.stride - cs.pad;
    } else {
      img[i] = -1;
      y0[i] = x0[i] = 0;
    }
  }

  fragment<accumulator, 16, 16, 16, float> acc[2][2];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) fill_fragment(acc[i][j], 0.0f);

  for (int k0 = 0; k0 < gemm_k; k0 += TILE_K) {
    const int kk = k0 + chunk;
    // kk -> (r, s, c)
    const int c = kk % cs.c;
    const int rs = kk / cs.c;
    const int fs = rs % cs.s;
    const int fr = rs / cs.s;

    for (int i = 0; i < 2; ++i) {
      const int row = tid / 4 + i * 32;
      uint4 v = make_uint4(0, 0, 0, 0);
      const int y = y0[i] + fr;
      const int x = x0[i] + fs;
      if (img[i] >= 0 && kk < gemm_k && y >= 0 && y < cs.h && x >= 0 && x < cs.w)
        v = *(const uint4*)&in[(((size_t)img[i] * cs.h + y) * cs.w + x) * cs.c + c];
      *(uint4*)&s_in[row * LD + chunk] = v;

      uint4 f = make_uint4(0, 0, 0, 0);
      if (n0 + row < cs.k && kk < gemm_k)
        f = *(const uint4*)&filt[(size_t)(n0 + row) * gemm_k + kk];
      *(uint4*)&s_filt[row * LD + chunk] = f;
    }
    __syncthreads();

    for (int ks = 0; ks < TILE_K; ks += 16) {
      fragment<matrix_a, 16, 16, 16, half, row_major> a[2];
      fragment<matrix_b, 16, 16, 16, half, col_major> b[2];
      for (int i = 0; i < 2; ++i) {
        load_matrix_sync(a[i], s_in + (warp_m + i * 16) * LD + ks, LD);
        load_matrix_sync(b[i], s_filt + (warp_n + i * 16) * LD + ks, LD);
      }
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
    __syncthreads();
  }

  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      store_matrix_sync(s_out + (warp_m + i * 16) * LD_OUT + warp_n + j * 16, acc[i][j], LD_OUT,
                        mem_row_major);
  __syncthreads();

  // The output is [N*P*Q, K], so a gemm row is one pixel with all of its channels.
  for (int e = tid; e < TILE_M * TILE_N; e += NUM_THREADS) {
    const int r = e / TILE_N;
    const int n = e % TILE_N;
    if (m0 + r < gemm_m && n0 + n < cs.k) {
      float val = s_out[r * LD_OUT + n] + bias[n0 + n];
      out[(size_t)(m0 + r) * cs.k + n0 + n] = __float2half(fmaxf(val, 0.0f));
    }
  }
}

static void conv2d_cpu(const std::vector<half>& in, const std::vector<half>& filt,
                       const std::vector<float>& bias, std::vector<float>& out,
                       const ConvShape& cs) {
  for (int n = 0; n < cs.n; ++n)
    for (int p = 0; p < cs.p; ++p)
      for (int q = 0; q < cs.q; ++q)
        for (int k = 0; k < cs.k; ++k) {
          float sum = bias[k];
          for (int r = 0; r < cs.r; ++r)
            for (int s = 0; s < cs.s; ++s) {
              int y = p * cs.stride - cs.pad + r;
              int x = q * cs.stride - cs.pad + s;
              if (y < 0 || y >= cs.h || x < 0 || x >= cs.w) continue;
              const half* ip = &in[(((size_t)n * cs.h + y) * cs.w + x) * cs.c];
              const half* fp = &filt[(((size_t)k * cs.r + r) * cs.s + s) * cs.c];
              for (int c = 0; c < cs.c; ++c) sum += __half2float(ip[c]) * __half2float(fp[c]);
            }
          out[(((size_t)n * cs.p + p) * cs.q + q) * cs.k + k] = sum > 0.0f ? sum : 0.0f;
        }
}

static float frand() { return 2.0f * rand() / (float)RAND_MAX - 1.0f; }

static bool run(const ConvShape& cs) {
  size_t in_count = (size_t)cs.n * cs.h * cs.w * cs.c;
  size_t f_count = (size_t)cs.k * cs.r * cs.s * cs.c;
  size_t out_count = (size_t)cs.n * cs.p * cs.q * cs.k;
  std::vector<half> in(in_count), filt(f_count), out(out_count);
  std::vector<float> bias(cs.k), ref(out_count);
  for (auto& v : in) v = __float2half(frand());
  for (auto& v : filt) v = __float2half(frand() * 0.1f);
  for (auto& v : bias) v = frand();

  half *d_in, *d_filt, *d_out;
  float* d_bias;
  CUDA_CALL(cudaMalloc((void**)&d_in, in_count * sizeof(half)));
  CUDA_CALL(cudaMalloc((void**)&d_filt, f_count * sizeof(half)));
  CUDA_CALL(cudaMalloc((void**)&d_out, out_count * sizeof(half)));
  CUDA_CALL(cudaMalloc((void**)&d_bias, cs.k * sizeof(float)));
  CUDA_CALL(cudaMemcpy(d_in, in.data(), in_count * sizeof(half), cudaMemcpyHostToDevice));
  CUDA_CALL(cudaMemcpy(d_filt, filt.data(), f_count * sizeof(half), cudaMemcpyHostToDevice));
  CUDA_CALL(cudaMemcpy(d_bias, bias.data(), cs.k * sizeof(float), cudaMemcpyHostToDevice));

  int gemm_m = cs.n * cs.p * cs.q;
  dim3 grid((gemm_m + TILE_M - 1) / TILE_M, (cs.k + TILE_N - 1) / TILE_N);
  conv2d_wmma<<<grid, NUM_THREADS>>>(d_in, d_filt, d_bias, d_out, cs);
  CUDA_CALL(cudaGetLastError());
  CUDA_CALL(cudaDeviceSynchronize());
  CUDA_CALL(cudaMemcpy(out.data(), d_out, out_count * sizeof(half), cudaMemcpyDeviceToHost));

  conv2d_cpu(in, filt, bias, ref, cs);
  double max_err = 0.0;
  for (size_t i = 0; i < out_count; ++i)
    max_err = std::fmax(max_err, std::fabs(__half2float(out[i]) - ref[i]) / (1.0 + std::fabs(ref[i])));
  bool ok = max_err < 2e-3;
  printf("[%d,%d,%d,%d] * [%d,%d,%d,%d] pad %d stride %d -> max err %.2e %s\n", cs.n, cs.h, cs.w,
         cs.c, cs.k, cs.r, cs.s, cs.c, cs.pad, cs.stride, max_err, ok ? "passed" : "FAILED");

  cudaFree(d_in);
  cudaFree(d_filt);
  cudaFree(d_out);
  cudaFree(d_bias);
  return ok;
}

int main() {
  srand(7);
  bool ok = true;
  ok = run(make_shape(2, 16, 16, 64, 64, 3, 3, 1, 1)) && ok;
  ok = run(make_shape(1, 15, 17, 24, 80, 3, 3, 1, 2)) && ok;
  ok = run(make_shape(3, 14, 14, 128, 96, 1, 1, 0, 1)) && ok;
  ok = run(make_shape(1, 28, 28, 8, 32, 5, 5, 2, 1)) && ok;
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
