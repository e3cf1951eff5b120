// Direct 2D convolution, NCHW, stride and padding, checked against the CPU.
#include <cuda_runtime.h>
#include <iostream>
#include <random>
#include <vector>

struct ConvParams {
  int n, c, h, w;
  int k, r, s;
  int stride, pad;
  int p() const { return (h + 2 * pad - r) / stride + 1; }
  int q() const { return (w + 2 * pad - s) / stride + 1; }
};

__global__ void conv2d_nchw(ConvParams prm, int P, int Q, const float* __restrict__ input,
                            const float* __restrict__ filter, const float* __restrict__ bias,
                            float* __restrict__ output) {
  int q = blockIdx.x * blockDim.x + threadIdx.x;
  int p = blockIdx.y * blockDim.y + threadIdx.y;
  int nk = blockIdx.z;
  int k = nk % prm.k;
  int n = nk / prm.k;
  if (p >= P || q >= Q) return;
  float acc = bias[k];
  for (int c = 0; c < prm.c; ++c)
    for (int r = 0; r < prm.r; ++r) {
      int y = p * prm.stride - prm.pad + r;
      if (y < 0 || y >= prm.h) continue;
      for (int s = 0; s < prm.s; ++s) {
        int x = q * prm.stride - prm.pad + s;
        if (x < 0 || x >= prm.w) continue;
        acc += input[((n * prm.c + c) * prm.h + y) * prm.w + x] * filter[((k * prm.c + c) * prm.r + r) * prm.s + s];
      }
    }
  output[((n * prm.k + k) * P + p) * Q + q] = acc;
}

void conv_reference(const ConvParams& t, const std::vector<float>& in, const std::vector<float>& f,
                    const std::vector<float>& b, std::vector<float>& out) {
  for (int n = 0; n < t.n; ++n)
    for (int k = 0; k < t.k; ++k)
      for (int p = 0; p < t.p(); ++p)
        for (int q = 0; q < t.q(); ++q) {
          double acc = b[k];
          for (int c = 0; c < t.c; ++c)
            for (int r = 0; r < t.r; ++r)
              for (int s = 0; s < t.s; ++s) {
                int y = p * t.stride - t.pad + r, x = q * t.stride - t.pad + s;
                if (y >= 0 && y < t.h && x >= 0 && x < t.w)
                  acc += double(in[((n * t.c + c) * t.h + y) * t.w + x]) * f[((k * t.c + c) * t.r + r) * t.s + s];
              }
          out[((n * t.k + k) * t.p() + p) * t.q() + q] = acc;
        }
}

int main() {
  ConvParams t{2, 3, 17, 19, 4, 3, 3, 2, 1};
  std::vector<float> in(t.n * t.c * t.h * t.w), f(t.k * t.c * t.r * t.s), b(t.k), out(t.n * t.k * t.p() * t.q()), ref(out.size());
  std::mt19937 gen(7);
  std::uniform_real_distribution<float> d(-1.f, 1.f);
  for (auto* v : {&in, &f, &b})
    for (auto& x : *v) x = d(gen);
  float *di, *df, *db, *dout;
  cudaMalloc(&di, in.size() * 4);
  cudaMalloc(&df, f.size() * 4);
  cudaMalloc(&db, b.size() * 4);
  cudaMalloc(&dout, out.size() * 4);
  cudaMemcpy(di, in.data(), in.size() * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(df, f.data(), f.size() * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(db, b.data(), b.size() * 4, cudaMemcpyHostToDevice);
  dim3 block(16, 16), grid((t.q() + 15) / 16, (t.p() + 15) / 16, t.n * t.k);
  conv2d_nchw<<<grid, block>>>(t, t.p(), t.q(), di, df, db, dout);
  cudaMemcpy(out.data(), dout, out.size() * 4, cudaMemcpyDeviceToHost);
  conv_reference(t, in, f, b, ref);
  double worst = 0;
  for (size_t i = 0; i < out.size(); ++i) worst = std::max(worst, double(std::abs(out[i] - ref[i])));
  std::cout << "max error " << worst << (worst < 1e-4 ? " passed" : " FAILED") << std::endl;
  return worst < 1e-4 ? 0 : 1;
}
