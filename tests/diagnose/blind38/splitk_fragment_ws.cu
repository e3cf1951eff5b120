// y = silu(x @ w.T + bias), bf16, split along K for few tiles.
//
// Every split stores its accumulators as they are (fragment order, one float4 per thread and MMA) to a workspace; the
// split that arrives last at a tile adds all of them up, in the order of splits, and runs the epilogue. Results do not
// depend on the order of arrival. `arrivals` is zero before the launch, and zero again behind it.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cstdint>

namespace infer {
namespace kernels {

struct SplitKParams {
  const __nv_bfloat16* x;     // [m, k]
  const __nv_bfloat16* w;     // [n, k]
  const __nv_bfloat16* bias;  // [n]
  __nv_bfloat16* y;           // [m, n]
  float4* workspace;          // [tiles, splits, kMmas, kThreads]
  int* arrivals;              // [tiles]
  int m, n, k;
  int splits;
};

constexpr int kThreads = 128;
constexpr int kTileM = 64;
constexpr int kTileN = 64;
constexpr int kTileK = 32;
constexpr int kStages = 3;
constexpr int kPitch = kTileK + 8;                       // elements
constexpr int kStageElems = (kTileM + kTileN) * kPitch;
constexpr int kMmasM = 2;                                // per warp, 2 x 2 warps
constexpr int kMmasN = 4;
constexpr int kMmas = kMmasM * kMmasN;

__device__ __forceinline__ uint32_t smem_addr(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cp_async16(void* dst, const void* src, bool pred) {
  const int bytes = pred ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem_addr(dst)), "l"(src), "r"(bytes));
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::); }

template <int N>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N));
}

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(smem_addr(p)));
}

__device__ __forceinline__ void mma(float4& d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(d.x), "+f"(d.y), "+f"(d.z), "+f"(d.w)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ float silu(float v) { return v / (1.0f + __expf(-v)); }

// 64 rows of 32 elements; 256 chunks of 16 bytes, two for each thread
__device__ __forceinline__ void load_operand(__nv_bfloat16* dst, const __nv_bfloat16* src, int row0, int rows, int k0,
                                             int k) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int chunk = threadIdx.x + i * kThreads;
    const int r = chunk >> 2;
    const int c = (chunk & 3) * 8;
    const bool inside = row0 + r < rows && k0 + c < k;
    const __nv_bfloat16* from = inside ? src + static_cast<int64_t>(row0 + r) * k + k0 + c : src;
    cp_async16(dst + r * kPitch + c, from, inside);
  }
}

