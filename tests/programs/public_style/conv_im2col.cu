// A small convolutional layer: direct, im2col + cuBLAS, and implicit GEMM with constant memory; NCHW.
// build: nvcc -std=c++17 -O2 conv_im2col.cu -lcublas
#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>

class CudaException : public std::runtime_error {
 public:
  CudaException(cudaError_t e, const char *file, int line) : std::runtime_error(describe(e, file, line)), code_(e) {}
  cudaError_t code() const noexcept { return code_; }

 private:
  static std::string describe(cudaError_t e, const char *file, int line) {
    std::ostringstream s;
    s << file << ':' << line << ": " << cudaGetErrorString(e);
    return s.str();
  }
  cudaError_t code_;
};
#define CUDA(x) do { if (cudaError_t e_ = (x); e_ != cudaSuccess) throw CudaException(e_, __FILE__, __LINE__); } while (false)

struct Shape {
  int n, c, h, w;
  [[nodiscard]] size_t size() const { return static_cast<size_t>(n) * c * h * w; }
  friend std::ostream &operator<<(std::ostream &o, const Shape &s) {
    return o << s.n << 'x' << s.c << 'x' << s.h << 'x' << s.w;
  }
};

template <typename T>
class Tensor {
 public:
  explicit Tensor(Shape s) : shape_(s), host_(s.size()) { CUDA(cudaMalloc(&device_, bytes())); }
  Tensor(const Tensor &) = delete;
  Tensor &operator=(const Tensor &) = delete;
  Tensor(Tensor &&o) noexcept : shape_(o.shape_), host_(std::move(o.host_)), device_(std::exchange(o.device_, nullptr)) {}
  ~Tensor() { if (device_) cudaFree(device_); }
  template <class Rng> void randomise(Rng &rng, T lo, T hi) {
    std::uniform_real_distribution<T> d(lo, hi);
    std::generate(host_.begin(), host_.end(), [&] { return d(rng); });
    upload();
  }
  void upload() { CUDA(cudaMemcpy(device_, host_.data(), bytes(), cudaMemcpyHostToDevice)); }
  void download() { CUDA(cudaMemcpy(host_.data(), device_, bytes(), cudaMemcpyDeviceToHost)); }
  T *data() { return device_; }
  const T *data() const { return device_; }
  std::vector<T> &host() { return host_; }
  const std::vector<T> &host() const { return host_; }
  const Shape &shape() const { return shape_; }
  size_t bytes() const { return shape_.size() * sizeof(T); }

 private:
  Shape shape_;
  std::vector<T> host_;
  T *device_ = nullptr;
};

struct ConvParams {
  int N, C, H, W, K, R, S, pad, stride, P, Q;
};
__constant__ ConvParams cp;

template <int R, int S>
__global__ void conv_direct(const float *__restrict__ x, const float *__restrict__ w, const float *__restrict__ bias,
                            float *__restrict__ y) {
  const int q = blockIdx.x * blockDim.x + threadIdx.x, p = blockIdx.y * blockDim.y + threadIdx.y;
  const int k = blockIdx.z % cp.K, n = blockIdx.z / cp.K;
  if (p >= cp.P || q >= cp.Q) return;
  float acc = bias[k];
  for (int c = 0; c < cp.C; ++c)
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int s = 0; s < S; ++s) {
        const int ih = p * cp.stride - cp.pad + r, iw = q * cp.stride - cp.pad + s;
        if ((unsigned)ih < (unsigned)cp.H && (unsigned)iw < (unsigned)cp.W)
          acc += x[((n * cp.C + c) * cp.H + ih) * cp.W + iw] * w[((k * cp.C + c) * R + r) * S + s];
      }
  y[((n * cp.K + k) * cp.P + p) * cp.Q + q] = acc > 0.f ? acc : 0.f;
}

// columns: (C*R*S) x (P*Q) of one image
__global__ void im2col(const float *x, float *col, int n) {
  const int total = cp.C * cp.P * cp.Q;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += blockDim.x * gridDim.x) {
    const int q = i % cp.Q, p = i / cp.Q % cp.P, c = i / cp.Q / cp.P;
    const float *src = x + (n * cp.C + c) * cp.H * cp.W;
    float *dst = col + (c * cp.R * cp.S) * cp.P * cp.Q + p * cp.Q + q;
    for (int r = 0; r < cp.R; ++r)
      for (int s = 0; s < cp.S; ++s) {
        int ih = p * cp.stride - cp.pad + r, iw = q * cp.stride - cp.pad + s;
        *dst = (ih >= 0 && iw >= 0 && ih < cp.H && iw < cp.W) ? src[ih * cp.W + iw] : 0.f;
        dst += cp.P * cp.Q;
      }
  }
}

__global__ void bias_relu(float *y, const float *bias, int total) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < total) y[i] = fmaxf(y[i] + __ldg(bias + i / (cp.P * cp.Q) % cp.K), 0.f);
}

