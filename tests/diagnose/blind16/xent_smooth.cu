// Fused classifier head: loss and gradient of the logits in one pass over a row, in place.
// label smoothing eps:  loss = (1-eps)*(lse - x_t) + eps*(lse - mean(x)),  dlogits = (p - (1-eps)*[i==t] - eps/V) * dloss
// logits: [rows, P] bf16 with P >= V (padded vocabulary); padded columns get a zero gradient.  target == ignore: all zero.
#include <cuda_bf16.h>
#include <float.h>

typedef __nv_bfloat16 bf16;
struct MS { float m, s; };  // running maximum and sum of exponentials

__device__ inline MS join(MS a, MS b) {
  float m = fmaxf(a.m, b.m);
  return {m, a.s * __expf(a.m - m) + b.s * __expf(b.m - m)};
}

template <class F> __device__ inline void each_pair(int n2, F f) { for (int i = threadIdx.x; i < n2; i += blockDim.x) f(i); }

template <int NT>
__global__ void xent_smooth(bf16* __restrict__ logits, const int* __restrict__ target, float* __restrict__ loss, float dloss,
                            float eps, int V, int P, int ignore) {
  constexpr int NW = NT / 32;
  __shared__ float sm[NW], ss[NW], sx[NW];
  const int row = blockIdx.x, lane = threadIdx.x & 31, w = threadIdx.x >> 5;
  const int t = target[row];
  bf16* x = logits + (size_t)row * P;
  __nv_bfloat162* x2 = reinterpret_cast<__nv_bfloat162*>(x);

  if (t == ignore) {
    if (threadIdx.x == 0) loss[row] = 0.f;
    each_pair(P / 2, [&](int i) { x2[i] = __floats2bfloat162_rn(0.f, 0.f); });
    return;
  }

  MS acc = {-FLT_MAX, 0.f};
  float total = 0.f;
  each_pair((V + 1) / 2, [&](int i) {
    float2 v = __bfloat1622float2(x2[i]);
    bool both = 2 * i + 1 < V;
    acc = join(acc, {v.x, 1.f});
    if (both) acc = join(acc, {v.y, 1.f});
    total += v.x + (both ? v.y : 0.f);
  });

  for (int o = 16; o > 0; o >>= 1) {
    MS other = {__shfl_xor_sync(~0u, acc.m, o), __shfl_xor_sync(~0u, acc.s, o)};
    acc = join(acc, other);
    total += __shfl_xor_sync(~0u, total, o);
  }
  if (lane == 0) sm[w] = acc.m, ss[w] = acc.s, sx[w] = total;
  __syncthreads();
  acc = {-FLT_MAX, 0.f};
  total = 0.f;
  for (int i = 0; i < NW; ++i) acc = join(acc, {sm[i], ss[i]}), total += sx[i];

  const float lse = acc.m + __logf(acc.s), mean = total / V, inv = 1.f / acc.s;
  if (threadIdx.x == 0) {
    const float xt = __bfloat162float(x[t]);
    loss[row] = (1.f - eps) * (lse - xt) + eps * (lse - mean);
  }
  __syncthreads();  // x[t] is read before it is overwritten

  auto grad = [&](int i, float v) {
    if (i >= V) return 0.f;
    float p = __expf(v - acc.m) * inv;
    return (p - (i == t ? 1.f - eps : 0.f) - eps / V) * dloss;
  };
  each_pair(P / 2, [&](int i) {
    float2 v = __bfloat1622float2(x2[i]);
    x2[i] = __floats2bfloat162_rn(grad(2 * i, v.x), grad(2 * i + 1, v.y));
  });
}

template __global__ void xent_smooth<128>(bf16*, const int*, float*, float, float, int, int, int);
