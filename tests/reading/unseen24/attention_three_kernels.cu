// ============================================================================
//  attention_three_kernels.cu
//
//  Unfused multi-head attention, the baseline of our benchmark suite:
//
//     1. scores = (Q @ K^T) / sqrt(D)          batched NT, fp16 -> fp32
//     2. probs  = softmax(scores, dim=-1)      fp32 -> fp16, optional causal mask
//     3. out    = probs @ V                    batched NN, fp16 -> fp16
//
//  Layout is what a fused QKV projection leaves behind: qkv is [B, S, 3, H, D]
//  and out is [B, S, H, D], so rows of a head are 3*H*D (H*D) elements apart
//  and no transposition kernel is needed. scores and probs are [B*H, S, S].
//
//  Requirements: S % 16 == 0, D % 16 == 0. No other limits.
// ============================================================================
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <stdexcept>
#include <string>

namespace bench {

using namespace nvcuda;

static const int kWarpsPerBlock = 4;
static const int kTile = 16;

// --------------------------------------------------------------------------
// 1. scores
// Each warp owns one 16x16 tile of one head's S x S matrix.
// --------------------------------------------------------------------------
__global__ void qk_kernel(const half* __restrict__ qkv, float* __restrict__ scores, int S, int H, int D,
                          float scale) {
  const int tiles = S / kTile;
  const int tile = blockIdx.x * kWarpsPerBlock + threadIdx.y;
  if (tile >= tiles * tiles) return;
  const int ti = tile / tiles;
  const int tj = tile % tiles;

  const int b = blockIdx.y / H;
  const int h = blockIdx.y % H;
  const int ld = 3 * H * D;
  const half* q = qkv + (size_t)b * S * ld + 0 * H * D + h * D;
  const half* k = qkv + (size_t)b * S * ld + 1 * H * D + h * D;

  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);

  for (int d = 0; d < D; d += kTile) {
    wmma::load_matrix_sync(fa, q + (size_t)ti * kTile * ld + d, ld);
    wmma::load_matrix_sync(fb, k + (size_t)tj * kTile * ld + d, ld);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] *= scale;

  float* dst = scores + ((size_t)blockIdx.y * S + ti * kTile) * S + tj * kTile;
  wmma::store_matrix_sync(dst, fc, S, wmma::mem_row_major);
}

// --------------------------------------------------------------------------
// 2. softmax, one block per row
// --------------------------------------------------------------------------
template <typename F>
__device__ float block_reduce(float v, float identity, F op) {
  __shared__ float partial[32];
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  for (int o = 16; o > 0; o /= 2) v = op(v, __shfl_down_sync(0xffffffffu, v, o));
  __syncthreads();  // partial may still be read from the previous call
  if (lane == 0) partial[warp] = v;
  __syncthreads();
  v = lane < (blockDim.x >> 5) ? partial[lane] : identity;
  for (int o = 16; o > 0; o /= 2) v = op(v, __shfl_xor_sync(0xffffffffu, v, o));
  return v;  // in every thread
}

__global__ void softmax_kernel(const float* __restrict__ scores, half* __restrict__ probs, int S, bool causal) {
  const int row = blockIdx.x;
  const size_t offset = ((size_t)blockIdx.y * S + row) * S;
  const float* in = scores + offset;
  half* out = probs + offset;
  const int valid = causal ? row + 1 : S;

  float m = -INFINITY;
  for (int j = threadIdx.x; j < valid; j += blockDim.x) m = fmaxf(m, in[j]);
  m = block_reduce(m, -INFINITY, [](float a, float b) { return fmaxf(a, b); });

  float sum = 0.0f;
  for (int j = threadIdx.x; j < valid; j += blockDim.x) sum += __expf(in[j] - m);
  sum = block_reduce(sum, 0.0f, [](float a, float b) { return a + b; });

  const float inv = 1.0f / sum;
  for (int j = threadIdx.x; j < S; j += blockDim.x)
    out[j] = __float2half(j < valid ? __expf(in[j] - m) * inv : 0.0f);
}

// --------------------------------------------------------------------------
// 3. out
// Each warp owns 16 rows x 16 columns of a head's output.
// --------------------------------------------------------------------------
__global__ void pv_kernel(const half* __restrict__ probs, const half* __restrict__ qkv, half* __restrict__ out,
                          int S, int H, int D) {
  const int tiles_d = D / kTile;
  const int tile = blockIdx.x * kWarpsPerBlock + threadIdx.y;
  if (tile >= (S / kTile) * tiles_d) return;
  const int ti = tile / tiles_d;
  const int td = tile % tiles_d;

  const int b = blockIdx.y / H;
  const int h = blockIdx.y % H;
  const int ld = 3 * H * D;
  const half* p = probs + ((size_t)blockIdx.y * S + ti * kTile) * S;
  const half* v = qkv + (size_t)b * S * ld + 2 * H * D + h * D + td * kTile;

  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fragment<wmma::accumulator, 16, 16, 16, half> fh;
  wmma::fill_fragment(fc, 0.0f);

  for (int s = 0; s < S; s += kTile) {
    wmma::load_matrix_sync(fa, p + s, S);
    wmma::load_matrix_sync(fb, v + (size_t)s * ld, ld);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  // sm_80: float and half accumulators of this shape have the same element order
  for (int i = 0; i < fc.num_elements; ++i) fh.x[i] = __float2half(fc.x[i]);

  half* dst = out + ((size_t)b * S + ti * kTile) * H * D + h * D + td * kTile;
  wmma::store_matrix_sync(dst, fh, H * D, wmma::mem_row_major);
}

// --------------------------------------------------------------------------
// host
// --------------------------------------------------------------------------
static void check_launch(const char* name) {
  const cudaError_t e = cudaGetLastError();
  if (e != cudaSuccess) throw std::runtime_error(std::string(name) + ": " + cudaGetErrorString(e));
}

size_t attention_scratch_bytes(int B, int S, int H) {
  return (size_t)B * H * S * S * (sizeof(float) + sizeof(half));
}

void attention_forward(const half* qkv, half* out, void* scratch, int B, int S, int H, int D, bool causal,
                       cudaStream_t stream) {
  if (S % kTile != 0 || D % kTile != 0) throw std::invalid_argument("S and D must be multiples of 16");
  float* scores = static_cast<float*>(scratch);
  half* probs = reinterpret_cast<half*>(scores + (size_t)B * H * S * S);

  const dim3 block(32, kWarpsPerBlock);
  const int tiles_qk = (S / kTile) * (S / kTile);
  qk_kernel<<<dim3((tiles_qk + kWarpsPerBlock - 1) / kWarpsPerBlock, B * H), block, 0, stream>>>(
      qkv, scores, S, H, D, rsqrtf((float)D));
  check_launch("qk_kernel");

  const int threads = S >= 256 ? 256 : 128;
  softmax_kernel<<<dim3(S, B * H), threads, 0, stream>>>(scores, probs, S, causal);
  check_launch("softmax_kernel");

  const int tiles_pv = (S / kTile) * (D / kTile);
  pv_kernel<<<dim3((tiles_pv + kWarpsPerBlock - 1) / kWarpsPerBlock, B * H), block, 0, stream>>>(probs, qkv, out, S,
                                                                                                H, D);
  check_launch("pv_kernel");
}

}  // namespace bench
