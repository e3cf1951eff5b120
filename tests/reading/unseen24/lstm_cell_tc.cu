/**
 * lstm_cell_tc.cu
 *
 * LSTM のセル 1 ステップを 1 カーネルで (Tensor Core 版)
 *
 *   gates = x_t W_ih^T + h_{t-1} W_hh^T + b          [B, 4H]
 *   i, f, g, o = sigmoid, sigmoid, tanh, sigmoid     (PyTorch と同じ順番)
 *   c_t = f * c_{t-1} + i * g
 *   h_t = o * tanh(c_t)
 *
 *   x : [T, B, I] half     W_ih : [4H, I] half     W_hh : [4H, H] half
 *   h : [B, H] half        c    : [B, H] float     b    : [4H] float (b_ih + b_hh)
 *
 * 1 ブロック = バッチ 16 行 x 隠れユニット 16 列. 4 つの warp がそれぞれ 1 つの
 * ゲートを計算し, 結果を shared memory に置いて要素ごとの計算をする.
 * h は読み書きが競合するのでステップごとにバッファを入れ替える. c は同じ要素しか触らないので
 * その場で更新してよい (だから c には __restrict__ を付けない).
 *
 * 制約: I, H は 16 の倍数 (B は任意)
 */
#include <cuda_fp16.h>
#include <mma.h>

#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace wmma = nvcuda::wmma;

#define CUDA_SAFE_CALL(call)                                                             \
  do {                                                                                   \
    cudaError_t status = call;                                                           \
    if (status != cudaSuccess) {                                                         \
      std::fprintf(stderr, "%s (%s:%d)\n", cudaGetErrorString(status), __FILE__, __LINE__); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (false)

enum Gate { GATE_I = 0, GATE_F, GATE_G, GATE_O, NUM_GATES };

constexpr int UB = 16;  // バッチ方向のタイル
constexpr int UH = 16;  // 隠れユニット方向のタイル

__device__ __forceinline__ float sigmoidf(float x) { return 1.0f / (1.0f + expf(-x)); }

// acc += in[rows, depth] * W[gate * H + unit0 .. + 16, depth]^T
// 端の行は s_in にゼロを詰める
__device__ void accumulate(wmma::fragment<wmma::accumulator, 16, 16, 16, float> &acc, half (*s_in)[16 + 8],
                           const half *__restrict__ in, const half *__restrict__ w, int row0, int rows, int depth) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  for (int k = 0; k < depth; k += 16) {
    // 16 x 16 = 256 要素, 128 スレッドで 2 要素ずつ (half2)
    const int r = threadIdx.x / 8;
    const int c = (threadIdx.x % 8) * 2;
    half2 v = __float2half2_rn(0.0f);
    if (row0 + r < rows) v = *reinterpret_cast<const half2 *>(&in[(size_t)(row0 + r) * depth + k + c]);
    __syncthreads();
    *reinterpret_cast<half2 *>(&s_in[r][c]) = v;
    __syncthreads();

    wmma::load_matrix_sync(fa, &s_in[0][0], 16 + 8);
    wmma::load_matrix_sync(fb, w + k, depth);
    wmma::mma_sync(acc, fa, fb, acc);
  }
}

__global__ void __launch_bounds__(NUM_GATES * 32)
lstm_cell_kernel(const half *__restrict__ x, const half *__restrict__ h_prev, const float *c_prev,
                 const half *__restrict__ w_ih, const half *__restrict__ w_hh, const float *__restrict__ bias,
                 half *__restrict__ h_next, float *c_next, int B, int I, int H) {
  __shared__ __align__(32) half s_in[UB][16 + 8];
  __shared__ __align__(32) float s_gate[NUM_GATES][UB][UH];

  const int gate = threadIdx.x / 32;
  const int unit0 = blockIdx.x * UH;
  const int row0 = blockIdx.y * UB;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.0f);
  accumulate(acc, s_in, x, w_ih + (size_t)(gate * H + unit0) * I, row0, B, I);
  accumulate(acc, s_in, h_prev, w_hh + (size_t)(gate * H + unit0) * H, row0, B, H);
  wmma::store_matrix_sync(&s_gate[gate][0][0], acc, UH, wmma::mem_row_major);
  __syncthreads();

  for (int e = threadIdx.x; e < UB * UH; e += blockDim.x) {
    const int r = e / UH, u = e % UH;
    const int row = row0 + r, unit = unit0 + u;
    if (row >= B) continue;
    const float gi = sigmoidf(s_gate[GATE_I][r][u] + bias[GATE_I * H + unit]);
    const float gf = sigmoidf(s_gate[GATE_F][r][u] + bias[GATE_F * H + unit]);
    const float gg = tanhf(s_gate[GATE_G][r][u] + bias[GATE_G * H + unit]);
    const float go = sigmoidf(s_gate[GATE_O][r][u] + bias[GATE_O * H + unit]);
    const size_t idx = (size_t)row * H + unit;
    const float c = gf * c_prev[idx] + gi * gg;
    c_next[idx] = c;
    h_next[idx] = __float2half(go * tanhf(c));
  }
}

