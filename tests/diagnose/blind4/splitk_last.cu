// D = relu(A * B^T + bias), split along K within one launch.
//
// Every block writes its partial sums to a workspace of its own and takes a ticket; the block that takes the last ticket
// of a tile adds all partial sums up, in the order of the splits (so that the result does not depend on which block
// that is), applies the epilogue, and resets the counter for the next launch.
//
// One warp computes 16 x 32 with mma.sync.m16n8k8 (fp16 in, fp32 out); 2 warps per block: 32 x 32.
#include <cuda_fp16.h>
#include <cstdint>

namespace splitk {

constexpr int kTileM = 32;
constexpr int kTileN = 32;
constexpr int kTileK = 16;
constexpr int kLd = kTileK + 8;
constexpr int kThreads = 64;

struct Params {
  const __half* a;      // [m, k]
  const __half* b;      // [n, k]
  const float* bias;    // [n]
  __half* d;            // [m, n]
  float* workspace;     // [splits, m, n]
  int* tickets;         // [tiles], zero before the first launch
  int m, n, k;
  int k_per_split;      // a multiple of kTileK
};

__device__ __forceinline__ void mma_m16n8k8(float* c, const uint32_t* a, uint32_t b) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
}

__device__ __forceinline__ void stage(__half (*tile)[kLd], const __half* matrix, int row0, int rows, int k0, int k_end,
                                      int ld) {
  for (int i = threadIdx.x; i < 32 * kTileK; i += kThreads) {
    const int r = i / kTileK;
    const int kk = i % kTileK;
    const bool ok = row0 + r < rows && k0 + kk < k_end;
    tile[r][kk] = ok ? matrix[static_cast<int64_t>(row0 + r) * ld + k0 + kk] : __half(0.0f);
  }
}

__device__ __forceinline__ uint32_t two(const __half* p) { return *reinterpret_cast<const uint32_t*>(p); }

__global__ void gemm_bias_relu(Params p) {
  __shared__ __half tile_a[kTileM][kLd];
  __shared__ __half tile_b[kTileN][kLd];
  __shared__ bool is_last;

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int row0 = blockIdx.y * kTileM;
  const int col0 = blockIdx.x * kTileN;
  const int k_begin = blockIdx.z * p.k_per_split;
  const int k_end = min(p.k, k_begin + p.k_per_split);

  float acc[4][4];
  for (int j = 0; j < 4; ++j)
    for (int e = 0; e < 4; ++e) acc[j][e] = 0.0f;

  for (int k0 = k_begin; k0 < k_end; k0 += kTileK) {
    stage(tile_a, p.a, row0, p.m, k0, k_end, p.k);
    stage(tile_b, p.b, col0, p.n, k0, k_end, p.k);
    __syncthreads();
    for (int kk = 0; kk < kTileK; kk += 8) {
      const uint32_t a[2] = {two(&tile_a[warp * 16 + lane / 4][kk + lane % 4 * 2]),
                             two(&tile_a[warp * 16 + lane / 4 + 8][kk + lane % 4 * 2])};
      for (int j = 0; j < 4; ++j) mma_m16n8k8(acc[j], a, two(&tile_b[j * 8 + lane / 4][kk + lane % 4 * 2]));
    }
    __syncthreads();
  }

  // partial sums
  float* mine = p.workspace + static_cast<int64_t>(blockIdx.z) * p.m * p.n;
  for (int j = 0; j < 4; ++j) {
    for (int e = 0; e < 4; ++e) {
      const int row = row0 + warp * 16 + lane / 4 + e / 2 * 8;
      const int col = col0 + j * 8 + lane % 4 * 2 + e % 2;
      if (row < p.m && col < p.n) mine[row * p.n + col] = acc[j][e];
    }
  }

  // the sums must be visible to the device before the ticket is
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    int* ticket = &p.tickets[blockIdx.y * gridDim.x + blockIdx.x];
    const int taken = atomicAdd(ticket, 1);
    is_last = taken == static_cast<int>(gridDim.z) - 1;
    if (is_last) *ticket = 0;
    __threadfence();
  }
  __syncthreads();
  if (!is_last) return;

  for (int i = threadIdx.x; i < kTileM * kTileN; i += kThreads) {
    const int row = row0 + i / kTileN;
    const int col = col0 + i % kTileN;
    if (row >= p.m || col >= p.n) continue;
    float sum = p.bias[col];
    for (unsigned s = 0; s < gridDim.z; ++s) {
      const volatile float* part = p.workspace + static_cast<int64_t>(s) * p.m * p.n;
      sum += part[row * p.n + col];
    }
    p.d[static_cast<int64_t>(row) * p.n + col] = __float2half(fmaxf(sum, 0.0f));
  }
}

}  // namespace splitk

void gemm_bias_relu_splitk(splitk::Params p, int splits, cudaStream_t stream) {
  p.k_per_split = ((p.k + splits - 1) / splits + splitk::kTileK - 1) / splitk::kTileK * splitk::kTileK;
  const dim3 grid((p.n + splitk::kTileN - 1) / splitk::kTileN, (p.m + splitk::kTileM - 1) / splitk::kTileM, splits);
  splitk::gemm_bias_relu<<<grid, splitk::kThreads, 0, stream>>>(p);
}
