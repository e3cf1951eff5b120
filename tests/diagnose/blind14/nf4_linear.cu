// QLoRA-style linear layer: y = x @ dequant(W).T with W in 4-bit NormalFloat, absmax per 64 weights.
// packed[n][k/2]: two codes in a byte, the first one in the high half (as bitsandbytes packs them).
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>

namespace wmma = nvcuda::wmma;

#define QBLOCK 64
#define TILE_TOK 32
#define TILE_OUT 32
#define LDH (QBLOCK + 8)

__constant__ float nf4_code[16] = {
    -1.0f,                 -0.6961928009986877f,  -0.5250730514526367f,  -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f,  0.16093020141124725f,  0.24611230194568634f,  0.33791524171829224f,
    0.44070982933044434f,  0.5626170039176941f,   0.7229568362236023f,   1.0f,
};

template <typename OutT>
__device__ OutT cast(float v);
template <>
__device__ float cast<float>(float v) { return v; }
template <>
__device__ half cast<half>(float v) { return __float2half_rn(v); }

template <typename OutT>
__global__ void nf4_linear_kernel(const half* x, const uint8_t* packed, const float* absmax, OutT* y, int tokens,
                                  int out_features, int in_features) {
  __shared__ __align__(16) half xs[TILE_TOK][LDH];
  __shared__ __align__(16) half ws[TILE_OUT][LDH];
  __shared__ __align__(16) float ys[TILE_TOK][TILE_OUT + 4];

  const int tok0 = blockIdx.y * TILE_TOK, out0 = blockIdx.x * TILE_OUT;
  const int blocks_per_row = in_features / QBLOCK;
  const int warp_row = threadIdx.y / 2 * 16, warp_col = threadIdx.y % 2 * 16;
  const int tid = threadIdx.y * 32 + threadIdx.x;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.0f);

  // one quantisation block of every weight row per iteration
  for (int qb = 0; qb < blocks_per_row; qb++) {
    for (int i = tid; i < TILE_TOK * QBLOCK / 2; i += 128) {
      const int r = i / (QBLOCK / 2), k = i % (QBLOCK / 2) * 2;
      half2 v = __float2half2_rn(0.0f);
      if (tok0 + r < tokens) v = *(const half2*)&x[(size_t)(tok0 + r) * in_features + qb * QBLOCK + k];
      *(half2*)&xs[r][k] = v;
    }
    // a thread unpacks four bytes = eight weights
    for (int i = tid; i < TILE_OUT * QBLOCK / 8; i += 128) {
      const int r = i / (QBLOCK / 8), k = i % (QBLOCK / 8) * 8;
      const int row = out0 + r;
      uint32_t word = 0x77777777;  // code 7 is zero
      float scale = 0.0f;
      if (row < out_features) {
        word = *(const uint32_t*)&packed[((size_t)row * in_features + qb * QBLOCK + k) / 2];
        scale = absmax[(size_t)row * blocks_per_row + qb];
      }
#pragma unroll
      for (int b = 0; b < 4; b++) {
        const uint32_t byte = word >> (8 * b) & 0xff;
        ws[r][k + 2 * b] = __float2half(nf4_code[byte >> 4] * scale);
        ws[r][k + 2 * b + 1] = __float2half(nf4_code[byte & 15] * scale);
      }
    }
    __syncthreads();

#pragma unroll
    for (int k = 0; k < QBLOCK; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
      wmma::load_matrix_sync(a, &xs[warp_row][k], LDH);
      wmma::load_matrix_sync(b, &ws[warp_col][k], LDH);
      wmma::mma_sync(c, a, b, c);
    }
    __syncthreads();
  }

  wmma::store_matrix_sync(&ys[warp_row][warp_col], c, TILE_OUT + 4, wmma::mem_row_major);
  __syncthreads();
  for (int r = threadIdx.y; r < TILE_TOK; r += 4) {
    const int col = out0 + threadIdx.x;
    if (tok0 + r < tokens && col < out_features) {
      y[(size_t)(tok0 + r) * out_features + col] = cast<OutT>(ys[r][threadIdx.x]);
    }
  }
}

template __global__ void nf4_linear_kernel<float>(const half*, const uint8_t*, const float*, float*, int, int, int);
template __global__ void nf4_linear_kernel<half>(const half*, const uint8_t*, const float*, half*, int, int, int);
