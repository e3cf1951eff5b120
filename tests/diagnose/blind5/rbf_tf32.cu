// Kernel matrix of a Gaussian process: out[i][j] = variance * exp(-gamma * |x[i] - y[j]|^2)
//
// |x - y|^2 = |x|^2 + |y|^2 - 2 x.y: the product on tensor cores (tf32, mma.sync.m16n8k8), the norms in fp32 from the
// same tiles in shared memory. Tiles of 64 x 32, 16 features at a time, two stages of cp.async.
// The number of features is a multiple of 4 (16-byte copies).
#include <cstdint>
#include <cuda_runtime.h>

namespace gp {

enum { kRows = 64, kCols = 32, kDepth = 16, kLd = 20, kThreads = 128 };

__device__ __forceinline__ uint32_t tf32(float v) {
  uint32_t r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return r;
}

__device__ __forceinline__ void cp16(float* dst, const float* src, bool valid) {
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(dst));
  const int bytes = valid ? 16 : 0;  // the rest is filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(src), "r"(bytes));
}

__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;\n" ::); }

template <int kPending>
__device__ __forceinline__ void wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending));
}

__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// rows [row0, row0 + count) of a [rows, features] matrix, features [f0, f0 + 16)
__device__ __forceinline__ void fetch(float (*tile)[kLd], const float* src, int count, int row0, int rows, int f0,
                                      int features) {
  for (int v = threadIdx.x; v < count * (kDepth / 4); v += kThreads) {
    const int r = v / (kDepth / 4), f = v % (kDepth / 4) * 4;
    const bool valid = row0 + r < rows && f0 + f < features;
    cp16(&tile[r][f], valid ? src + static_cast<int64_t>(row0 + r) * features + f0 + f : src, valid);
  }
}

__global__ __launch_bounds__(kThreads) void rbf(const float* x, const float* y, float* out, int m, int n, int features,
                                                float gamma, float variance) {
  __shared__ __align__(16) float xs[2][kRows][kLd];
  __shared__ __align__(16) float ys[2][kCols][kLd];
  __shared__ float norm[kRows + kCols];  // |x|^2, then |y|^2

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = lane / 4, quad = lane % 4;
  const int row0 = blockIdx.x * kRows, col0 = blockIdx.y * kCols;
  const int steps = (features + kDepth - 1) / kDepth;

  float acc[kCols / 8][4] = {};
  float square = 0.0f;

  fetch(xs[0], x, kRows, row0, m, 0, features);
  fetch(ys[0], y, kCols, col0, n, 0, features);
  commit();

  for (int step = 0; step < steps; ++step) {
    const int now = step & 1;
    if (step + 1 < steps) {
      fetch(xs[now ^ 1], x, kRows, row0, m, (step + 1) * kDepth, features);
      fetch(ys[now ^ 1], y, kCols, col0, n, (step + 1) * kDepth, features);
    }
    commit();  // possibly empty, so that one pending group is always the next step's
    wait<1>();
    __syncthreads();

    if (threadIdx.x < kRows + kCols) {
      const float* mine = threadIdx.x < kRows ? xs[now][threadIdx.x] : ys[now][threadIdx.x - kRows];
      for (int f = 0; f < kDepth; ++f) square += mine[f] * mine[f];
    }

    for (int f = 0; f < kDepth; f += 8) {
      const int r = warp * 16 + group;
      const uint32_t a[4] = {tf32(xs[now][r][f + quad]), tf32(xs[now][r + 8][f + quad]),
                             tf32(xs[now][r][f + quad + 4]), tf32(xs[now][r + 8][f + quad + 4])};
      for (int j = 0; j < kCols / 8; ++j)
        mma(acc[j], a, tf32(ys[now][j * 8 + group][f + quad]), tf32(ys[now][j * 8 + group][f + quad + 4]));
    }
    __syncthreads();
  }

  if (threadIdx.x < kRows + kCols) norm[threadIdx.x] = square;
  __syncthreads();

  for (int j = 0; j < kCols / 8; ++j) {
    for (int e = 0; e < 4; ++e) {
      const int r = warp * 16 + group + (e >> 1) * 8;
      const int c = j * 8 + quad * 2 + (e & 1);
      if (row0 + r >= m || col0 + c >= n) continue;
      const float distance = fmaxf(norm[r] + norm[kRows + c] - 2.0f * acc[j][e], 0.0f);
      out[static_cast<int64_t>(row0 + r) * n + col0 + c] = variance * __expf(-gamma * distance);
    }
  }
}

}  // namespace gp

void launch_rbf(const float* x, const float* y, float* out, int m, int n, int features, float gamma, float variance,
                cudaStream_t stream) {
  const dim3 grid((m + gp::kRows - 1) / gp::kRows, (n + gp::kCols - 1) / gp::kCols);
  gp::rbf<<<grid, gp::kThreads, 0, stream>>>(x, y, out, m, n, features, gamma, variance);
}
