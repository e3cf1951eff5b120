// y = x + W2 * gelu(W1 * layernorm(x) + b1) + b2
// nvcc -O2 -arch=sm_75 ffn.cu -o ffn
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ffn_kernels.cuh"

#define CK(x)                                                                    \
  do {                                                                           \
    cudaError_t e = (x);                                                         \
    if (e != cudaSuccess) {                                                      \
      printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e));          \
      std::abort();                                                              \
    }                                                                            \
  } while (0)

struct FeedForward {
  int dim, hidden;
  half *gamma, *beta, *w1, *b1, *w2, *b2;  // device
  half *normed, *act;                      // scratch, max_tokens rows

  void forward(const half *x, half *y, int tokens, cudaStream_t stream = 0) const {
    const dim3 ln_block(32, 4);
    ffn::layernorm_half<<<(tokens + 3) / 4, ln_block, 0, stream>>>(x, gamma, beta, normed, tokens, dim, 1e-5f);

    const dim3 g1((tokens + ffn::BLOCK_M - 1) / ffn::BLOCK_M, (hidden + ffn::BLOCK_N - 1) / ffn::BLOCK_N);
    ffn::linear_epilogue<ffn::EPI_BIAS_GELU>
        <<<g1, ffn::BLOCK_THREADS, 0, stream>>>(normed, w1, b1, nullptr, act, tokens, hidden, dim);

    const dim3 g2((tokens + ffn::BLOCK_M - 1) / ffn::BLOCK_M, (dim + ffn::BLOCK_N - 1) / ffn::BLOCK_N);
    ffn::linear_epilogue<ffn::EPI_BIAS_RESIDUAL>
        <<<g2, ffn::BLOCK_THREADS, 0, stream>>>(act, w2, b2, x, y, tokens, dim, hidden);
    CK(cudaGetLastError());
  }
};

static half *upload(const std::vector<half> &v) {
  half *p;
  CK(cudaMalloc(&p, v.size() * sizeof(half)));
  CK(cudaMemcpy(p, v.data(), v.size() * sizeof(half), cudaMemcpyHostToDevice));
  return p;
}

static std::vector<half> randn(size_t n, float scale, float shift = 0.f) {
  std::vector<half> v(n);
  for (auto &e : v) e = __float2half((rand() / (float)RAND_MAX - 0.5f) * 2.f * scale + shift);
  return v;
}

int main() {
  const int tokens = 77, dim = 144, hidden = 4 * 144;
  auto x = randn((size_t)tokens * dim, 1.f);
  auto gamma = randn(dim, 0.1f, 1.f), beta = randn(dim, 0.1f);
  auto w1 = randn((size_t)hidden * dim, 0.1f), b1 = randn(hidden, 0.1f);
  auto w2 = randn((size_t)dim * hidden, 0.1f), b2 = randn(dim, 0.1f);

  FeedForward ff;
  ff.dim = dim;
  ff.hidden = hidden;
  ff.gamma = upload(gamma); ff.beta = upload(beta);
  ff.w1 = upload(w1); ff.b1 = upload(b1);
  ff.w2 = upload(w2); ff.b2 = upload(b2);
  half *dx = upload(x), *dy;
  CK(cudaMalloc(&dy, x.size() * sizeof(half)));
  CK(cudaMalloc(&ff.normed, (size_t)tokens * dim * sizeof(half)));
  CK(cudaMalloc(&ff.act, (size_t)tokens * hidden * sizeof(half)));
  ff.forward(dx, dy, tokens);
  std::vector<half> y(x.size());
  CK(cudaMemcpy(y.data(), dy, y.size() * sizeof(half), cudaMemcpyDeviceToHost));

  // CPU
  double worst = 0;
  std::vector<double> n(dim), a(hidden);
  for (int t = 0; t < tokens; ++t) {
    double mean = 0, var = 0;
    for (int c = 0; c < dim; ++c) mean += __half2float(x[t * dim + c]);
    mean /= dim;
    for (int c = 0; c < dim; ++c) var += pow(__half2float(x[t * dim + c]) - mean, 2);
    var /= dim;
    for (int c = 0; c < dim; ++c)
      n[c] = (__half2float(x[t * dim + c]) - mean) / sqrt(var + 1e-5) * __half2float(gamma[c]) + __half2float(beta[c]);
    for (int j = 0; j < hidden; ++j) {
      double s = __half2float(b1[j]);
      for (int c = 0; c < dim; ++c) s += n[c] * __half2float(w1[j * dim + c]);
      a[j] = 0.5 * s * (1 + tanh(0.7978845608028654 * (s + 0.044715 * s * s * s)));
    }
    for (int c = 0; c < dim; ++c) {
      double s = __half2float(b2[c]) + __half2float(x[t * dim + c]);
      for (int j = 0; j < hidden; ++j) s += a[j] * __half2float(w2[c * hidden + j]);
      worst = fmax(worst, fabs(s - __half2float(y[t * dim + c])));
    }
  }
  printf("max abs error: %g  %s\n", worst, worst < 2e-2 ? "PASSED" : "FAILED");
  return worst < 2e-2 ? 0 : 1;
}
