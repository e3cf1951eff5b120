// Chunk scan of Mamba-2 (SSD), forward. Third of the four kernels: the states at the beginning of each
// chunk have already been passed on, what is left is the output of the chunk itself.
//
//   y_l = exp(a_l) * C_l . h_prev  +  sum_{m <= l} (C_l . B_m) exp(a_l - a_m) dt_m x_m  +  D x_l
//
// with a = cumsum(dt * A) in the chunk.
#include <cuda_bf16.h>
#include <mma.h>

#ifdef WITH_TORCH
#include <torch/extension.h>
#endif

namespace ssd {

using namespace nvcuda;
using bf16 = __nv_bfloat16;

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

template <int kChunk, int kState, int kHeadDim>
struct SharedStorage {
  static constexpr int kLdState = kState + 8;
  static constexpr int kLdX = kHeadDim + 8;
  static constexpr int kLdW = kChunk + 8;
  static constexpr int kLdS = kChunk + 4;
  static constexpr int kLdY = kHeadDim + 4;

  alignas(32) bf16 c[kChunk * kLdState];
  alignas(32) bf16 b[kChunk * kLdState];
  alignas(32) bf16 h[kHeadDim * kLdState];
  alignas(32) bf16 x[kChunk * kLdX];
  alignas(32) bf16 w[kChunk * kLdW];
  // scores first, then the output
  alignas(32) float acc[kChunk * (kLdS > kLdY ? kLdS : kLdY)];
  float dt[kChunk];
  float cum[kChunk];
};

__device__ inline float Softplus(float v) { return v > 20.f ? v : log1pf(__expf(v)); }

// Rows `row0 ... row0 + kRows` of a matrix with `cols` columns; zeros behind `rows_left`.
template <int kRows, int kCols, int kLd>
__device__ inline void LoadTile(bf16* dst, const bf16* __restrict__ src, long row_stride, int rows_left) {
  constexpr int kVec = 8;
  constexpr int kVecsPerRow = kCols / kVec;
  for (int i = threadIdx.x; i < kRows * kVecsPerRow; i += kThreads) {
    const int row = i / kVecsPerRow;
    const int col = (i % kVecsPerRow) * kVec;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (row < rows_left) v = *reinterpret_cast<const uint4*>(src + row * row_stride + col);
    *reinterpret_cast<uint4*>(dst + row * kLd + col) = v;
  }
}

template <int kChunk, int kState, int kHeadDim>
__global__ void __launch_bounds__(kThreads)
ChunkScanFwd(const bf16* __restrict__ x,          // [batch, seqlen, nheads, headdim]
             const float* __restrict__ dt,        // [batch, seqlen, nheads], before the softplus
             const float* __restrict__ dt_bias,   // [nheads]
             const float* __restrict__ A,         // [nheads]
             const bf16* __restrict__ B,          // [batch, seqlen, ngroups, dstate]
             const bf16* __restrict__ C,          // [batch, seqlen, ngroups, dstate]
             const bf16* __restrict__ states,     // [batch, nchunks, nheads, headdim, dstate]
             const float* __restrict__ D,         // [nheads]
             bf16* __restrict__ y,                // [batch, seqlen, nheads, headdim]
             int seqlen, int nheads, int ngroups) {
  using Smem = SharedStorage<kChunk, kState, kHeadDim>;
  extern __shared__ __align__(128) unsigned char smem_raw[];
  Smem& s = *reinterpret_cast<Smem*>(smem_raw);
  static_assert(kChunk == 16 * kWarps, "a warp has 16 rows of the chunk");

  const int chunk = blockIdx.x;
  const int head = blockIdx.y;
  const int batch = blockIdx.z;
  const int group = head / (nheads / ngroups);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int start = chunk * kChunk;
  const int rows = min(kChunk, seqlen - start);

  const long token0 = (long)batch * seqlen + start;
  x += (token0 * nheads + head) * kHeadDim;
  y += (token0 * nheads + head) * kHeadDim;
  B += (token0 * ngroups + group) * kState;
  C += (token0 * ngroups + group) * kState;
  dt += token0 * nheads + head;
  states += (((long)batch * gridDim.x + chunk) * nheads + head) * kHeadDim * kState;

  LoadTile<kChunk, kState, Smem::kLdState>(s.c, C, (long)ngroups * kState, rows);
  LoadTile<kChunk, kState, Smem::kLdState>(s.b, B, (long)ngroups * kState, rows);
  LoadTile<kHeadDim, kState, Smem::kLdState>(s.h, states, kState, kHeadDim);
  LoadTile<kChunk, kHeadDim, Smem::kLdX>(s.x, x, (long)nheads * kHeadDim, rows);

  // One warp sums up dt * A, 32 rows at a time.
  if (warp == 0) {
    float carry = 0.f;
    for (int base = 0; base < kChunk; base += 32) {
      const int row = base + lane;
      const float step = row < rows ? Softplus(dt[(long)row * nheads] + dt_bias[head]) : 0.f;
      float sum = step * A[head];
#pragma unroll
      for (int delta = 1; delta < 32; delta *= 2) {
        const float left = __shfl_up_sync(0xffffffffu, sum, delta);
        if (lane >= delta) sum += left;
      }
      s.dt[row] = step;
      s.cum[row] = carry + sum;
      carry += __shfl_sync(0xffffffffu, sum, 31);
    }
  }
  __syncthreads();

  // scores = C B^T, up to the diagonal
  const int row0 = warp * 16;
  for (int col0 = 0; col0 <= row0; col0 += 16) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> score;
    wmma::fill_fragment(score, 0.f);
    for (int k = 0; k < kState; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> c_frag;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> b_frag;
      wmma::load_matrix_sync(c_frag, s.c + row0 * Smem::kLdState + k, Smem::kLdState);
      wmma::load_matrix_sync(b_frag, s.b + col0 * Smem::kLdState + k, Smem::kLdState);
      wmma::mma_sync(score, c_frag, b_frag, score);
    }
    wmma::store_matrix_sync(s.acc + row0 * Smem::kLdS + col0, score, Smem::kLdS, wmma::mem_row_major);
  }
  __syncthreads();

