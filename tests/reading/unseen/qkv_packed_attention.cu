// Encoder self-attention on the packed output of the QKV projection.
//
//   qkv [B, S, 3, H, D] fp16  ->  out [B, S, H, D] fp16
//
// BERT-sized problems: S <= 512, so a block keeps the complete score rows of its
// 16 queries in shared memory; softmax is then a plain two pass row softmax.
// K and V fragments are loaded directly from global memory (they stay in L2).
#include <cassert>
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#define WARP_SIZE 32

namespace bert {

using nvcuda::wmma::fragment;
namespace wm = nvcuda::wmma;

template <int HEAD_SIZE>
struct Traits {
  static constexpr int kHeadSize = HEAD_SIZE;
  static constexpr int kQueries = 16;
  static constexpr int kWarps = HEAD_SIZE / 16;   // warp w owns output columns [16 w, 16 w + 16)
  static constexpr int kThreads = kWarps * WARP_SIZE;
  static size_t smem_bytes(int seq) {
    return kQueries * ((seq + 8) * sizeof(float) + (seq + 16) * sizeof(half));
  }
};

template <typename Tr>
__global__ void __launch_bounds__(Tr::kThreads)
packed_attention(const half* qkv, half* out, int seq, int heads, float scale) {
  constexpr int D = Tr::kHeadSize;
  extern __shared__ __align__(32) unsigned char raw[];
  float* scores = reinterpret_cast<float*>(raw);
  const int ld_s = seq + 8;
  half* probs = reinterpret_cast<half*>(raw + Tr::kQueries * ld_s * sizeof(float));
  const int ld_p = seq + 16;

  const int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
  const int head = blockIdx.y, batch = blockIdx.z;
  const int token_stride = 3 * heads * D;
  const half* base = qkv + (size_t)batch * seq * token_stride + head * D;
  const half* q = base + (size_t)blockIdx.x * Tr::kQueries * token_stride;
  const half* k = base + heads * D;
  const half* v = base + 2 * heads * D;

  // scores = scale * q k^T, key tiles dealt out to the warps
  fragment<wm::matrix_a, 16, 16, 16, half, wm::row_major> fq[D / 16];
#pragma unroll
  for (int d = 0; d < D / 16; ++d) wm::load_matrix_sync(fq[d], q + d * 16, token_stride);
  for (int kt = warp; kt < seq / 16; kt += Tr::kWarps) {
    fragment<wm::accumulator, 16, 16, 16, float> s;
    wm::fill_fragment(s, 0.f);
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      fragment<wm::matrix_b, 16, 16, 16, half, wm::col_major> fk;
      wm::load_matrix_sync(fk, k + (size_t)kt * 16 * token_stride + d * 16, token_stride);
      wm::mma_sync(s, fq[d], fk, s);
    }
#pragma unroll
    for (int i = 0; i < s.num_elements; ++i) s.x[i] *= scale;
    wm::store_matrix_sync(scores + kt * 16, s, ld_s, wm::mem_row_major);
  }
  __syncthreads();

  for (int r = warp; r < Tr::kQueries; r += Tr::kWarps) {
    float* row = scores + r * ld_s;
    float mx = -1e30f;
    for (int c = lane; c < seq; c += WARP_SIZE) mx = fmaxf(mx, row[c]);
    for (int o = 16; o; o >>= 1) mx = fmaxf(mx, __shfl_xor_sync(~0u, mx, o));
    float sum = 0.f;
    for (int c = lane; c < seq; c += WARP_SIZE) {
      const float e = __expf(row[c] - mx);
      row[c] = e;
      sum += e;
    }
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    const float inv = __fdividef(1.f, sum);
    for (int c = lane; c < seq; c += WARP_SIZE) probs[r * ld_p + c] = __float2half(row[c] * inv);
  }
  __syncthreads();

  fragment<wm::accumulator, 16, 16, 16, float> acc;
  wm::fill_fragment(acc, 0.f);
  for (int kt = 0; kt < seq / 16; ++kt) {
    fragment<wm::matrix_a, 16, 16, 16, half, wm::row_major> fp;
    fragment<wm::matrix_b, 16, 16, 16, half, wm::row_major> fv;
    wm::load_matrix_sync(fp, probs + kt * 16, ld_p);
    wm::load_matrix_sync(fv, v + (size_t)kt * 16 * token_stride + warp * 16, token_stride);
    wm::mma_sync(acc, fp, fv, acc);
  }
  fragment<wm::accumulator, 16, 16, 16, half> res;
  for (int i = 0; i < acc.num_elements; ++i) res.x[i] = __float2half(acc.x[i]);
  half* o = out + ((size_t)(batch * seq + blockIdx.x * Tr::kQueries) * heads + head) * D + warp * 16;
  wm::store_matrix_sync(o, res, heads * D, wm::mem_row_major);
}

template <int HEAD_SIZE>
cudaError_t launch_packed(const half* qkv, half* out, int batch, int seq, int heads, cudaStream_t stream) {
  using Tr = Traits<HEAD_SIZE>;
  assert(seq % 16 == 0 && seq <= 512);

  auto kernel = packed_attention<Tr>;
  cudaError_t st = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)Tr::smem_bytes(512));
  if (st != cudaSuccess) return st;

  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(seq / Tr::kQueries, heads, batch);
  config.blockDim = dim3(Tr::kThreads);
  config.dynamicSmemBytes = Tr::smem_bytes(seq);
  config.stream = stream;
  cudaLaunchAttribute attr[1];
  attr[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attr[0].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attr;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, qkv, out, seq, heads, 1.0f / sqrtf((float)HEAD_SIZE));
}

cudaError_t self_attention(const half* qkv, half* out, int batch, int seq, int heads, int head_size, cudaStream_t stream) {
  switch (head_size) {
    case 32: return launch_packed<32>(qkv, out, batch, seq, heads, stream);
    case 64: return launch_packed<64>(qkv, out, batch, seq, heads, stream);
  }
  fprintf(stderr, "head size %d not instantiated\n", head_size);
  return cudaErrorInvalidValue;
}

}  // namespace bert
