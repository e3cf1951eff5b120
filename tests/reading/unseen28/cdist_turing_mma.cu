// Pairwise euclidean distances for fp16 embeddings (kNN / k-means pre-step)
//     d(i, j)^2 = |x_i|^2 + |y_j|^2 - 2 <x_i, y_j>
// mma.m16n8k8 so that it also runs on a 2080 Ti.

#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <vector>

namespace {

const int kTile = 64;
const int kDepth = 32;
const int kPitch = kDepth + 8;
const int kBlock = 128;

__device__ __forceinline__ void mma_m16n8k8(float* c, const unsigned* a, unsigned b) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
}

// one warp per row
__global__ void row_norm2_kernel(const __half* __restrict__ x, float* __restrict__ norm, int rows, int dim) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  float s = 0.f;
  for (int d = threadIdx.x % 32; d < dim; d += 32) {
    const float v = __half2float(x[(size_t)row * dim + d]);
    s += v * v;
  }
  for (int o = 16; o > 0; o >>= 1) s += __shfl_down_sync(0xffffffff, s, o);
  if (threadIdx.x % 32 == 0) norm[row] = s;
}

__device__ __forceinline__ void stage(__half (*dst)[kPitch], const __half* src, int row0, int rows, int d0, int dim) {
  for (int i = threadIdx.x; i < kTile * kDepth; i += kBlock) {
    const int r = i / kDepth, c = i % kDepth;
    const bool ok = row0 + r < rows && d0 + c < dim;
    dst[r][c] = ok ? src[(size_t)(row0 + r) * dim + d0 + c] : __float2half(0.f);
  }
}

template <bool kSquared>
__global__ void __launch_bounds__(kBlock)
cdist_kernel(const __half* __restrict__ x, const __half* __restrict__ y, const float* __restrict__ xn,
             const float* __restrict__ yn, float* __restrict__ dist, int n, int m, int dim) {
  __shared__ __align__(16) __half sx[kTile][kPitch];
  __shared__ __align__(16) __half sy[kTile][kPitch];

  const int row0 = blockIdx.y * kTile;
  const int col0 = blockIdx.x * kTile;
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const int g = lane >> 2;
  const int t = lane & 3;
  const int wr = (warp >> 1) * 32;
  const int wc = (warp & 1) * 32;

  float acc[2][4][4];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int e = 0; e < 4; ++e) acc[i][j][e] = 0.f;

  for (int d0 = 0; d0 < dim; d0 += kDepth) {
    stage(sx, x, row0, n, d0, dim);
    stage(sy, y, col0, m, d0, dim);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; k += 8) {
      unsigned a[2][2], b[4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        a[i][0] = *reinterpret_cast<const unsigned*>(&sx[wr + i * 16 + g][k + 2 * t]);
        a[i][1] = *reinterpret_cast<const unsigned*>(&sx[wr + i * 16 + g + 8][k + 2 * t]);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) b[j] = *reinterpret_cast<const unsigned*>(&sy[wc + j * 8 + g][k + 2 * t]);
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) mma_m16n8k8(acc[i][j], a[i], b[j]);
    }
    __syncthreads();
  }

  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (int e = 0; e < 4; ++e) {
        const int r = row0 + wr + i * 16 + g + (e >> 1) * 8;
        const int c = col0 + wc + j * 8 + 2 * t + (e & 1);
        if (r < n && c < m) {
          float d2 = fmaxf(xn[r] + yn[c] - 2.f * acc[i][j][e], 0.f);
          dist[(size_t)r * m + c] = kSquared ? d2 : sqrtf(d2);
        }
      }
    }
  }
}

void row_norm2(const at::Tensor& t, at::Tensor& out, cudaStream_t stream) {
  const int rows = t.size(0);
  row_norm2_kernel<<<(rows + 3) / 4, 128, 0, stream>>>(reinterpret_cast<const __half*>(t.data_ptr<at::Half>()),
                                                      out.data_ptr<float>(), rows, (int)t.size(1));
}

}  // namespace

at::Tensor cdist(const at::Tensor& x, const at::Tensor& y, bool squared) {
  TORCH_CHECK(x.is_cuda() && y.is_cuda(), "cdist: CUDA tensors only");
  TORCH_CHECK(x.dim() == 2 && y.dim() == 2, "cdist: x must be [n, dim] and y [m, dim]");
  TORCH_CHECK(x.size(1) == y.size(1), "cdist: dimensions differ");
  TORCH_CHECK(x.scalar_type() == at::kHalf && y.scalar_type() == at::kHalf, "cdist: fp16 only");
  TORCH_CHECK(x.is_contiguous() && y.is_contiguous(), "cdist: must be contiguous");
  const int n = x.size(0), m = y.size(0), dim = x.size(1);

  auto opts = x.options().dtype(at::kFloat);
  auto xn = torch::empty({n}, opts);
  auto yn = torch::empty({m}, opts);
  auto dist = torch::empty({n, m}, opts);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  row_norm2(x, xn, stream);
  row_norm2(y, yn, stream);

  const dim3 grid((m + kTile - 1) / kTile, (n + kTile - 1) / kTile);
  const __half* xp = reinterpret_cast<const __half*>(x.data_ptr<at::Half>());
  const __half* yp = reinterpret_cast<const __half*>(y.data_ptr<at::Half>());
  if (squared)
    cdist_kernel<true><<<grid, kBlock, 0, stream>>>(xp, yp, xn.data_ptr<float>(), yn.data_ptr<float>(),
                                                    dist.data_ptr<float>(), n, m, dim);
  else
    cdist_kernel<false><<<grid, kBlock, 0, stream>>>(xp, yp, xn.data_ptr<float>(), yn.data_ptr<float>(),
                                                     dist.data_ptr<float>(), n, m, dim);
  return dist;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("cdist", &cdist, "pairwise distances, fp16 in, fp32 out", py::arg("x"), py::arg("y"),
        py::arg("squared") = false);
}
