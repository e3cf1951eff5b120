// Attention over chosen blocks of keys: for each block of 16 queries a list of blocks of 16 keys (compressed rows).
#include <cuda_bf16.h>
#include <mma.h>

namespace sparse {

namespace wm = nvcuda::wmma;
using Bf = __nv_bfloat16;

struct Running {
  float top, total;
  __device__ void begin() { top = -1e30f, total = 0.f; }
  // returns what the old sums must be multiplied by
  __device__ float raise(float candidate) {
    const float next = candidate > top ? candidate : top;
    const float factor = exp2f((top - next) * 1.4426950408889634f);
    top = next;
    total *= factor;
    return factor;
  }
};

__global__ void block_sparse_attention(Bf* __restrict__ result, const Bf* __restrict__ query,
                                       const Bf* __restrict__ key, const Bf* __restrict__ value,
                                       const int* __restrict__ first_of_row, const int* __restrict__ block_of,
                                       int length, float scale) {
  constexpr int kDim = 32;
  __shared__ __align__(32) float scores[16 * 16];
  __shared__ __align__(32) Bf weights[16 * 16];
  __shared__ __align__(32) float sums[16 * kDim];
  const int lane = threadIdx.x;
  const int block_row = blockIdx.x;
  const long head = blockIdx.y;
  const Bf* q = query + (head * length + block_row * 16) * kDim;
  const Bf* k = key + head * length * kDim;
  const Bf* v = value + head * length * kDim;

  wm::fragment<wm::matrix_a, 16, 16, 16, Bf, wm::row_major> fq[kDim / 16];
  for (int d = 0; d < kDim / 16; ++d) wm::load_matrix_sync(fq[d], q + d * 16, kDim);
  for (int i = lane; i < 16 * kDim; i += 32) sums[i] = 0.f;
  Running row;
  row.begin();
  __syncwarp();

  for (int at = first_of_row[block_row]; at < first_of_row[block_row + 1]; ++at) {
    const int column = (at - first_of_row[block_row]) * 16;
    wm::fragment<wm::accumulator, 16, 16, 16, float> fs;
    wm::fill_fragment(fs, 0.f);
    for (int d = 0; d < kDim / 16; ++d) {
      wm::fragment<wm::matrix_b, 16, 16, 16, Bf, wm::col_major> fk;
      wm::load_matrix_sync(fk, k + column * kDim + d * 16, kDim);
      wm::mma_sync(fs, fq[d], fk, fs);
    }
    wm::store_matrix_sync(scores, fs, 16, wm::mem_row_major);
    __syncwarp();
    if (lane < 16) {
      float top = -1e30f;
      for (int j = 0; j < 16; ++j)
        if (column + j <= block_row * 16 + lane) top = fmaxf(top, scores[lane * 16 + j] * scale);
      const float factor = row.raise(top);
      for (int j = 0; j < 16; ++j) {
        const bool seen = column + j <= block_row * 16 + lane;
        const float w = seen ? exp2f((scores[lane * 16 + j] * scale - row.top) * 1.4426950408889634f) : 0.f;
        weights[lane * 16 + j] = __float2bfloat16(w);
        row.total += w;
      }
      for (int d = 0; d < kDim; ++d) sums[lane * kDim + d] *= factor;
    }
    __syncwarp();
    wm::fragment<wm::matrix_a, 16, 16, 16, Bf, wm::row_major> fw;
    wm::load_matrix_sync(fw, weights, 16);
    for (int d = 0; d < kDim / 16; ++d) {
      wm::fragment<wm::matrix_b, 16, 16, 16, Bf, wm::row_major> fv;
      wm::fragment<wm::accumulator, 16, 16, 16, float> fo;
      wm::load_matrix_sync(fv, v + column * kDim + d * 16, kDim);
      wm::load_matrix_sync(fo, sums + d * 16, kDim, wm::mem_row_major);
      wm::mma_sync(fo, fw, fv, fo);
      wm::store_matrix_sync(sums + d * 16, fo, kDim, wm::mem_row_major);
    }
    __syncwarp();
  }
  if (lane < 16)
    for (int d = 0; d < kDim; ++d)
      result[(head * length + block_row * 16 + lane) * kDim + d] = __float2bfloat16(sums[lane * kDim + d] / row.total);
}

}  // namespace sparse
