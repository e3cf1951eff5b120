// Tensor Core による 2D 畳み込み (implicit GEMM, NCHW, fp16 入力 / fp32 累算)
//
//   入力   x : [N, C, H, W]
//   重み   w : [K, C, R, S]
//   バイアス : [K]
//   出力   y : [N, K, P, Q]    P = (H + 2*pad - dil*(R-1) - 1) / stride + 1  (Q も同様)
//
//   GEMM の形:  M = K,  N = P*Q (画像 1 枚ごと, blockIdx.z = n),  K = C*R*S
//   im2col 行列はメモリに作らず, shared memory に読み込むときに座標を計算する.
//   サイズの制約は無し (端は全部ゼロ埋め).
//
//   nvcc -std=c++14 -O3 -arch=sm_75 conv2d_implicit_gemm_wmma.cu
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

#define CHECK_CUDA(x)                                                                     \
  do {                                                                                    \
    cudaError_t st = (x);                                                                 \
    if (st != cudaSuccess) {                                                              \
      std::printf("%s(%d): %s\n", __FILE__, __LINE__, cudaGetErrorString(st));            \
      std::exit(-1);                                                                      \
    }                                                                                     \
  } while (0)

struct ConvParam {
  int N, C, H, W;      // 入力
  int K, R, S;         // フィルタ
  int stride, pad, dil;
  int P, Q;            // 出力
};

static ConvParam make_param(int N, int C, int H, int W, int K, int R, int S, int stride, int pad, int dil) {
  ConvParam p{N, C, H, W, K, R, S, stride, pad, dil, 0, 0};
  p.P = (H + 2 * pad - dil * (R - 1) - 1) / stride + 1;
  p.Q = (W + 2 * pad - dil * (S - 1) - 1) / stride + 1;
  return p;
}

constexpr int TILE_M = 64;   // 出力チャネル
constexpr int TILE_N = 64;   // 出力ピクセル
constexpr int TILE_K = 32;   // C*R*S
constexpr int THREADS = 128; // 4 warp, 2 x 2, warp ごとに 32 x 32
constexpr int A_LD = TILE_K + 8;
constexpr int B_LD = TILE_N + 8;
constexpr int C_LD = TILE_N + 4;

__global__ void __launch_bounds__(THREADS)
conv2d_implicit_gemm(const half* __restrict__ x, const half* __restrict__ w,
                     const float* __restrict__ bias, float* __restrict__ y,
                     const ConvParam p, const bool relu) {
  __shared__ __align__(32) half sA[TILE_M * A_LD];    // 重み
  __shared__ __align__(32) half sB[TILE_K * B_LD];    // im2col
  __shared__ __align__(32) float sC[TILE_M * C_LD];   // エピローグ用

  const int tid = threadIdx.x;
  const int warp_row = (tid / 32) / 2;
  const int warp_col = (tid / 32) % 2;
  const int k_base = blockIdx.y * TILE_M;
  const int pix_base = blockIdx.x * TILE_N;
  const int n = blockIdx.z;

  const int pixels = p.P * p.Q;
  const int crs = p.C * p.R * p.S;
  const int rs = p.R * p.S;
  const half* xn = x + (size_t)n * p.C * p.H * p.W;

  // このスレッドが sB で担当する列 (= 出力ピクセル) は固定
  const int b_col = tid % TILE_N;
  const int b_row = tid / TILE_N;               // 0 または 1
  const int pix = pix_base + b_col;
  const bool pix_ok = pix < pixels;
  const int h0 = (pix / p.Q) * p.stride - p.pad;
  const int w0 = (pix % p.Q) * p.stride - p.pad;

  const int a_col = tid % TILE_K;
  const int a_row = tid / TILE_K;               // 0..3

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      wmma::fill_fragment(acc[i][j], 0.0f);

  for (int k0 = 0; k0 < crs; k0 += TILE_K) {
    // 重み: [K][CRS] の行列とみなしてそのまま読む
    for (int i = a_row; i < TILE_M; i += THREADS / TILE_K) {
      const int k = k_base + i;
      const int e = k0 + a_col;
      half v = __float2half(0.0f);
      if (k < p.K && e < crs) v = w[(size_t)k * crs + e];
      sA[i * A_LD + a_col] = v;
    }
    // 入力: e = (c, r, s) と pix = (p, q) から入力座標を計算
    for (int i = b_row; i < TILE_K; i += THREADS / TILE_N) {
      const int e = k0 + i;
      half v = __float2half(0.0f);
      if (pix_ok && e < crs) {
        const int c = e / rs;
        const int r = (e % rs) / p.S;
        const int s = e % p.S;
        const int h = h0 + r * p.dil;
        const int ww = w0 + s * p.dil;
        if (h >= 0 && h < p.H && ww >= 0 && ww < p.W)
          v = xn[((size_t)c * p.H + h) * p.W + ww];
      }
      sB[i * B_LD + b_col] = v;
    }
    __syncthreads();

    for (int kk = 0; kk < TILE_K; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb[2];
      for (int i = 0; i < 2; ++i)
        wmma::load_matrix_sync(fa[i], sA + (warp_row * 32 + i * 16) * A_LD + kk, A_LD);
      for (int j = 0; j < 2; ++j)
        wmma::load_matrix_sync(fb[j], sB + kk * B_LD + warp_col * 32 + j * 16, B_LD);
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
          wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
    }
    __syncthreads();
  }

  // エピローグ: いったん shared に置いてから bias (+ ReLU) を足して書き出す
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      wmma::store_matrix_sync(sC + (warp_row * 32 + i * 16) * C_LD + warp_col * 32 + j * 16,
                              acc[i][j], C_LD, wmma::mem_row_major);
  __syncthreads();

  if (pix_ok) {
    for (int i = b_row; i < TILE_M; i += THREADS / TILE_N) {
      const int k = k_base + i;
      if (k < p.K) {
        float v = sC[i * C_LD + b_col] + bias[k];
        if (relu) v = fmaxf(v, 0.0f);
        y[((size_t)n * p.K + k) * pixels + pix] = v;
      }
    }
  }
}

