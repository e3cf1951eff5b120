// out = LayerNorm(x) @ weight^T + bias in one launch (bf16 in and out, statistics and sums in fp32).
//
// A block normalises 32 rows once into shared memory and multiplies them with 64 rows of the weight, which is read
// straight from global memory: `hidden` and `n_out` are multiples of 16, `n_rows` is anything.
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;
using bf16 = __nv_bfloat16;

#define FULL_MASK 0xffffffffu
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

static constexpr int BLOCK_ROWS = 32;
static constexpr int BLOCK_COLS = 64;
static constexpr int NUM_WARPS = 4;  // 2 x 2, of 16 rows and 32 columns each
static constexpr int PAD = 8;
static constexpr int STAGE_LD = 36;

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_xor_sync(FULL_MASK, v, offset);
  return v;
}

__global__ void __launch_bounds__(NUM_WARPS * 32)
ln_linear_fwd(const bf16* __restrict__ x,        // (n_rows, hidden)
              const float* __restrict__ gamma,   // (hidden)
              const float* __restrict__ beta,    // (hidden)
              const bf16* __restrict__ weight,   // (n_out, hidden)
              const float* __restrict__ bias,    // (n_out)
              bf16* __restrict__ out,            // (n_rows, n_out)
              float* __restrict__ mean_out,      // (n_rows), for the backward pass
              float* __restrict__ rstd_out,      // (n_rows)
              int n_rows, int hidden, int n_out, float eps) {
  extern __shared__ __align__(128) unsigned char smem_raw[];
  const int ld = hidden + PAD;
  bf16* xn = reinterpret_cast<bf16*>(smem_raw);
  float* stage = reinterpret_cast<float*>(smem_raw + BLOCK_ROWS * ld * sizeof(bf16));

  const int warp = threadIdx.x >> 5;
  const int lane = threadIdx.x & 31;
  const int row_base = blockIdx.y * BLOCK_ROWS;
  const int col_base = blockIdx.x * BLOCK_COLS;

  // ---- normalise: warp w has the rows w, w + 4, w + 8, ...
  for (int r = warp; r < BLOCK_ROWS; r += NUM_WARPS) {
    const int row = row_base + r;
    if (row >= n_rows) {
      for (int c = lane; c < hidden; c += 32) xn[r * ld + c] = __float2bfloat16(0.f);
      continue;
    }
    const bf16* src = x + (size_t)row * hidden;
    float sum = 0.f;
    for (int c = lane; c < hidden; c += 32) sum += __bfloat162float(src[c]);
    const float mean = warp_sum(sum) / hidden;
    float sq = 0.f;
    for (int c = lane; c < hidden; c += 32) {
      const float d = __bfloat162float(src[c]) - mean;
      sq += d * d;
    }
    const float rstd = rsqrtf(warp_sum(sq) / hidden + eps);
    for (int c = lane; c < hidden; c += 32) {
      const float v = (__bfloat162float(src[c]) - mean) * rstd;
      xn[r * ld + c] = __float2bfloat16(v * gamma[c] + beta[c]);
    }
    if (blockIdx.x == 0 && lane == 0) {
      mean_out[row] = mean;
      rstd_out[row] = rstd;
    }
  }
  __syncthreads();

  // ---- multiply
  const int wr = warp / 2;
  const int wc = warp % 2;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
  for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[j], 0.f);

  for (int k = 0; k < hidden; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fa;
    wmma::load_matrix_sync(fa, xn + wr * 16 * ld + k, ld);
    for (int j = 0; j < 2; ++j) {
      const int col = col_base + wc * 32 + j * 16;
      if (col >= n_out) break;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> fb;
      wmma::load_matrix_sync(fb, weight + (size_t)col * hidden + k, hidden);
      wmma::mma_sync(acc[j], fa, fb, acc[j]);
    }
  }

  // ---- epilogue, every warp for itself
  float* mine = stage + warp * 16 * STAGE_LD;
  for (int j = 0; j < 2; ++j) wmma::store_matrix_sync(mine + j * 16, acc[j], STAGE_LD, wmma::mem_row_major);
  __syncwarp();
  for (int r = 0; r < 16; ++r) {
    const int row = row_base + wr * 16 + r;
    const int col = col_base + wc * 32 + lane;
    if (row < n_rows && col < n_out) {
      out[(size_t)row * n_out + col] = __float2bfloat16(mine[r * STAGE_LD + lane] + bias[col]);
    }
  }
}

void ln_linear(const bf16* x, const float* gamma, const float* beta, const bf16* weight, const float* bias, bf16* out,
               float* mean, float* rstd, int n_rows, int hidden, int n_out, float eps, cudaStream_t stream) {
  const size_t smem = BLOCK_ROWS * (hidden + PAD) * sizeof(bf16) + NUM_WARPS * 16 * STAGE_LD * sizeof(float);
  cudaFuncSetAttribute(ln_linear_fwd, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
  const dim3 grid(CEIL_DIV(n_out, BLOCK_COLS), CEIL_DIV(n_rows, BLOCK_ROWS));
  ln_linear_fwd<<<grid, NUM_WARPS * 32, smem, stream>>>(x, gamma, beta, weight, bias, out, mean, rstd, n_rows, hidden,
                                                        n_out, eps);
}