__global__ void __launch_bounds__(kThreads) linear_silu_splitk(SplitKParams p) {
  __shared__ __align__(16) __nv_bfloat16 smem[kStages * kStageElems];
  __shared__ bool is_last;

  const int warp = threadIdx.x >> 5;
  const int lane = threadIdx.x & 31;
  const int warp_m = (warp >> 1) * 32;
  const int warp_n = (warp & 1) * 32;
  const int m0 = blockIdx.y * kTileM;
  const int n0 = blockIdx.x * kTileN;
  const int tile = blockIdx.y * gridDim.x + blockIdx.x;
  const int split = blockIdx.z;

  // slices of K of this split; the last splits may have fewer, or none
  const int slices = (p.k + kTileK - 1) / kTileK;
  const int per_split = (slices + p.splits - 1) / p.splits;
  const int first = split * per_split;
  const int count = max(0, min(per_split, slices - first));

  auto load_slice = [&](int i) {
    if (i < count) {
      __nv_bfloat16* stage = smem + (i % kStages) * kStageElems;
      const int k0 = (first + i) * kTileK;
      load_operand(stage, p.x, m0, p.m, k0, p.k);
      load_operand(stage + kTileM * kPitch, p.w, n0, p.n, k0, p.k);
    }
    cp_async_commit();
  };

  float4 acc[kMmasM][kMmasN];
#pragma unroll
  for (int i = 0; i < kMmas; ++i) acc[i / kMmasN][i % kMmasN] = make_float4(0.f, 0.f, 0.f, 0.f);

#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) load_slice(i);

  for (int i = 0; i < count; ++i) {
    cp_async_wait<kStages - 2>();
    __syncthreads();
    load_slice(i + kStages - 1);

    const __nv_bfloat16* sx = smem + (i % kStages) * kStageElems;
    const __nv_bfloat16* sw = sx + kTileM * kPitch;
#pragma unroll
    for (int kk = 0; kk < kTileK; kk += 16) {
      uint32_t a[kMmasM][4];
      uint32_t b[kMmasN / 2][4];  // 16 columns each
#pragma unroll
      for (int mi = 0; mi < kMmasM; ++mi)
        ldmatrix_x4(a[mi], sx + (warp_m + mi * 16 + (lane & 15)) * kPitch + kk + (lane >> 4) * 8);
#pragma unroll
      for (int nj = 0; nj < kMmasN / 2; ++nj)
        ldmatrix_x4(b[nj], sw + (warp_n + nj * 16 + (lane & 7) + (lane >> 4) * 8) * kPitch + kk + ((lane >> 3) & 1) * 8);
#pragma unroll
      for (int mi = 0; mi < kMmasM; ++mi)
#pragma unroll
        for (int ni = 0; ni < kMmasN; ++ni)
          mma(acc[mi][ni], a[mi], b[ni / 2][(ni & 1) * 2], b[ni / 2][(ni & 1) * 2 + 1]);
    }
  }

  if (p.splits > 1) {
    float4* ws = p.workspace + static_cast<int64_t>(tile) * p.splits * kMmas * kThreads;
#pragma unroll
    for (int i = 0; i < kMmas; ++i)
      ws[(split * kMmas + i) * kThreads + threadIdx.x] = acc[i / kMmasN][i % kMmasN];

    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicAdd(&p.arrivals[tile], 1) == p.splits - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();

#pragma unroll
    for (int i = 0; i < kMmas; ++i) {
      float4 sum = ws[i * kThreads + threadIdx.x];
      for (int s = 1; s < p.splits; ++s) {
        const float4 part = ws[(s * kMmas + i) * kThreads + threadIdx.x];
        sum.x += part.x;
        sum.y += part.y;
        sum.z += part.z;
        sum.w += part.w;
      }
      acc[i / kMmasN][i % kMmasN] = sum;
    }
    if (threadIdx.x == 0) p.arrivals[tile] = 0;  // for the next launch
  }

  const bool pairs = (p.n & 1) == 0;
#pragma unroll
  for (int mi = 0; mi < kMmasM; ++mi) {
#pragma unroll
    for (int ni = 0; ni < kMmasN; ++ni) {
      const int col = n0 + warp_n + ni * 8 + (lane & 3) * 2;
      if (col >= p.n) continue;
      const float bias0 = __bfloat162float(p.bias[col]);
      const float bias1 = col + 1 < p.n ? __bfloat162float(p.bias[col + 1]) : 0.f;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = m0 + warp_m + mi * 16 + (lane >> 2) + h * 8;
        if (row >= p.m) continue;
        const float v0 = silu((h ? acc[mi][ni].z : acc[mi][ni].x) + bias0);
        const float v1 = silu((h ? acc[mi][ni].w : acc[mi][ni].y) + bias1);
        __nv_bfloat16* out = p.y + static_cast<int64_t>(row) * p.n + col;
        if (pairs) {
          *reinterpret_cast<__nv_bfloat162*>(out) = __floats2bfloat162_rn(v0, v1);
        } else {
          out[0] = __float2bfloat16(v0);
          if (col + 1 < p.n) out[1] = __float2bfloat16(v1);
        }
      }
    }
  }
}

}  // namespace kernels
}  // namespace infer
