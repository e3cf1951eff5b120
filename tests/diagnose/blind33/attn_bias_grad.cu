// Torch extension: gradient of an additive attention bias that all sequences of a batch share (relative position
// bias, pair bias of a triangle attention, ...).
//
//   P      = exp(scale * Q K^T + bias - lse)         lse, delta: [B, H, S], from the forward pass and rowsum(dO * O)
//   dP     = dO V^T
//   dBias  = sum over the batch of P * (dP - delta)   [H, S, S]
//
// q, k, v, grad_out: [B, S, H, D], any strides but the last one. Each CTA owns a 64 x 64 tile of one head's dBias
// and goes through the batch, hence no atomics.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cstdint>

template <typename scalar_t> struct MmaType;
template <> struct MmaType<__half> {
  __device__ static void mma(float* c, const uint32_t* a, const uint32_t* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};
template <> struct MmaType<__nv_bfloat16> {
  __device__ static void mma(float* c, const uint32_t* a, const uint32_t* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};

struct Strides { int64_t batch, seq, head; };

constexpr int kTile = 64;      // queries and keys of a tile
constexpr int kThreads = 128;  // warp w has queries 16 w .. 16 w + 15 of the tile
constexpr int kKeyFrags = kTile / 8;

// Copies kTile rows of one head to shared memory; rows outside the sequence become zeros.
template <typename scalar_t, int kDim>
__device__ void load_tile(scalar_t (*dst)[kDim + 8], const scalar_t* __restrict__ src, int first, int seq_len,
                          int64_t seq_stride) {
  constexpr int kVecs = kDim / 8;
  for (int i = threadIdx.x; i < kTile * kVecs; i += kThreads) {
    const int row = i / kVecs;
    const int col = (i % kVecs) * 8;
    uint4 value = make_uint4(0u, 0u, 0u, 0u);
    if (first + row < seq_len)
      value = *reinterpret_cast<const uint4*>(src + (first + row) * seq_stride + col);
    *reinterpret_cast<uint4*>(&dst[row][col]) = value;
  }
}

// acc[16 x 64] += rows[16 x kDim] * cols[64 x kDim]^T
template <typename scalar_t, int kDim>
__device__ void matmul_nt(float (&acc)[kKeyFrags][4], const scalar_t (*rows)[kDim + 8],
                          const scalar_t (*cols)[kDim + 8], int lane) {
  const int g = lane / 4;
  const int t = lane % 4;
#pragma unroll
  for (int d = 0; d < kDim; d += 16) {
    uint32_t a[4];
    a[0] = *reinterpret_cast<const uint32_t*>(&rows[g][d + 2 * t]);
    a[1] = *reinterpret_cast<const uint32_t*>(&rows[g + 8][d + 2 * t]);
    a[2] = *reinterpret_cast<const uint32_t*>(&rows[g][d + 2 * t + 8]);
    a[3] = *reinterpret_cast<const uint32_t*>(&rows[g + 8][d + 2 * t + 8]);
#pragma unroll
    for (int n = 0; n < kKeyFrags; ++n) {
      uint32_t b[2];
      b[0] = *reinterpret_cast<const uint32_t*>(&cols[8 * n + g][d + 2 * t]);
      b[1] = *reinterpret_cast<const uint32_t*>(&cols[8 * n + g][d + 2 * t + 8]);
      MmaType<scalar_t>::mma(acc[n], a, b);
    }
  }
}

template <typename scalar_t, int kDim>
__global__ void __launch_bounds__(kThreads) attn_bias_grad_kernel(
    const scalar_t* __restrict__ q, const scalar_t* __restrict__ k, const scalar_t* __restrict__ v,
    const scalar_t* __restrict__ grad_out, const float* __restrict__ bias, const float* __restrict__ lse,
    const float* __restrict__ delta, float* __restrict__ grad_bias, const Strides strides, const int batch_size,
    const int seq_len, const float scale, const bool causal) {
  __shared__ __align__(16) scalar_t s_q[kTile][kDim + 8];
  __shared__ __align__(16) scalar_t s_k[kTile][kDim + 8];
  __shared__ __align__(16) scalar_t s_do[kTile][kDim + 8];
  __shared__ __align__(16) scalar_t s_v[kTile][kDim + 8];

  const int k_first = blockIdx.x * kTile;
  const int q_first = blockIdx.y * kTile;
  const int head = blockIdx.z;
  const int num_heads = gridDim.z;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;

  float acc[kKeyFrags][4] = {};
  const bool above_diagonal = causal && k_first > q_first + kTile - 1;

  for (int batch = 0; batch < batch_size && !above_diagonal; ++batch) {
    const int64_t base = batch * strides.batch + head * strides.head;
    load_tile<scalar_t, kDim>(s_q, q + base, q_first, seq_len, strides.seq);
    load_tile<scalar_t, kDim>(s_k, k + base, k_first, seq_len, strides.seq);
    load_tile<scalar_t, kDim>(s_do, grad_out + base, q_first, seq_len, strides.seq);
    load_tile<scalar_t, kDim>(s_v, v + base, k_first, seq_len, strides.seq);
    __syncthreads();

    float s[kKeyFrags][4] = {};
    float dp[kKeyFrags][4] = {};
    matmul_nt<scalar_t, kDim>(s, s_q + 16 * warp, s_k, lane);
    matmul_nt<scalar_t, kDim>(dp, s_do + 16 * warp, s_v, lane);

#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = q_first + 16 * warp + lane / 4 + 8 * half;
      if (query >= seq_len) continue;
      const int64_t row = (static_cast<int64_t>(batch) * num_heads + head) * seq_len + query;
      const float row_lse = lse[row];
      const float row_delta = delta[row];
      const float* row_bias = bias + (static_cast<int64_t>(head) * seq_len + query) * seq_len;
#pragma unroll
      for (int n = 0; n < kKeyFrags; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int key = k_first + 8 * n + 2 * (lane % 4) + e;
          if (key >= seq_len || (causal && key > query)) continue;
          const float p = __expf(s[n][2 * half + e] * scale + row_bias[key] - row_lse);
          acc[n][2 * half + e] += p * (dp[n][2 * half + e] - row_delta);
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = q_first + 16 * warp + lane / 4 + 8 * half;
    if (query >= seq_len) continue;
    float* row = grad_bias + (static_cast<int64_t>(head) * seq_len + query) * seq_len;
#pragma unroll
    for (int n = 0; n < kKeyFrags; ++n) {
      const int key = k_first + 8 * n + 2 * (lane % 4);
      if (key < seq_len) row[key] = acc[n][2 * half];
      if (key + 1 < seq_len) row[key + 1] = acc[n][2 * half + 1];
    }
  }
}

void attn_bias_grad_cuda(const __half* q, const __half* k, const __half* v, const __half* grad_out, const float* bias,
                         const float* lse, const float* delta, float* grad_bias, Strides strides, int batch_size,
                         int num_heads, int seq_len, float scale, bool causal, cudaStream_t stream) {
  const int tiles = (seq_len + kTile - 1) / kTile;
  attn_bias_grad_kernel<__half, 32><<<dim3(tiles, tiles, num_heads), kThreads, 0, stream>>>(
      q, k, v, grad_out, bias, lse, delta, grad_bias, strides, batch_size, seq_len, scale, causal);
}
