// Causal attention, [B, S, H, D] tensors. Blocks of keys above the diagonal are skipped; heads of 32; wmma, one warp per 16 rows.
#include <cuda_bf16.h>
#include <mma.h>

using bf16 = __nv_bfloat16;
namespace w = nvcuda::wmma;

constexpr int QB = 32, KB = 32, HD = 32;

struct Smem {
  alignas(128) bf16 q[QB * 40];
  alignas(128) bf16 k[KB * 40];
  alignas(128) bf16 v[KB * 40];
  alignas(128) float s[QB * 36];
  alignas(128) bf16 p[QB * 40];
  alignas(128) float pv[QB * 36];
};

static __device__ void tile_in(bf16* to, const bf16* from, long stride, int rows) {
  for (int i = threadIdx.x; i < 32 * 4; i += 64) {
    int r = i / 4, c = (i % 4) * 8;
    int4 x = make_int4(0, 0, 0, 0);
    if (r < rows) x = *(const int4*)(from + r * stride + c);
    *(int4*)(to + r * 40 + c) = x;
  }
}

__global__ void causal(const bf16* Q, const bf16* K, const bf16* V, bf16* O, int len, int heads) {
  __shared__ Smem sm;
  const int b = blockIdx.z, h = blockIdx.y, qb = gridDim.x - 1 - blockIdx.x;
  const long stride = (long)heads * HD;
  const long off = (long)b * len * stride + (long)h * HD;
  const int q0 = qb * QB, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  tile_in(sm.q, Q + off + q0 * stride, stride, len - q0);
  const int row = warp * 16 + lane / 2, side = (lane & 1) * 16;
  float o[16], best = -INFINITY, total = 0;
  for (int i = 0; i < 16; i++) o[i] = 0;
  const float scale = rsqrtf((float)HD);
  const int blocks = qb + 1;
  for (int kb = 0; kb < blocks; kb++) {
    const int k0 = kb * KB;
    tile_in(sm.k, K + off + k0 * stride, stride, len - k0);
    tile_in(sm.v, V + off + k0 * stride, stride, len - k0);
    __syncthreads();
    w::fragment<w::matrix_a, 16, 16, 16, bf16, w::row_major> a;
    w::fragment<w::accumulator, 16, 16, 16, float> c;
    for (int n = 0; n < KB; n += 16) {
      w::fill_fragment(c, 0.0f);
      for (int d = 0; d < HD; d += 16) {
        w::fragment<w::matrix_b, 16, 16, 16, bf16, w::col_major> kt;
        w::load_matrix_sync(a, sm.q + warp * 16 * 40 + d, 40);
        w::load_matrix_sync(kt, sm.k + n * 40 + d, 40);
        w::mma_sync(c, a, kt, c);
      }
      w::store_matrix_sync(sm.s + warp * 16 * 36 + n, c, 36, w::mem_row_major);
    }
    __syncwarp();
    float top = best;
    for (int j = 0; j < 16; j++) {
      float& x = sm.s[row * 36 + side + j];
      x = k0 + side + j <= q0 + row ? x * scale : -INFINITY;
      top = fmaxf(top, x);
    }
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    float part = 0;
    for (int j = 0; j < 16; j++) {
      float e = __expf(sm.s[row * 36 + side + j] - top);
      part += e;
      sm.p[row * 40 + side + j] = __float2bfloat16(e);
    }
    part += __shfl_xor_sync(0xffffffffu, part, 1);
    const float keep = __expf(best - top);
    total = total * keep + part;
    best = top;
    __syncwarp();
    for (int n = 0; n < HD; n += 16) {
      w::fill_fragment(c, 0.0f);
      for (int j = 0; j < KB; j += 16) {
        w::fragment<w::matrix_b, 16, 16, 16, bf16, w::row_major> vf;
        w::load_matrix_sync(a, sm.p + warp * 16 * 40 + j, 40);
        w::load_matrix_sync(vf, sm.v + j * 40 + n, 40);
        w::mma_sync(c, a, vf, c);
      }
      w::store_matrix_sync(sm.pv + warp * 16 * 36 + n, c, 36, w::mem_row_major);
    }
    __syncwarp();
    for (int i = 0; i < 16; i++) o[i] = o[i] + sm.pv[row * 36 + side + i];
    __syncthreads();
  }
  if (q0 + row < len)
    for (int i = 0; i < 16; i++) O[off + (q0 + row) * stride + side + i] = __float2bfloat16(o[i] / total);
}
