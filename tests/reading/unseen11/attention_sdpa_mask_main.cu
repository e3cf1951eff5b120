// Scaled dot-product attention with an additive mask, WMMA, checked against a CPU reference in main()
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

using namespace nvcuda;

template <typename T>
struct DeviceBuffer {
  T* ptr = nullptr;
  size_t count = 0;
  explicit DeviceBuffer(size_t n) : count(n) {
    if (cudaMalloc(reinterpret_cast<void**>(&ptr), n * sizeof(T)) != cudaSuccess) { std::puts("cudaMalloc failed"); std::exit(1); }
  }
  explicit DeviceBuffer(const std::vector<T>& host) : DeviceBuffer(host.size()) {
    cudaMemcpy(ptr, host.data(), count * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~DeviceBuffer() { cudaFree(ptr); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  std::vector<T> download() const {
    std::vector<T> out(count);
    cudaMemcpy(out.data(), ptr, count * sizeof(T), cudaMemcpyDeviceToHost);
    return out;
  }
};

constexpr int kHeadDim = 32, kRows = 16, kMaxKeys = 128;

// grid: (ceil(S / 16), heads), one warp per block
__global__ void sdpa_kernel(const half* q, const half* k, const half* v, const float* mask, float* o, int S, float scale) {
  __shared__ __align__(32) float scores[kRows * kMaxKeys];
  __shared__ __align__(32) half probs[kRows * kMaxKeys];
  const int row0 = blockIdx.x * kRows;
  const size_t base = static_cast<size_t>(blockIdx.y) * S * kHeadDim;
  const int lane = threadIdx.x;

  for (int j = 0; j < S; j += 16) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
    wmma::fill_fragment(s, 0.f);
    for (int d = 0; d < kHeadDim; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
      wmma::load_matrix_sync(a, q + base + row0 * kHeadDim + d, kHeadDim);
      wmma::load_matrix_sync(b, k + base + j * kHeadDim + d, kHeadDim);
      wmma::mma_sync(s, a, b, s);
    }
    wmma::store_matrix_sync(scores + j, s, kMaxKeys, wmma::mem_row_major);
  }
  __syncwarp();
  for (int r = 0; r < kRows; ++r) {
    float m = -INFINITY, sum = 0.f;
    for (int j = lane; j < S; j += 32) {
      const float x = scores[r * kMaxKeys + j] * scale + mask[(row0 + r) * S + j];
      scores[r * kMaxKeys + j] = x;
      m = fmaxf(m, x);
    }
    for (int off = 16; off; off /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, off));
    for (int j = lane; j < S; j += 32) {
      const float e = __expf(scores[r * kMaxKeys + j] - m);
      scores[r * kMaxKeys + j] = e;
      sum += e;
    }
    for (int off = 16; off; off /= 2) sum += __shfl_xor_sync(~0u, sum, off);
    for (int j = lane; j < S; j += 32) probs[r * kMaxKeys + j] = __float2half(scores[r * kMaxKeys + j] / sum);
  }
  __syncwarp();
  for (int d = 0; d < kHeadDim; d += 16) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);
    for (int j = 0; j < S; j += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
      wmma::load_matrix_sync(a, probs + j, kMaxKeys);
      wmma::load_matrix_sync(b, v + base + j * kHeadDim + d, kHeadDim);
      wmma::mma_sync(acc, a, b, acc);
    }
    wmma::store_matrix_sync(o + base + row0 * kHeadDim + d, acc, kHeadDim, wmma::mem_row_major);
  }
}

static void reference(const std::vector<half>& q, const std::vector<half>& k, const std::vector<half>& v, const std::vector<float>& mask, std::vector<float>& o, int H, int S, float scale) {
  std::vector<double> p(S);
  for (int h = 0; h < H; ++h)
    for (int i = 0; i < S; ++i) {
      double m = -1e30, sum = 0;
      for (int j = 0; j < S; ++j) {
        double dot = 0;
        for (int d = 0; d < kHeadDim; ++d)
          dot += double(__half2float(q[(size_t(h) * S + i) * kHeadDim + d])) * __half2float(k[(size_t(h) * S + j) * kHeadDim + d]);
        p[j] = dot * scale + mask[i * S + j];
        m = std::max(m, p[j]);
      }
      for (auto& x : p) sum += (x = std::exp(x - m));
      for (int d = 0; d < kHeadDim; ++d) {
        double acc = 0;
        for (int j = 0; j < S; ++j) acc += p[j] / sum * __half2float(v[(size_t(h) * S + j) * kHeadDim + d]);
        o[(size_t(h) * S + i) * kHeadDim + d] = float(acc);
      }
    }
}

int main() {
  const int H = 2, S = 96;
  const float scale = 1.f / std::sqrt(float(kHeadDim));
  std::mt19937 rng(0);
  std::normal_distribution<float> normal(0.f, 1.f);
  std::vector<half> q(H * S * kHeadDim), k(q.size()), v(q.size());
  for (auto* t : {&q, &k, &v})
    for (auto& x : *t) x = __float2half(normal(rng));
  std::vector<float> mask(S * S);
  for (int i = 0; i < S; ++i)
    for (int j = 0; j < S; ++j) mask[i * S + j] = j > i + 8 ? -1e9f : 0.1f * ((i + j) % 5);

  DeviceBuffer<half> dq(q), dk(k), dv(v);
  DeviceBuffer<float> dm(mask), dout(q.size());
  sdpa_kernel<<<dim3(S / kRows, H), 32>>>(dq.ptr, dk.ptr, dv.ptr, dm.ptr, dout.ptr, S, scale);
  if (cudaDeviceSynchronize() != cudaSuccess) { std::puts("kernel failed"); return 2; }
  const auto got = dout.download();
  std::vector<float> want(q.size());
  reference(q, k, v, mask, want, H, S, scale);
  float worst = 0.f;
  for (size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::fabs(want[i] - got[i]));
  std::printf("max |diff| = %g\n", worst);
  return worst < 5e-3f ? 0 : 1;
}