static void launch_conv2d(const half* x, const half* w, const float* bias, float* y, const ConvParam& p, bool relu) {
  dim3 grid((p.P * p.Q + TILE_N - 1) / TILE_N, (p.K + TILE_M - 1) / TILE_M, p.N);
  conv2d_implicit_gemm<<<grid, THREADS>>>(x, w, bias, y, p, relu);
  CHECK_CUDA(cudaGetLastError());
}

static void conv2d_cpu(const std::vector<float>& x, const std::vector<float>& w, const std::vector<float>& bias,
                       std::vector<float>& y, const ConvParam& p, bool relu) {
  for (int n = 0; n < p.N; ++n)
    for (int k = 0; k < p.K; ++k)
      for (int oh = 0; oh < p.P; ++oh)
        for (int ow = 0; ow < p.Q; ++ow) {
          double s = bias[k];
          for (int c = 0; c < p.C; ++c)
            for (int r = 0; r < p.R; ++r)
              for (int q = 0; q < p.S; ++q) {
                const int h = oh * p.stride - p.pad + r * p.dil;
                const int ww = ow * p.stride - p.pad + q * p.dil;
                if (h < 0 || h >= p.H || ww < 0 || ww >= p.W) continue;
                s += (double)x[((size_t)(n * p.C + c) * p.H + h) * p.W + ww] *
                     w[((size_t)(k * p.C + c) * p.R + r) * p.S + q];
              }
          if (relu && s < 0) s = 0;
          y[((size_t)(n * p.K + k) * p.P + oh) * p.Q + ow] = (float)s;
        }
}

static bool run(const ConvParam& p, bool relu) {
  const size_t nx = (size_t)p.N * p.C * p.H * p.W, nw = (size_t)p.K * p.C * p.R * p.S;
  const size_t ny = (size_t)p.N * p.K * p.P * p.Q;
  std::vector<float> fx(nx), fw(nw), fb(p.K), out(ny), ref(ny);
  std::vector<half> hx(nx), hw(nw);
  for (size_t i = 0; i < nx; ++i) { hx[i] = __float2half(rand() / (float)RAND_MAX - 0.5f); fx[i] = __half2float(hx[i]); }
  for (size_t i = 0; i < nw; ++i) { hw[i] = __float2half(rand() / (float)RAND_MAX - 0.5f); fw[i] = __half2float(hw[i]); }
  for (auto& b : fb) b = rand() / (float)RAND_MAX - 0.5f;

  half *dx, *dw;
  float *db, *dy;
  CHECK_CUDA(cudaMalloc((void**)&dx, nx * sizeof(half)));
  CHECK_CUDA(cudaMalloc((void**)&dw, nw * sizeof(half)));
  CHECK_CUDA(cudaMalloc((void**)&db, p.K * sizeof(float)));
  CHECK_CUDA(cudaMalloc((void**)&dy, ny * sizeof(float)));
  CHECK_CUDA(cudaMemcpy(dx, hx.data(), nx * sizeof(half), cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaMemcpy(dw, hw.data(), nw * sizeof(half), cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaMemcpy(db, fb.data(), p.K * sizeof(float), cudaMemcpyHostToDevice));

  launch_conv2d(dx, dw, db, dy, p, relu);
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaMemcpy(out.data(), dy, ny * sizeof(float), cudaMemcpyDeviceToHost));
  conv2d_cpu(fx, fw, fb, ref, p, relu);

  float err = 0.0f;
  for (size_t i = 0; i < ny; ++i) {
    const float e = std::fabs(out[i] - ref[i]);
    if (e > err || std::isnan(e)) err = e;
  }
  const bool ok = err < 1e-3f;
  std::printf("N=%d C=%d %dx%d K=%d %dx%d stride=%d pad=%d dil=%d -> %dx%d  最大誤差 %.3e %s\n", p.N, p.C, p.H, p.W,
              p.K, p.R, p.S, p.stride, p.pad, p.dil, p.P, p.Q, err, ok ? "OK" : "NG");
  CHECK_CUDA(cudaFree(dx));
  CHECK_CUDA(cudaFree(dw));
  CHECK_CUDA(cudaFree(db));
  CHECK_CUDA(cudaFree(dy));
  return ok;
}

int main() {
  bool ok = true;
  ok &= run(make_param(2, 16, 14, 14, 64, 3, 3, 1, 1, 1), true);
  ok &= run(make_param(1, 3, 32, 30, 24, 7, 7, 2, 3, 1), false);    // 最初の層
  ok &= run(make_param(1, 20, 17, 19, 70, 3, 5, 1, 2, 2), false);   // 端数だらけ
  ok &= run(make_param(3, 48, 9, 9, 32, 1, 1, 1, 0, 1), true);      // pointwise
  return ok ? 0 : 1;
}
