// Scores of rotated queries and keys: the rotation is applied while tiles are staged (half-split pairs).
#include <cuda_fp16.h>
#include <mma.h>

template <int D>
__device__ void stage_rotated(__half (*dst)[D + 8], const __half* src, const float2* table, const int* position,
                              int rows, int row_stride) {
  constexpr int kHalf = D / 2;
  for (int i = threadIdx.x; i < 32 * kHalf; i += blockDim.x) {
    const int r = i / kHalf, d = i % kHalf;
    float a = 0.0f, b = 0.0f;
    if (r < rows) {
      const float x0 = __half2float(src[(size_t)r * row_stride + d]);
      const float x1 = __half2float(src[(size_t)r * row_stride + d + kHalf]);
      const float2 cs = table[position[r] * kHalf + d];
      a = x0 * cs.x - x1 * cs.y;
      b = x1 * cs.x + x0 * cs.y;
    }
    dst[r][d] = __float2half(a);
    dst[r][d + kHalf] = __float2half(b);
  }
}

template <int D>
__global__ void rope_scores(const __half* q, const __half* k, const float2* table, const int* positions, float* scores,
                            int seq, int heads, float scale) {
  __shared__ __align__(32) __half sq[32][D + 8];
  __shared__ __align__(32) __half sk[32][D + 8];
  __shared__ __align__(32) float out[32][36];
  const int batch = blockIdx.z / heads, head = blockIdx.z % heads;
  const int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
  const int stride = heads * D;
  const size_t base = (size_t)batch * seq * stride + (size_t)head * D;
  const int* where = positions + batch * seq;

  stage_rotated<D>(sq, q + base + (size_t)row0 * stride, table, where + row0, seq - row0, stride);
  stage_rotated<D>(sk, k + base + (size_t)col0 * stride, table, where + row0, seq - col0, stride);
  __syncthreads();

  using namespace nvcuda::wmma;
  const int wr = threadIdx.x / 64 * 16, wc = threadIdx.x / 32 % 2 * 16;
  fragment<accumulator, 16, 16, 16, float> acc;
  fill_fragment(acc, 0.0f);
  for (int d = 0; d < D; d += 16) {
    fragment<matrix_a, 16, 16, 16, __half, row_major> a;
    fragment<matrix_b, 16, 16, 16, __half, col_major> b;
    load_matrix_sync(a, &sq[wr][d], D + 8);
    load_matrix_sync(b, &sk[wc][d], D + 8);
    mma_sync(acc, a, b, acc);
  }
  store_matrix_sync(&out[wr][wc], acc, 36, mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < 32 * 32; i += blockDim.x) {
    const int r = row0 + i / 32, c = col0 + i % 32;
    if (r < seq && c < seq)
      scores[((size_t)blockIdx.z * seq + r) * seq + c] = out[i / 32][i % 32] * scale;
  }
}

extern "C" void launch(const __half* q, const __half* k, const float2* t, const int* p, float* s, int batch, int seq,
                       int heads, float scale) {
  const dim3 grid((seq + 31) / 32, (seq + 31) / 32, batch * heads);
  rope_scores<64><<<grid, 128>>>(q, k, t, p, s, seq, heads, scale);
}
