// Implicit GEMM 2D convolution (forward) with tensor cores, NCHW.
//
//   GEMM M = K (output channels)       A = filter, K x (C*R*S), as it lies in memory
//   GEMM N = N*P*Q (output pixels)     B = im2col of the input, built in shared memory on the fly
//   GEMM K = C*R*S
//
// Build: nvcc -arch=sm_70 conv2d_implicit_gemm.cu -o conv
#include <cuda_fp16.h>
#include <mma.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace nvcuda;

struct ConvShape {
  int n, c, h, w;    // input
  int k, r, s;       // filter
  int u, v;          // stride
  int pad_h, pad_w;  // padding
  int p() const { return (h + 2 * pad_h - r) / u + 1; }
  int q() const { return (w + 2 * pad_w - s) / v + 1; }
};

#define TILE_K 32    // output channels of a block
#define TILE_PQ 64   // output pixels of a block
#define TILE_CRS 16
#define NTHREADS 128

__global__ void implgemm(const half *__restrict__ x, const half *__restrict__ w, const float *__restrict__ bias,
                         float *__restrict__ y, ConvShape sh, int P, int Q) {
  __shared__ __align__(32) half s_w[TILE_K][TILE_CRS];
  __shared__ __align__(32) half s_x[TILE_CRS][TILE_PQ];
  __shared__ __align__(32) float s_y[TILE_K][TILE_PQ];

  const int tid = threadIdx.x;
  const int warp = tid / 32;
  const int crs = sh.c * sh.r * sh.s;
  const int rs = sh.r * sh.s;
  const int npq = sh.n * P * Q;
  const int k_base = blockIdx.y * TILE_K;
  const int pq_base = blockIdx.x * TILE_PQ;

  // Each thread gathers one output pixel's column, so its coordinates are computed only once.
  const int my_col = tid % TILE_PQ;
  const int pixel = pq_base + my_col;
  const int img = pixel / (P * Q);
  const int pos_h = (pixel % (P * Q)) / Q * sh.u - sh.pad_h;
  const int pos_w = (pixel % Q) * sh.v - sh.pad_w;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[TILE_K / 16];
  for (int i = 0; i < TILE_K / 16; i++) wmma::fill_fragment(acc[i], 0.0f);

  for (int crs0 = 0; crs0 < crs; crs0 += TILE_CRS) {
    for (int i = tid; i < TILE_K * TILE_CRS; i += NTHREADS) {
      int kk = i / TILE_CRS, e = i % TILE_CRS;
      s_w[kk][e] = (k_base + kk < sh.k && crs0 + e < crs) ? w[(k_base + kk) * crs + crs0 + e] : __float2half(0.f);
    }
    for (int e = tid / TILE_PQ; e < TILE_CRS; e += NTHREADS / TILE_PQ) {
      int idx = crs0 + e;
      int cur_c = idx / rs;
      int cur_r = (idx % rs) / sh.s;
      int cur_s = idx % sh.s;
      int cur_h = pos_h + cur_r;
      int cur_w = pos_w + cur_s;
      half val = __float2half(0.f);
      if (pixel < npq && idx < crs && cur_h >= 0 && cur_w >= 0 && cur_h < sh.h && cur_w < sh.w)
        val = x[((img * sh.c + cur_c) * sh.h + cur_h) * sh.w + cur_w];
      s_x[e][my_col] = val;
    }
    __syncthreads();

    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_frag;
    wmma::load_matrix_sync(b_frag, &s_x[0][warp * 16], TILE_PQ);
    for (int i = 0; i < TILE_K / 16; i++) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
      wmma::load_matrix_sync(a_frag, &s_w[i * 16][0], TILE_CRS);
      wmma::mma_sync(acc[i], a_frag, b_frag, acc[i]);
    }
    __syncthreads();
  }

  for (int i = 0; i < TILE_K / 16; i++)
    wmma::store_matrix_sync(&s_y[i * 16][warp * 16], acc[i], TILE_PQ, wmma::mem_row_major);
  __syncthreads();

  for (int kk = tid / TILE_PQ; kk < TILE_K; kk += NTHREADS / TILE_PQ) {
    int out_c = k_base + kk;
    if (out_c < sh.k && pixel < npq)
      y[(img * sh.k + out_c) * P * Q + pixel % (P * Q)] = s_y[kk][my_col] + bias[out_c];
  }
}

