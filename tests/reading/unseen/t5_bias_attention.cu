// T5 encoder attention: no 1/sqrt(d) scaling, learned relative position bias
// added to the logits.
//
//   q, k, v, o : [batch, heads, seq, 64]  fp16
//   bias       : [heads, seq, seq]        fp16 (shared by the batch)
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <memory>

namespace cg = cooperative_groups;
namespace t5 {

using nvcuda::wmma::load_matrix_sync;
using nvcuda::wmma::mma_sync;
using nvcuda::wmma::store_matrix_sync;

constexpr int D = 64;

struct Config {
  static constexpr int rows = 32;     // queries per block
  static constexpr int cols = 64;     // keys per step
  static constexpr int warps = 8;     // 2 x 4 tiles of 16 x 16, both products
  static constexpr int ldh = D + 8;
  static constexpr int lds = cols + 8;
};

template <class C>
struct SharedStorage {
  alignas(32) half q[C::rows][C::ldh];
  alignas(32) half k[C::cols][C::ldh];
  alignas(32) half v[C::cols][C::ldh];
  alignas(32) half p[C::rows][C::lds];
  alignas(32) float s[C::rows][C::lds];
  float row_max[C::rows];
  float row_sum[C::rows];
  float rescale[C::rows];
};

template <typename Tile>
__device__ float tile_max(const Tile& tile, float x) {
  for (int i = tile.size() / 2; i > 0; i /= 2) x = fmaxf(x, tile.shfl_xor(x, i));
  return x;
}
template <typename Tile>
__device__ float tile_sum(const Tile& tile, float x) {
  for (int i = tile.size() / 2; i > 0; i /= 2) x += tile.shfl_xor(x, i);
  return x;
}

template <class C>
__global__ void __launch_bounds__(C::warps * 32)
encoder_attention(const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v,
                  const half* __restrict__ bias, half* __restrict__ o, int seq) {
  extern __shared__ __align__(128) unsigned char storage[];
  auto& sh = *reinterpret_cast<SharedStorage<C>*>(storage);

  cg::thread_block block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  const int w = warp.meta_group_rank();
  const int wr = w / 4, wc = w % 4;
  const int tid = block.thread_rank();

  const int q0 = blockIdx.x * C::rows;
  const int head = blockIdx.y;
  const size_t slab = ((size_t)blockIdx.z * gridDim.y + head) * seq * D;
  const half* head_bias = bias + (size_t)head * seq * seq;

  for (int i = tid; i < C::rows * D; i += block.size())
    sh.q[i / D][i % D] = q0 + i / D < seq ? q[slab + (size_t)q0 * D + i] : half(0.f);
  if (tid < C::rows) {
    sh.row_max[tid] = -INFINITY;
    sh.row_sum[tid] = 0.f;
  }

  // the output tile stays in the accumulator; rescaling goes through shared memory
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> out;
  fill_fragment(out, 0.f);

  for (int k0 = 0; k0 < seq; k0 += C::cols) {
    block.sync();
    for (int i = tid; i < C::cols * D; i += block.size()) {
      const bool ok = k0 + i / D < seq;
      sh.k[i / D][i % D] = ok ? k[slab + (size_t)k0 * D + i] : half(0.f);
      sh.v[i / D][i % D] = ok ? v[slab + (size_t)k0 * D + i] : half(0.f);
    }
    block.sync();

    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> s;
    fill_fragment(s, 0.f);
    for (int d = 0; d < D; d += 16) {
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> fa;
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::col_major> fb;
      load_matrix_sync(fa, &sh.q[wr * 16][d], C::ldh);
      load_matrix_sync(fb, &sh.k[wc * 16][d], C::ldh);
      mma_sync(s, fa, fb, s);
    }
    store_matrix_sync(&sh.s[wr * 16][wc * 16], s, C::lds, nvcuda::wmma::mem_row_major);
    block.sync();

    for (int r = w; r < C::rows; r += C::warps) {
      const int qi = q0 + r;
      float x[C::cols / 32];
      float mx = -INFINITY;
      for (int c = 0; c < C::cols / 32; ++c) {
        const int kj = k0 + c * 32 + warp.thread_rank();
        x[c] = -INFINITY;
        if (kj < seq) {
          x[c] = sh.s[r][c * 32 + warp.thread_rank()];
          if (qi < seq) x[c] += __half2float(head_bias[(size_t)qi * seq + kj]);
        }
        mx = fmaxf(mx, x[c]);
      }
      const float before = sh.row_max[r];
      const float now = fmaxf(before, tile_max(warp, mx));
      float part = 0.f;
      for (int c = 0; c < C::cols / 32; ++c) {
        const float e = expf(x[c] - now);
        part += e;
        sh.p[r][c * 32 + warp.thread_rank()] = __float2half(e);
      }
      part = tile_sum(warp, part);
      if (warp.thread_rank() == 0) {
        const float f = expf(before - now);
        sh.rescale[r] = f;
        sh.row_sum[r] = sh.row_sum[r] * f + part;
        sh.row_max[r] = now;
      }
    }
    block.sync();

    if (k0 > 0) {
      store_matrix_sync(&sh.s[wr * 16][wc * 16], out, C::lds, nvcuda::wmma::mem_row_major);
      warp.sync();
      for (int i = warp.thread_rank(); i < 256; i += 32) sh.s[wr * 16 + i / 16][wc * 16 + i % 16] *= sh.rescale[wr * 16 + i / 16];
      warp.sync();
      load_matrix_sync(out, &sh.s[wr * 16][wc * 16], C::lds, nvcuda::wmma::mem_row_major);
    }
    for (int kk = 0; kk < C::cols; kk += 16) {
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> fp;
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::row_major> fv;
      load_matrix_sync(fp, &sh.p[wr * 16][kk], C::lds);
      load_matrix_sync(fv, &sh.v[kk][wc * 16], C::ldh);
      mma_sync(out, fp, fv, out);
    }
  }

  block.sync();
  store_matrix_sync(&sh.s[wr * 16][wc * 16], out, C::lds, nvcuda::wmma::mem_row_major);
  block.sync();
  for (int i = tid; i < C::rows * D; i += block.size())
    if (q0 + i / D < seq) o[slab + (size_t)q0 * D + i] = __float2half(sh.s[i / D][i % D] / sh.row_sum[i / D]);
}

void encoder_attention_forward(const half* q, const half* k, const half* v, const half* bias, half* o, int batch,
                               int heads, int seq, cudaStream_t stream) {
  using C = Config;
  const dim3 grid((seq + C::rows - 1) / C::rows, heads, batch);
  encoder_attention<C><<<grid, C::warps * 32, sizeof(SharedStorage<C>), stream>>>(q, k, v, bias, o, seq);
}

}  // namespace t5