  for (int i = threadIdx.x; i < kChunk * kChunk; i += kThreads) {
    const int l = i / kChunk;
    const int m = i % kChunk;
    float w = 0.f;
    if (m <= l) w = s.acc[l * Smem::kLdS + m] * __expf(s.cum[l] - s.cum[m]) * s.dt[m];
    s.w[l * Smem::kLdW + m] = __float2bfloat16(w);
  }
  __syncthreads();

  // What the state in front of the chunk adds: C h^T, decayed.
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> out[kHeadDim / 16];
#pragma unroll
  for (int j = 0; j < kHeadDim / 16; ++j) {
    wmma::fill_fragment(out[j], 0.f);
    for (int k = 0; k < kState; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> c_frag;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> h_frag;
      wmma::load_matrix_sync(c_frag, s.c + row0 * Smem::kLdState + k, Smem::kLdState);
      wmma::load_matrix_sync(h_frag, s.h + j * 16 * Smem::kLdState + k, Smem::kLdState);
      wmma::mma_sync(out[j], c_frag, h_frag, out[j]);
    }
    wmma::store_matrix_sync(s.acc + row0 * Smem::kLdY + j * 16, out[j], Smem::kLdY, wmma::mem_row_major);
  }
  __syncwarp();
  for (int i = lane; i < 16 * kHeadDim; i += 32) {
    const int l = row0 + i / kHeadDim;
    s.acc[l * Smem::kLdY + i % kHeadDim] *= __expf(s.cum[l]);
  }
  __syncwarp();

  // plus what the chunk's own tokens add
#pragma unroll
  for (int j = 0; j < kHeadDim / 16; ++j) {
    float* tile = s.acc + row0 * Smem::kLdY + j * 16;
    wmma::load_matrix_sync(out[j], tile, Smem::kLdY, wmma::mem_row_major);
    for (int k = 0; k <= row0; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> w_frag;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> x_frag;
      wmma::load_matrix_sync(w_frag, s.w + row0 * Smem::kLdW + k, Smem::kLdW);
      wmma::load_matrix_sync(x_frag, s.x + k * Smem::kLdX + j * 16, Smem::kLdX);
      wmma::mma_sync(out[j], w_frag, x_frag, out[j]);
    }
    wmma::store_matrix_sync(tile, out[j], Smem::kLdY, wmma::mem_row_major);
  }
  __syncthreads();

  const float skip = D[head];
  for (int i = threadIdx.x; i < kChunk * kHeadDim / 2; i += kThreads) {
    const int l = i / (kHeadDim / 2);
    const int p = (i % (kHeadDim / 2)) * 2;
    if (l >= rows) break;
    const float2 xv = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&s.x[l * Smem::kLdX + p]));
    const float y0 = s.acc[l * Smem::kLdY + p] + skip * xv.x;
    const float y1 = s.acc[l * Smem::kLdY + p + 1] + skip * xv.y;
    *reinterpret_cast<__nv_bfloat162*>(y + (long)l * nheads * kHeadDim + p) = __floats2bfloat162_rn(y0, y1);
  }
}

}  // namespace ssd

#ifdef WITH_TORCH
torch::Tensor chunk_scan_fwd(torch::Tensor x, torch::Tensor dt, torch::Tensor dt_bias, torch::Tensor A,
                             torch::Tensor B, torch::Tensor C, torch::Tensor states, torch::Tensor D) {
  auto y = torch::empty_like(x);
  const int batch = x.size(0), seqlen = x.size(1), nheads = x.size(2);
  TORCH_CHECK(x.size(3) == 64 && B.size(3) == 64, "built for headdim 64, dstate 64");
  auto kernel = &ssd::ChunkScanFwd<64, 64, 64>;
  const int smem = sizeof(ssd::SharedStorage<64, 64, 64>);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
  auto ptr = [](const torch::Tensor& t) { return reinterpret_cast<ssd::bf16*>(t.data_ptr()); };
  kernel<<<dim3((seqlen + 63) / 64, nheads, batch), ssd::kThreads, smem>>>(
      ptr(x), dt.data_ptr<float>(), dt_bias.data_ptr<float>(), A.data_ptr<float>(), ptr(B), ptr(C), ptr(states),
      D.data_ptr<float>(), ptr(y), seqlen, nheads, B.size(2));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("chunk_scan_fwd", &chunk_scan_fwd); }
#endif
