// Fused MLP half: Y = GELU(X @ W^T + bias), split over k inside one cooperative launch.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <mma.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

namespace cg = cooperative_groups;
namespace mlp {

enum class Activation { kNone, kRelu, kGeluTanh };

struct Problem {
  int tokens;
  int d_model;
  int d_ff;
  int split_k;
};

template <Activation act>
__device__ __forceinline__ float activate(float x) {
  if constexpr (act == Activation::kRelu) return fmaxf(x, 0.f);
  if constexpr (act == Activation::kGeluTanh) {
    const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1.f + tanhf(inner));
  }
  return x;
}

struct WarpTile {
  static constexpr int kM = 16, kN = 64, kK = 16;
  using A = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major>;
  using B = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __half, nvcuda::wmma::col_major>;
  using C = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float>;

  C c[kN / 16];

  __device__ WarpTile() {
    for (auto& f : c) nvcuda::wmma::fill_fragment(f, 0.f);
  }
  // x: 16 rows, w: 64 rows, both contiguous along k
  __device__ void accumulate(const __half* x, const __half* w, int ld, int k_begin, int k_end) {
    for (int k = k_begin; k < k_end; k += kK) {
      A a;
      nvcuda::wmma::load_matrix_sync(a, x + k, ld);
#pragma unroll
      for (int j = 0; j < kN / 16; ++j) {
        B b;
        nvcuda::wmma::load_matrix_sync(b, w + j * 16 * ld + k, ld);
        nvcuda::wmma::mma_sync(c[j], a, b, c[j]);
      }
    }
  }
  __device__ void store(float* to, int ld) const {
#pragma unroll
    for (int j = 0; j < kN / 16; ++j)
      nvcuda::wmma::store_matrix_sync(to + j * 16, c[j], ld, nvcuda::wmma::mem_row_major);
  }
};

// Grid: (d_ff / 64, tokens / 64, split_k), 4 warps. workspace: [split_k][tokens][d_ff] floats.
template <Activation act>
__global__ void mlp_up_kernel(const __half* __restrict__ x, const __half* __restrict__ w, const __half* __restrict__ bias,
                              float* workspace, __half* __restrict__ y, Problem prob) {
  const int warp = threadIdx.y;
  const int m = blockIdx.y * 64 + warp * 16;
  const int n = blockIdx.x * 64;
  const int per_split = (prob.d_model / 16 + prob.split_k - 1) / prob.split_k * 16;
  const int k_begin = blockIdx.z * per_split;
  const int k_end = min(prob.d_model, k_begin + per_split);

  WarpTile tile;
  tile.accumulate(x + (int64_t)m * prob.d_model, w + (int64_t)n * prob.d_model, prob.d_model, k_begin, k_end);
  tile.store(workspace + ((int64_t)blockIdx.z * prob.tokens + m) * prob.d_ff + n, prob.d_ff);

  cg::this_grid().sync();

  const int64_t total = (int64_t)prob.tokens * prob.d_ff / 2;
  const auto grid = cg::this_grid();
  for (int64_t i = grid.thread_rank(); i < total; i += grid.size()) {
    const int64_t at = 2 * i;
    const int col = at % prob.d_ff;
    float2 sum = __half22float2(*reinterpret_cast<const __half2*>(bias + col));
    for (int s = 0; s < prob.split_k; ++s) {
      const float2 part = *reinterpret_cast<const float2*>(workspace + s * prob.tokens * (int64_t)prob.d_ff + at);
      sum.x += part.x;
      sum.y += part.y;
    }
    *reinterpret_cast<__half2*>(y + at) = __floats2half2_rn(activate<act>(sum.x), activate<act>(sum.y));
  }
}

class MlpUp {
 public:
  MlpUp(int d_model, int d_ff) : d_model_(d_model), d_ff_(d_ff) {
    if (d_model % 16 || d_ff % 64) throw std::invalid_argument("MlpUp: sizes must be multiples of the tile");
  }
  ~MlpUp() { if (workspace_) cudaFree(workspace_); }
  MlpUp(const MlpUp&) = delete;

  void operator()(const __half* x, const __half* w, const __half* bias, __half* y, int tokens, cudaStream_t stream) {
    Problem prob{tokens, d_model_, d_ff_, choose_split(tokens)};
    const size_t need = sizeof(float) * prob.split_k * tokens * d_ff_;
    if (need > workspace_bytes_) {
      cudaFree(workspace_);
      cudaMalloc(&workspace_, need);
      workspace_bytes_ = need;
    }
    dim3 grid(d_ff_ / 64, tokens / 64, prob.split_k);
    dim3 block(32, 4);
    void* args[] = {&x, &w, &bias, &workspace_, &y, &prob};
    auto err = cudaLaunchCooperativeKernel(reinterpret_cast<void*>(&mlp_up_kernel<Activation::kGeluTanh>), grid, block,
                                           args, 0, stream);
    if (err != cudaSuccess) throw std::runtime_error(cudaGetErrorString(err));
  }

 private:
  int choose_split(int tokens) const { return tokens * d_ff_ >= 1 << 20 ? 1 : 3; }
  int d_model_, d_ff_;
  float* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
};

}  // namespace mlp
