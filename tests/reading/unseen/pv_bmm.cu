// ctx = probs @ V for the "eager" attention path, after an external softmax/dropout.
//
//   probs [B, H, Sq, Sk]  half
//   value [B, Sk, H, D]   half   (what falls out of the fused QKV projection, no transpose)
//   ctx   [B, Sq, H, D]   half
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

namespace eager_attn {
using namespace nvcuda;

template <int D, int ROWS = 64, int KEYS = 32>
struct PvTile {
  enum { kLdP = KEYS + 8, kLdV = D + 8, kLdO = D + 4 };
  union {
    struct {
      half p[ROWS * kLdP];
      half v[KEYS * kLdV];
    } in;
    float out[ROWS * kLdO];   // reuses the operand space once the loop is done
  };
};

template <int D, int ROWS = 64, int KEYS = 32>
__global__ void pv_kernel(const half* __restrict__ probs, const half* __restrict__ value, half* __restrict__ ctx,
                          int num_heads, int sq, int sk) {
  using Tile = PvTile<D, ROWS, KEYS>;
  __shared__ __align__(128) Tile tile;

  const int head = blockIdx.y % num_heads;
  const int batch = blockIdx.y / num_heads;
  const int row0 = blockIdx.x * ROWS;
  const int warp = threadIdx.x / 32;

  const half* p_base = probs + (int64_t)blockIdx.y * sq * sk;
  const half* v_base = value + ((int64_t)batch * sk * num_heads + head) * D;
  half* o_base = ctx + ((int64_t)batch * sq * num_heads + head) * D;
  const int token_stride = num_heads * D;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[D / 16];
#pragma unroll
  for (auto& f : acc) wmma::fill_fragment(f, 0.f);

  for (int key0 = 0; key0 < sk; key0 += KEYS) {
    for (int i = threadIdx.x; i < ROWS * KEYS; i += blockDim.x) {
      const int r = i / KEYS, c = i % KEYS;
      const bool in = row0 + r < sq && key0 + c < sk;
      tile.in.p[r * Tile::kLdP + c] = in ? p_base[(int64_t)(row0 + r) * sk + key0 + c] : __ushort_as_half(0);
    }
    for (int i = threadIdx.x; i < KEYS * D; i += blockDim.x) {
      const int r = i / D, c = i % D;
      tile.in.v[r * Tile::kLdV + c] =
          key0 + r < sk ? v_base[(int64_t)(key0 + r) * token_stride + c] : __ushort_as_half(0);
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < KEYS; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> pa;
      wmma::load_matrix_sync(pa, tile.in.p + warp * 16 * Tile::kLdP + kk, Tile::kLdP);
#pragma unroll
      for (int n = 0; n < D / 16; ++n) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> vb;
        wmma::load_matrix_sync(vb, tile.in.v + kk * Tile::kLdV + n * 16, Tile::kLdV);
        wmma::mma_sync(acc[n], pa, vb, acc[n]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int n = 0; n < D / 16; ++n)
    wmma::store_matrix_sync(tile.out + warp * 16 * Tile::kLdO + n * 16, acc[n], Tile::kLdO, wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < ROWS * D; i += blockDim.x) {
    const int r = i / D, c = i % D;
    if (row0 + r < sq) o_base[(int64_t)(row0 + r) * token_stride + c] = __float2half(tile.out[r * Tile::kLdO + c]);
  }
}

void context_layer(const half* probs, const half* value, half* ctx, int B, int H, int Sq, int Sk, int D,
                   cudaStream_t st) {
  const auto launch = [&](auto kernel, int rows) {
    const dim3 grid((Sq + rows - 1) / rows, B * H);
    const int threads = rows / 16 * 32;
    kernel<<<grid, threads, 0, st>>>(probs, value, ctx, H, Sq, Sk);
  };
  if (D == 64) {
    launch(pv_kernel<64>, 64);
  } else if (D == 80) {
    launch(pv_kernel<80, 32>, 32);
  } else if (D == 128) {
    launch(pv_kernel<128, 32>, 32);
  }
}

}  // namespace eager_attn
