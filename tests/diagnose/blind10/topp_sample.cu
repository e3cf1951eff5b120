// Sampling of the next token: temperature, top-k, top-p (nucleus), one block per sequence.
// Whole vocabulary in shared memory: softmax -> bitonic sort of (probability, token) -> prefix sum -> cut -> draw.

#include <cuda_runtime.h>
#include <math_constants.h>

namespace sampling {

constexpr int BLOCK = 128;
constexpr int NPAD = 256;           // vocabulary rounded up to a power of two
constexpr int NWARP = BLOCK / 32;

__device__ float block_reduce_max(float v, float* scratch) {
  for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  v = scratch[0];
  for (int w = 1; w < NWARP; ++w) v = fmaxf(v, scratch[w]);
  __syncthreads();
  return v;
}

__device__ float block_reduce_sum(float v, float* scratch) {
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0.f;
  for (int w = 0; w < NWARP; ++w) v += scratch[w];
  __syncthreads();
  return v;
}

// a comes before b: the likelier one, of equals the smaller token
__device__ __forceinline__ bool before(float pa, int ta, float pb, int tb) { return pa > pb || (pa == pb && ta < tb); }

__device__ void bitonic_sort_desc(float* prob, int* token) {
  for (int size = 2; size <= NPAD; size <<= 1) {
    for (int stride = size / 2; stride > 0; stride >>= 1) {
      for (int i = threadIdx.x; i < NPAD / 2; i += BLOCK) {
        const int lo = 2 * i - (i & (stride - 1));
        const int hi = lo + stride;
        const bool desc = (lo & size) == 0;
        const float pl = prob[lo], ph = prob[hi];
        const int tl = token[lo], th = token[hi];
        if (before(ph, th, pl, tl) == desc) {
          prob[lo] = ph;
          prob[hi] = pl;
          token[lo] = th;
          token[hi] = tl;
        }
      }
      __syncthreads();
    }
  }
}

// inclusive sums of NPAD values, two per thread
__device__ void inclusive_scan(const float* in, float* out, float* scratch) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float first = in[2 * threadIdx.x], second = in[2 * threadIdx.x + 1];
  float sum = first + second;
  for (int o = 1; o < 32; o <<= 1) {
    const float up = __shfl_up_sync(~0u, sum, o);
    if (lane >= o) sum += up;
  }
  if (lane == 31) scratch[warp] = sum;
  __syncthreads();
  float offset = 0.f;
  for (int w = 0; w < warp; ++w) offset += scratch[w];
  out[2 * threadIdx.x] = offset + sum - second;
  out[2 * threadIdx.x + 1] = offset + sum;
  __syncthreads();
}

__global__ void __launch_bounds__(BLOCK) top_k_top_p_sample(const float* logits, const float* temperature, const int* top_k,
                                                            const float* top_p, const float* coin, int* next_token,
                                                            float* logprob, int* kept, int vocab) {
  __shared__ float prob[NPAD];
  __shared__ int token[NPAD];
  __shared__ float cum[NPAD];
  __shared__ float scratch[NWARP];
  __shared__ int cutoff;
  __shared__ int pick;

  const int row = blockIdx.x;
  const float* x = logits + static_cast<size_t>(row) * vocab;
  const float inv_t = 1.f / temperature[row];

  float m = -CUDART_INF_F;
  for (int i = threadIdx.x; i < vocab; i += BLOCK) m = fmaxf(m, x[i] * inv_t);
  m = block_reduce_max(m, scratch);
  float s = 0.f;
  for (int i = threadIdx.x; i < NPAD; i += BLOCK) {
    const float e = i < vocab ? expf(x[i] * inv_t - m) : 0.f;
    prob[i] = e;
    token[i] = i;
    s += e;
  }
  s = block_reduce_sum(s, scratch);
  for (int i = threadIdx.x; i < NPAD; i += BLOCK) prob[i] /= s;
  if (threadIdx.x == 0) {
    cutoff = min(top_k[row], vocab);
    pick = vocab;
  }
  __syncthreads();

  bitonic_sort_desc(prob, token);
  inclusive_scan(prob, cum, scratch);

  // the shortest prefix with at least top_p of the mass, and no more than top_k
  const float p = top_p[row];
  for (int i = threadIdx.x; i < vocab; i += BLOCK)
    if (cum[i] >= p && (i == 0 || cum[i - 1] < p)) atomicMin(&cutoff, i + 1);
  __syncthreads();

  const float mass = cum[cutoff - 1];
  const float r = coin[row] * mass;
  for (int i = threadIdx.x; i < cutoff; i += BLOCK)
    if (cum[i] > r) atomicMin(&pick, i);
  __syncthreads();

  if (threadIdx.x == 0) {
    const int i = min(pick, cutoff - 1);
    next_token[row] = token[i];
    logprob[row] = logf(prob[i] / mass);
    kept[row] = cutoff;
  }
}

}  // namespace sampling
