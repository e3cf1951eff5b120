// Mamba-2 (state space duality): what happens within one chunk of 64 steps.
//
//   a[t]      = dt[t] * A[h],  cum = inclusive sum of a over the chunk
//   y[i]      = sum_{j <= i} (C[i] . B[j]) * exp(cum[i] - cum[j]) * dt[j] * x[j]  +  D[h] * x[i]
//   state     = sum_j exp(cum[last] - cum[j]) * dt[j] * x[j]^T B[j]               (P x N, for the pass over chunks)
//
// x: (batch, seqlen, heads, P), B and C: (batch, seqlen, N), shared by all heads, dt: (batch, seqlen, heads).
// Steps behind the end of the sequence have dt = 0, so that they neither decay nor add anything.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

template <int P, int N>
struct SsdSmem {
  static constexpr int LdN = N + 8, LdP = P + 8, LdS = 68, LdM = 72;
  __half c[64 * LdN];
  __half b[64 * LdN];
  __half x[64 * LdP];   // dt * x
  __half xd[64 * LdP];  // dt * x, decayed to the end of the chunk
  float s[64 * LdS];    // scores, later y
  __half m[64 * LdM];   // masked and decayed scores
  float cum[64];
  float dt[64];
};

template <int P, int N>
__global__ void ssd_chunk_fwd(const __half* __restrict__ x, const __half* __restrict__ B, const __half* __restrict__ C,
                              const float* __restrict__ dt, const float* __restrict__ A, const float* __restrict__ D,
                              __half* __restrict__ y, float* __restrict__ states, int seqlen, int heads) {
  static_assert(P == 32 && N == 32, "four warps share the 2 x 2 tiles of the state");
  using Smem = SsdSmem<P, N>;
  __shared__ __align__(128) Smem sm;

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int chunk = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
  const int first = chunk * 64;
  const int steps = min(64, seqlen - first);

  if (threadIdx.x < 64) {
    const int t = threadIdx.x;
    sm.dt[t] = t < steps ? dt[((size_t)batch * seqlen + first + t) * heads + head] : 0.f;
  }
  __syncthreads();
  if (warp == 0) {  // two steps per lane: a scan of the sums of pairs
    const float a0 = sm.dt[2 * lane] * A[head];
    const float a1 = sm.dt[2 * lane + 1] * A[head];
    float run = a0 + a1;
    for (int d = 1; d < 32; d *= 2) {
      const float before = __shfl_up_sync(0xffffffff, run, d);
      if (lane >= d) run += before;
    }
    sm.cum[2 * lane] = run - a1;
    sm.cum[2 * lane + 1] = run;
  }
  for (int i = threadIdx.x; i < 64 * N; i += 128) {
    const int t = i / N, n = i % N;
    const bool in = t < steps;
    const size_t at = ((size_t)batch * seqlen + first + t) * N + n;
    sm.b[t * Smem::LdN + n] = in ? B[at] : __half(0.f);
    sm.c[t * Smem::LdN + n] = in ? C[at] : __half(0.f);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 64 * P; i += 128) {
    const int t = i / P, p = i % P;
    float v = 0.f;
    if (t < steps) v = __half2float(x[(((size_t)batch * seqlen + first + t) * heads + head) * P + p]) * sm.dt[t];
    sm.x[t * Smem::LdP + p] = __float2half(v);
    sm.xd[t * Smem::LdP + p] = __float2half(v * __expf(sm.cum[63] - sm.cum[t]));
  }

  // scores of the warp's 16 steps; tiles above the diagonal are not needed
  const int row0 = warp * 16;
  for (int j = 0; j <= warp; ++j) {
    fragment<accumulator, 16, 16, 16, float> s;
    fill_fragment(s, 0.f);
    for (int n = 0; n < N; n += 16) {
      fragment<matrix_a, 16, 16, 16, __half, row_major> fc;
      fragment<matrix_b, 16, 16, 16, __half, col_major> fb;
      load_matrix_sync(fc, sm.c + row0 * Smem::LdN + n, Smem::LdN);
      load_matrix_sync(fb, sm.b + j * 16 * Smem::LdN + n, Smem::LdN);
      mma_sync(s, fc, fb, s);
    }
    store_matrix_sync(sm.s + row0 * Smem::LdS + j * 16, s, Smem::LdS, mem_row_major);
  }
  __syncwarp();
  for (int e = lane; e < 16 * (warp + 1) * 16; e += 32) {
    const int i = row0 + e / ((warp + 1) * 16);
    const int j = e % ((warp + 1) * 16);
    const float decay = j <= i ? __expf(sm.cum[i] - sm.cum[j]) : 0.f;
    sm.m[i * Smem::LdM + j] = __float2half(sm.s[i * Smem::LdS + j] * decay);
  }
  __syncthreads();  // the warp's m, and everybody's x and xd

  for (int p = 0; p < P; p += 16) {
    fragment<accumulator, 16, 16, 16, float> o;
    fill_fragment(o, 0.f);
    for (int j = 0; j <= warp; ++j) {
      fragment<matrix_a, 16, 16, 16, __half, row_major> fm;
      fragment<matrix_b, 16, 16, 16, __half, row_major> fx;
      load_matrix_sync(fm, sm.m + row0 * Smem::LdM + j * 16, Smem::LdM);
      load_matrix_sync(fx, sm.x + j * 16 * Smem::LdP + p, Smem::LdP);
      mma_sync(o, fm, fx, o);
    }
    store_matrix_sync(sm.s + row0 * Smem::LdS + p, o, Smem::LdS, mem_row_major);
  }
  __syncwarp();
  for (int e = lane; e < 16 * P; e += 32) {
    const int t = row0 + e / P, p = e % P;
    if (t >= steps) continue;
    const size_t at = (((size_t)batch * seqlen + first + t) * heads + head) * P + p;
    y[at] = __float2half(sm.s[t * Smem::LdS + p] + D[head] * __half2float(x[at]));
  }

  // state: one 16 x 16 tile per warp
  const int p0 = warp / 2 * 16, n0 = warp % 2 * 16;
  fragment<accumulator, 16, 16, 16, float> st;
  fill_fragment(st, 0.f);
  for (int t = 0; t < 64; t += 16) {
    fragment<matrix_a, 16, 16, 16, __half, col_major> fx;
    fragment<matrix_b, 16, 16, 16, __half, row_major> fb;
    load_matrix_sync(fx, sm.xd + t * Smem::LdP + p0, Smem::LdP);
    load_matrix_sync(fb, sm.b + t * Smem::LdN + n0, Smem::LdN);
    mma_sync(st, fx, fb, st);
  }
  float* state = states + (((size_t)batch * gridDim.x + chunk) * heads + head) * P * N;
  store_matrix_sync(state + p0 * N + n0, st, N, mem_row_major);
}