void launch_implgemm(const half *x, const half *w, const float *bias, float *y, const ConvShape &sh) {
  int P = sh.p(), Q = sh.q();
  dim3 grid((sh.n * P * Q + TILE_PQ - 1) / TILE_PQ, (sh.k + TILE_K - 1) / TILE_K);
  implgemm<<<grid, NTHREADS>>>(x, w, bias, y, sh, P, Q);
}

static void direct_conv2d_cpu(const half *x, const half *w, const float *bias, float *y, const ConvShape &sh) {
  int P = sh.p(), Q = sh.q();
  for (int n = 0; n < sh.n; n++)
    for (int k = 0; k < sh.k; k++)
      for (int p = 0; p < P; p++)
        for (int q = 0; q < Q; q++) {
          float sum = bias[k];
          for (int c = 0; c < sh.c; c++)
            for (int r = 0; r < sh.r; r++)
              for (int s = 0; s < sh.s; s++) {
                int h = p * sh.u - sh.pad_h + r, ww = q * sh.v - sh.pad_w + s;
                if (h < 0 || ww < 0 || h >= sh.h || ww >= sh.w) continue;
                sum += __half2float(x[((n * sh.c + c) * sh.h + h) * sh.w + ww]) *
                       __half2float(w[((k * sh.c + c) * sh.r + r) * sh.s + s]);
              }
          y[((n * sh.k + k) * P + p) * Q + q] = sum;
        }
}

int main(int argc, char **argv) {
  ConvShape sh = {2, 5, 13, 11, 40, 3, 3, 1, 1, 1, 1};
  if (argc == 12) {
    int *f = &sh.n;
    for (int i = 0; i < 11; i++) f[i] = atoi(argv[i + 1]);
  }
  size_t nx = (size_t)sh.n * sh.c * sh.h * sh.w, nw = (size_t)sh.k * sh.c * sh.r * sh.s;
  size_t ny = (size_t)sh.n * sh.k * sh.p() * sh.q();

  half *x = (half *)malloc(nx * sizeof(half)), *w = (half *)malloc(nw * sizeof(half));
  float *bias = (float *)malloc(sh.k * sizeof(float));
  float *y = (float *)malloc(ny * sizeof(float)), *y_ref = (float *)malloc(ny * sizeof(float));
  for (size_t i = 0; i < nx; i++) x[i] = __float2half(rand() / (float)RAND_MAX - 0.5f);
  for (size_t i = 0; i < nw; i++) w[i] = __float2half(rand() / (float)RAND_MAX - 0.5f);
  for (int i = 0; i < sh.k; i++) bias[i] = rand() / (float)RAND_MAX;

  half *dx, *dw;
  float *dbias, *dy;
  cudaMalloc(&dx, nx * sizeof(half));
  cudaMalloc(&dw, nw * sizeof(half));
  cudaMalloc(&dbias, sh.k * sizeof(float));
  cudaMalloc(&dy, ny * sizeof(float));
  cudaMemcpy(dx, x, nx * sizeof(half), cudaMemcpyHostToDevice);
  cudaMemcpy(dw, w, nw * sizeof(half), cudaMemcpyHostToDevice);
  cudaMemcpy(dbias, bias, sh.k * sizeof(float), cudaMemcpyHostToDevice);

  launch_implgemm(dx, dw, dbias, dy, sh);
  cudaMemcpy(y, dy, ny * sizeof(float), cudaMemcpyDeviceToHost);
  printf("launch: %s\n", cudaGetErrorString(cudaGetLastError()));

  direct_conv2d_cpu(x, w, bias, y_ref, sh);
  int errors = 0;
  for (size_t i = 0; i < ny; i++)
    if (!(fabs(y[i] - y_ref[i]) <= 1e-3 * (1.0 + fabs(y_ref[i])))) {
      if (errors++ < 10) printf("y[%zu] = %f, expected %f\n", i, y[i], y_ref[i]);
    }
  printf("%s: %d errors\n", errors ? "FAILED" : "OK", errors);

  cudaFree(dx); cudaFree(dw); cudaFree(dbias); cudaFree(dy);
  free(x); free(w); free(bias); free(y); free(y_ref);
  return errors ? 1 : 0;
}
