// probs = softmax((x @ weight.T + bias) / temperature) for a classifier with at most 128 classes.
// A block makes 16 rows with all of their classes: 4 warps of 32 classes, then 4 rows of the softmax each.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define WARP_SIZE 32
#define ROWS 16
#define MAX_CLASSES 128
#define CHUNK 64
#define XS_LD (CHUNK + 8)
#define LOGITS_LD (MAX_CLASSES + 4)

__device__ __forceinline__ float warp_max(float v) {
  for (int mask = WARP_SIZE / 2; mask > 0; mask /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, mask));
  return v;
}

__device__ __forceinline__ float warp_sum(float v) {
  for (int mask = WARP_SIZE / 2; mask > 0; mask /= 2) v += __shfl_xor_sync(0xffffffffu, v, mask);
  return v;
}

template <typename scalar_t>
__global__ void linear_softmax_kernel(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight,
                                      const float* __restrict__ bias, float* __restrict__ probs,
                                      int* __restrict__ prediction, float temperature, int rows, int features,
                                      int classes) {
  extern __shared__ __align__(32) unsigned char smem[];
  scalar_t* xs = reinterpret_cast<scalar_t*>(smem);
  scalar_t* ws = xs + ROWS * XS_LD;
  float* logits = reinterpret_cast<float*>(ws + MAX_CLASSES * XS_LD);

  const int warp_id = threadIdx.x / WARP_SIZE;
  const int lane_id = threadIdx.x % WARP_SIZE;
  const int row0 = blockIdx.x * ROWS;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
  for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[j], 0.f);

  for (int f0 = 0; f0 < features; f0 += CHUNK) {
    for (int i = threadIdx.x; i < ROWS * CHUNK; i += blockDim.x) {
      const int r = i / CHUNK;
      const int f = i % CHUNK;
      const bool valid = row0 + r < rows && f0 + f < features;
      xs[r * XS_LD + f] = valid ? x[(size_t)(row0 + r) * features + f0 + f] : scalar_t(0.f);
    }
    for (int i = threadIdx.x; i < MAX_CLASSES * CHUNK; i += blockDim.x) {
      const int c = i / CHUNK;
      const int f = i % CHUNK;
      const bool valid = c < classes && f0 + f < features;
      ws[c * XS_LD + f] = valid ? weight[(size_t)c * features + f0 + f] : scalar_t(0.f);
    }
    __syncthreads();

    for (int f = 0; f < CHUNK; f += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, scalar_t, wmma::row_major> x_frag;
      wmma::load_matrix_sync(x_frag, xs + f, XS_LD);
      for (int j = 0; j < 2; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, scalar_t, wmma::col_major> w_frag;
        wmma::load_matrix_sync(w_frag, ws + (warp_id * 32 + j * 16) * XS_LD + f, XS_LD);
        wmma::mma_sync(acc[j], x_frag, w_frag, acc[j]);
      }
    }
    __syncthreads();
  }

  for (int j = 0; j < 2; ++j) {
    wmma::store_matrix_sync(logits + warp_id * 32 + j * 16, acc[j], LOGITS_LD, wmma::mem_row_major);
  }
  __syncthreads();

  for (int r = warp_id * 4; r < warp_id * 4 + 4; ++r) {
    if (row0 + r >= rows) break;
    float* row = logits + r * LOGITS_LD;

    float best = -1e30f;
    int best_class = 0;
    for (int c = lane_id; c < classes; c += WARP_SIZE) {
      const float v = (row[c] + bias[c]) / temperature;
      row[c] = v;
      if (v > best) {
        best = v;
        best_class = c;
      }
    }
    const float row_max = warp_max(best);

    float sum = 0.f;
    for (int c = lane_id; c < classes; c += WARP_SIZE) {
      const float e = __expf(row[c] - row_max);
      row[c] = e;
      sum += e;
    }
    sum = warp_sum(sum);

    const float inv_sum = 1.f / sum;
    for (int c = lane_id; c < classes; c += WARP_SIZE) {
      probs[(size_t)(row0 + r) * classes + c] = row[c] * inv_sum;
    }
    // the first lane that has the maximum tells its class
    const unsigned owners = __ballot_sync(0xffffffffu, best == row_max);
    if (lane_id == __ffs(owners) - 1) prediction[row0 + r] = best_class;
  }
}

template __global__ void linear_softmax_kernel<half>(const half*, const half*, const float*, float*, int*, float, int,
                                                     int, int);
