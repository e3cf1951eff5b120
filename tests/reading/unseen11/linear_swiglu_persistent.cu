#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

// Gate/up projection fused with SwiGLU.  W_gu holds gate and up rows INTERLEAVED in blocks of 16 rows:
//   rows [32 i, 32 i + 16) -> gate rows [16 i, 16 i + 16),  rows [32 i + 16, 32 i + 32) -> up rows [16 i, 16 i + 16)
// 数据布局见上。持久化 kernel：每个 block 循环处理多个 tile。

namespace ffn {

using bf16 = __nv_bfloat16;
using namespace nvcuda::wmma;

struct Params {
  const bf16* __restrict__ x;     // [tokens, hidden]
  const bf16* __restrict__ w_gu;  // [2 * inter, hidden]
  bf16* __restrict__ y;           // [tokens, inter]
  int tokens, hidden, inter;
};

__device__ __forceinline__ float silu(float v) { return v * __frcp_rn(1.f + __expf(-v)); }

template <int kWarps>
__global__ void __launch_bounds__(kWarps * 32) swiglu_interleaved_kernel(const Params p) {
  __shared__ __align__(32) float buf[kWarps][2][256];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int tiles_m = p.tokens / 16, tiles_n = p.inter / 16;
  for (int t = blockIdx.x * kWarps + warp; t < tiles_m * tiles_n; t += gridDim.x * kWarps) {
    const int tm = t / tiles_n, tn = t % tiles_n;
    fragment<accumulator, 16, 16, 16, float> g, u;
    fill_fragment(g, 0.f);
    fill_fragment(u, 0.f);
    const bf16* xa = p.x + (size_t)tm * 16 * p.hidden;
    const bf16* wg = p.w_gu + (size_t)tn * 32 * p.hidden;
    const bf16* wu = wg + (size_t)16 * p.hidden;
    for (int k = 0; k < p.hidden; k += 16) {
      fragment<matrix_a, 16, 16, 16, bf16, row_major> a;
      fragment<matrix_b, 16, 16, 16, bf16, col_major> b;
      load_matrix_sync(a, xa + k, p.hidden);
      load_matrix_sync(b, wg + k, p.hidden);
      mma_sync(g, a, b, g);
      load_matrix_sync(b, wu + k, p.hidden);
      mma_sync(u, a, b, u);
    }
    store_matrix_sync(buf[warp][0], g, 16, mem_row_major);
    store_matrix_sync(buf[warp][1], u, 16, mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32)
      p.y[(size_t)(tm * 16 + i / 16) * p.inter + tn * 16 + i % 16] = __float2bfloat16(silu(buf[warp][0][i]) * buf[warp][1][i]);
    __syncwarp();
  }
}

cudaError_t swiglu_interleaved(const void* x, const void* w_gu, void* y, int tokens, int hidden, int inter, cudaStream_t stream) {
  if (tokens % 16 || hidden % 16 || inter % 16) return cudaErrorInvalidValue;
  int dev = 0, sms = 0, per_sm = 0;
  cudaGetDevice(&dev);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, swiglu_interleaved_kernel<4>, 128, 0);
  Params p{static_cast<const bf16*>(x), static_cast<const bf16*>(w_gu), static_cast<bf16*>(y), tokens, hidden, inter};
  swiglu_interleaved_kernel<4><<<sms * per_sm, 128, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace ffn