class Convolution {
 public:
  Convolution(ConvParams p) : p_(p), col_({1, p.C * p.R * p.S, p.P, p.Q}) {
    if (cublasCreate_v2(&handle_) != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("cublasCreate");
    CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    cublasSetStream(handle_, stream_);
    CUDA(cudaMemcpyToSymbol(cp, &p_, sizeof p_));
  }
  ~Convolution() { cublasDestroy(handle_); cudaStreamDestroy(stream_); }
  void direct(const Tensor<float> &x, const Tensor<float> &w, const Tensor<float> &b, Tensor<float> &y) {
    dim3 block(16, 16), grid((p_.Q + 15) / 16, (p_.P + 15) / 16, p_.N * p_.K);
    switch (p_.R * 10 + p_.S) {
      case 11: conv_direct<1, 1><<<grid, block, 0, stream_>>>(x.data(), w.data(), b.data(), y.data()); break;
      case 33: conv_direct<3, 3><<<grid, block, 0, stream_>>>(x.data(), w.data(), b.data(), y.data()); break;
      case 55: conv_direct<5, 5><<<grid, block, 0, stream_>>>(x.data(), w.data(), b.data(), y.data()); break;
      default: throw std::invalid_argument("filter size");
    }
    CUDA(cudaGetLastError());
    CUDA(cudaStreamSynchronize(stream_));
  }
  void gemm(const Tensor<float> &x, const Tensor<float> &w, const Tensor<float> &b, Tensor<float> &y) {
    const float alpha = 1.f, beta = 0.f;
    const int pq = p_.P * p_.Q, crs = p_.C * p_.R * p_.S;
    for (int n = 0; n < p_.N; ++n) {
      im2col<<<std::min(1024, (p_.C * pq + 255) / 256), 256, 0, stream_>>>(x.data(), col_.data(), n);
      cublasStatus_t s = cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, pq, p_.K, crs, &alpha, col_.data(), pq, w.data(),
                                     crs, &beta, y.data() + (size_t)n * p_.K * pq, pq);
      if (s != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(cublasGetStatusName(s));
    }
    const int total = p_.N * p_.K * pq;
    bias_relu<<<(total + 255) / 256, 256, 0, stream_>>>(y.data(), b.data(), total);
    CUDA(cudaStreamSynchronize(stream_));
  }

 private:
  ConvParams p_;
  Tensor<float> col_;
  cublasHandle_t handle_{};
  cudaStream_t stream_{};
};

static std::vector<float> reference(const ConvParams &p, const std::vector<float> &x, const std::vector<float> &w,
                                    const std::vector<float> &b) {
  std::vector<float> y((size_t)p.N * p.K * p.P * p.Q);
#pragma omp parallel for collapse(2)
  for (int n = 0; n < p.N; ++n)
    for (int k = 0; k < p.K; ++k)
      for (int i = 0; i < p.P; ++i)
        for (int j = 0; j < p.Q; ++j) {
          double a = b[k];
          for (int c = 0; c < p.C; ++c)
            for (int r = 0; r < p.R; ++r)
              for (int s = 0; s < p.S; ++s) {
                int h = i * p.stride - p.pad + r, v = j * p.stride - p.pad + s;
                if (h < 0 || v < 0 || h >= p.H || v >= p.W) continue;
                a += (double)x[((size_t)(n * p.C + c) * p.H + h) * p.W + v] * w[((size_t)(k * p.C + c) * p.R + r) * p.S + s];
              }
          y[((size_t)(n * p.K + k) * p.P + i) * p.Q + j] = std::max(0.0, a);
        }
  return y;
}

int main(int argc, char *argv[]) try {
  ConvParams p{4, 16, 28, 28, 32, 3, 3, 1, 1, 0, 0};
  if (argc > 1) p.N = std::atoi(argv[1]);
  if (argc > 2) p.stride = std::atoi(argv[2]);
  p.P = (p.H + 2 * p.pad - p.R) / p.stride + 1;
  p.Q = (p.W + 2 * p.pad - p.S) / p.stride + 1;
  std::default_random_engine rng{42};
  Tensor<float> x({p.N, p.C, p.H, p.W}), w({p.K, p.C, p.R, p.S}), b({1, p.K, 1, 1}), y({p.N, p.K, p.P, p.Q});
  x.randomise(rng, -1.f, 1.f);
  w.randomise(rng, -0.5f, 0.5f);
  b.randomise(rng, -0.1f, 0.1f);
  std::cout << "input " << x.shape() << ", filters " << w.shape() << ", output " << y.shape() << '\n';
  auto want = reference(p, x.host(), w.host(), b.host());
  auto conv = std::make_unique<Convolution>(p);
  bool good = true;
  auto verify = [&](const char *name) {
    y.download();
    float worst = 0;
    for (size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::fabs(want[i] - y.host()[i]));
    std::cout << name << ": max abs error " << worst << (worst < 1e-3f ? "  OK" : "  MISMATCH") << std::endl;
    good &= worst < 1e-3f;
  };
  conv->direct(x, w, b, y);
  verify("direct");
  CUDA(cudaMemset(y.data(), 0xff, y.bytes()));
  conv->gemm(x, w, b, y);
  verify("im2col + cuBLAS");
  std::cout << (good ? "All tests passed!" : "Some tests failed") << std::endl;
  return !good;
} catch (const std::exception &e) {
  std::cerr << "error: " << e.what() << std::endl;
  return 1;
}