// T ステップ実行する. h は 2 面, c はその場で更新.
// 最後の h がどちらの面にあるかを返す.
int lstm_forward(const half *x, half *h[2], float *c, const half *w_ih, const half *w_hh, const float *bias, int T,
                 int B, int I, int H, cudaStream_t stream) {
  assert(I % 16 == 0 && H % 16 == 0);
  const dim3 grid(H / UH, (B + UB - 1) / UB);
  int cur = 0;
  for (int t = 0; t < T; t++) {
    lstm_cell_kernel<<<grid, NUM_GATES * 32, 0, stream>>>(x + (size_t)t * B * I, h[cur], c, w_ih, w_hh, bias,
                                                          h[cur ^ 1], c, B, I, H);
    cur ^= 1;
  }
  CUDA_SAFE_CALL(cudaGetLastError());
  return cur;
}

// ---------------------------------------------------------------------------- CPU
struct Reference {
  int B, I, H;
  std::vector<double> h, c;

  static double sig(double v) { return 1.0 / (1.0 + std::exp(-v)); }

  void step(const half *x, const std::vector<half> &w_ih, const std::vector<half> &w_hh,
            const std::vector<float> &bias) {
    std::vector<double> nh(h.size());
    for (int b = 0; b < B; b++)
      for (int u = 0; u < H; u++) {
        double g[NUM_GATES];
        for (int q = 0; q < NUM_GATES; q++) {
          const size_t row = (size_t)q * H + u;
          double s = bias[row];
          for (int k = 0; k < I; k++) s += (double)__half2float(x[b * I + k]) * __half2float(w_ih[row * I + k]);
          for (int k = 0; k < H; k++) s += h[b * H + k] * __half2float(w_hh[row * H + k]);
          g[q] = s;
        }
        const double cc = sig(g[GATE_F]) * c[b * H + u] + sig(g[GATE_I]) * std::tanh(g[GATE_G]);
        c[b * H + u] = cc;
        nh[b * H + u] = sig(g[GATE_O]) * std::tanh(cc);
      }
    h = nh;
  }
};

template <typename T>
static T *upload(const std::vector<T> &v) {
  T *p;
  CUDA_SAFE_CALL(cudaMalloc(&p, v.size() * sizeof(T)));
  CUDA_SAFE_CALL(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
  return p;
}

static bool run(int T, int B, int I, int H) {
  std::mt19937 rng(42);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  const float std_w = 1.5f / std::sqrt((float)H);
  std::vector<half> x((size_t)T * B * I), w_ih((size_t)4 * H * I), w_hh((size_t)4 * H * H), h0((size_t)B * H);
  std::vector<float> bias(4 * H), c0((size_t)B * H);
  for (auto &v : x) v = __float2half(normal(rng));
  for (auto &v : w_ih) v = __float2half(normal(rng) * std_w);
  for (auto &v : w_hh) v = __float2half(normal(rng) * std_w);
  for (auto &v : h0) v = __float2half(0.5f * normal(rng));
  for (auto &v : bias) v = 0.3f * normal(rng);
  for (auto &v : c0) v = normal(rng);

  Reference ref{B, I, H, {}, {}};
  for (auto v : h0) ref.h.push_back(__half2float(v));
  for (auto v : c0) ref.c.push_back(v);
  for (int t = 0; t < T; t++) ref.step(&x[(size_t)t * B * I], w_ih, w_hh, bias);

  half *dx = upload(x), *dw_ih = upload(w_ih), *dw_hh = upload(w_hh);
  half *dh[2] = {upload(h0), upload(h0)};
  float *dc = upload(c0), *db = upload(bias);
  const int last = lstm_forward(dx, dh, dc, dw_ih, dw_hh, db, T, B, I, H, 0);

  std::vector<half> h(h0.size());
  std::vector<float> c(c0.size());
  CUDA_SAFE_CALL(cudaMemcpy(h.data(), dh[last], h.size() * sizeof(half), cudaMemcpyDeviceToHost));
  CUDA_SAFE_CALL(cudaMemcpy(c.data(), dc, c.size() * sizeof(float), cudaMemcpyDeviceToHost));

  double eh = 0, ec = 0;
  for (size_t i = 0; i < h.size(); i++) {
    const double a = std::fabs(__half2float(h[i]) - ref.h[i]), b = std::fabs(c[i] - ref.c[i]);
    if (!(a <= eh)) eh = a;
    if (!(b <= ec)) ec = b;
  }
  const bool ok = eh < 4e-3 && ec < 8e-3;
  std::printf("T=%d B=%d I=%d H=%d : |dh| %.2e, |dc| %.2e -> %s\n", T, B, I, H, eh, ec, ok ? "OK" : "NG");
  for (void *p : {(void *)dx, (void *)dw_ih, (void *)dw_hh, (void *)dh[0], (void *)dh[1], (void *)dc, (void *)db})
    cudaFree(p);
  return ok;
}

int main() {
  bool ok = run(1, 16, 32, 48);
  ok = run(4, 21, 48, 64) && ok;
  ok = run(3, 5, 16, 32) && ok;
  return ok ? 0 : 1;
}
