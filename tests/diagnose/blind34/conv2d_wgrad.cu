// conv2d backward w.r.t. the filters on tensor cores (WMMA), NHWC, fp16 in, fp32 out.
//
//   dW[k][r][s][c] = 1/loss_scale * sum_{n,p,q} dY[n][p][q][k] * X[n][p*stride + r - pad][q*stride + s - pad][c]
//   dB[k]          = 1/loss_scale * sum_{n,p,q} dY[n][p][q][k]
//
// As a GEMM:  M = K filters, N = R*S*C, reduction over N*P*Q pixels, which is divided among blockIdx.z (atomicAdd).
// C and K have to be multiples of 8.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

#define TM 64
#define TN 64
#define TK 32
#define THREADS 128
#define LDA (TM + 8)
#define LDB (TN + 8)
#define LDC (TN + 4)

struct ConvShape {
  int N, H, W, C;      // input
  int K, R, S;         // filters
  int P, Q;            // output
  int stride, pad;
};

__device__ inline uint4 zero4() { return make_uint4(0, 0, 0, 0); }

// 32 pixels x 64 filters of dY
__device__ void load_dy(half (*As)[LDA], const half* dy, const ConvShape& cs, int pixel0, int pixel_end, int k0) {
  for (int i = threadIdx.x; i < TK * TM / 8; i += THREADS) {
    int r = i / (TM / 8);
    int c = (i % (TM / 8)) * 8;
    int pixel = pixel0 + r;
    uint4 v = zero4();
    if (pixel < pixel_end && k0 + c < cs.K)
      v = *(const uint4*)&dy[(size_t)pixel * cs.K + k0 + c];
    *(uint4*)&As[r][c] = v;
  }
}

// 32 pixels x 64 of (r, s, c): im2col on the fly
__device__ void load_x(half (*Bs)[LDB], const half* x, const ConvShape& cs, int pixel0, int pixel_end, int j0) {
  for (int i = threadIdx.x; i < TK * TN / 8; i += THREADS) {
    int row = i / (TN / 8);
    int col = (i % (TN / 8)) * 8;
    int pixel = pixel0 + row;
    int j = j0 + col;
    uint4 v = zero4();
    if (pixel < pixel_end && j < cs.R * cs.S * cs.C) {
      int n = pixel / (cs.P * cs.Q);
      int pq = pixel % (cs.P * cs.Q);
      int p = pq / cs.Q;
      int q = pq % cs.Q;
      int c = j % cs.C;
      int rs = j / cs.C;
      int r = rs / cs.S;
      int s = rs % cs.S;
      int h = p * cs.stride + r - cs.pad;
      int w = q * cs.stride + s - cs.pad;
      if (h >= 0 && h < cs.H && w >= 0 && w < cs.W)
        v = *(const uint4*)&x[(((size_t)n * cs.H + h) * cs.W + w) * cs.C + c];
    }
    *(uint4*)&Bs[row][col] = v;
  }
}

__global__ void conv2d_wgrad_kernel(const half* dy, const half* x, float* dw, float* db, ConvShape cs, float inv_loss_scale, int splits) {
  __shared__ __align__(32) half As[TK][LDA];
  __shared__ __align__(32) half Bs[TK][LDB];
  __shared__ __align__(32) float Cs[TM][LDC];

  const int warp = threadIdx.x / 32;
  const int warp_m = (warp / 2) * 32;
  const int warp_n = (warp % 2) * 32;
  const int k0 = blockIdx.y * TM;
  const int j0 = blockIdx.x * TN;
  const int RSC = cs.R * cs.S * cs.C;

  // this block's pixels
  const int pixels = cs.N * cs.P * cs.Q;
  const int steps = (pixels + TK - 1) / TK;
  const int steps_per_split = (steps + splits - 1) / splits;
  const int begin = blockIdx.z * steps_per_split * TK;
  const int end = min(pixels, begin + steps_per_split * TK);

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) wmma::fill_fragment(acc[i][j], 0.0f);

  float bias_sum = 0.0f;

  for (int pixel = begin; pixel < end; pixel += TK) {
    load_dy(As, dy, cs, pixel, end, k0);
    load_x(Bs, x, cs, pixel, end, j0);
    __syncthreads();

    // the first column of blocks sums up dB, a thread per filter
    if (blockIdx.x == 0 && threadIdx.x < TM) {
      for (int r = 0; r < TK; r++) bias_sum += __half2float(As[r][threadIdx.x]);
    }

    for (int kk = 0; kk < TK; kk += 16) {
      // dY is pixels x filters in shared memory, and A is filters x pixels: column major
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> a[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
      for (int i = 0; i < 2; i++) wmma::load_matrix_sync(a[i], &As[kk][warp_m + i * 16], LDA);
      for (int j = 0; j < 2; j++) wmma::load_matrix_sync(b[j], &Bs[kk][warp_n + j * 16], LDB);
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
    __syncthreads();
  }

  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) {
      for (int e = 0; e < acc[i][j].num_elements; e++) acc[i][j].x[e] *= inv_loss_scale;
      wmma::store_matrix_sync(&Cs[warp_m + i * 16][warp_n + j * 16], acc[i][j], LDC, wmma::mem_row_major);
    }
  __syncthreads();

  for (int i = threadIdx.x; i < TM * TN; i += THREADS) {
    int row = i / TN;
    int col = i % TN;
    if (k0 + row < cs.K && j0 + col < RSC)
      atomicAdd(&dw[(size_t)(k0 + row) * RSC + j0 + col], Cs[row][col]);
  }
  if (blockIdx.x == 0 && threadIdx.x < TM && k0 + threadIdx.x < cs.K)
    atomicAdd(&db[k0 + threadIdx.x], bias_sum * inv_loss_scale);
}

void conv2d_wgrad(const half* dy, const half* x, float* dw, float* db, ConvShape cs, float loss_scale) {
  int splits = 4;
  cudaMemset(dw, 0, sizeof(float) * cs.K * cs.R * cs.S * cs.C);
  cudaMemset(db, 0, sizeof(float) * cs.K);
  dim3 grid((cs.R * cs.S * cs.C + TN - 1) / TN, (cs.K + TM - 1) / TM, splits);
  conv2d_wgrad_kernel<<<grid, THREADS>>>(dy, x, dw, db, cs, 1.0f / loss_scale, splits);
}
