// y = (x * rsqrt(mean(x^2) + eps) * g) @ W^T        RMSNorm fused into the projection that follows it
// x [T, D] half, g [D] half, W [E, D] half, y [T, E] half.  D % 16 == 0, D <= 256.
//
// A block owns 32 tokens: it normalises them once into shared memory, then walks over the columns of the output.
// W tiles arrive by cp.async, three stages.

#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

#define TOKENS 32
#define COLS 32
#define DEPTH 32
#define NSTAGE 3
#define D_MAX 256
#define XN_LD (D_MAX + 8)
#define W_LD (DEPTH + 8)
#define OUT_LD (COLS + 4)

using namespace nvcuda::wmma;

static __device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
  for (int m = 16; m; m >>= 1) x += __shfl_xor_sync(~0u, x, m);
  return x;
}

// tile number it of the walk: column block it / ksteps, k step it % ksteps
static __device__ void issue_w(half *stage, const half *W, int it, int ksteps, int E, int D)
{
  const int e0 = (it / ksteps) * COLS;
  const int d0 = (it % ksteps) * DEPTH;
  for (int i = threadIdx.x; i < COLS * DEPTH / 8; i += blockDim.x)
  {
    const int e = i / (DEPTH / 8);
    const int d = (i % (DEPTH / 8)) * 8;
    half *dst = stage + e * W_LD + d;
    if (e0 + e < E && d0 + d < D)
      __pipeline_memcpy_async(dst, W + (size_t)(e0 + e) * D + d0 + d, 16);
    else
      *(uint4 *)dst = make_uint4(0, 0, 0, 0);
  }
}

__global__ void rms_proj_kernel(const half *__restrict__ x, const half *__restrict__ g, const half *__restrict__ W,
                                half *__restrict__ y, int T, int D, int E, float eps)
{
  extern __shared__ __align__(128) unsigned char raw[];
  half *xn = (half *)raw;                                   // TOKENS x XN_LD
  half *wt = xn + TOKENS * XN_LD;                           // NSTAGE x COLS x W_LD
  float *outs = (float *)(wt + NSTAGE * COLS * W_LD);       // TOKENS x OUT_LD

  const int t0 = blockIdx.x * TOKENS;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int nwarps = blockDim.x >> 5;
  const int ksteps = (D + DEPTH - 1) / DEPTH;
  const int total = ksteps * ((E + COLS - 1) / COLS);
  const int Dpad = ksteps * DEPTH;

  for (int s = 0; s < NSTAGE - 1; ++s)
  {
    if (s < total) issue_w(wt + s * COLS * W_LD, W, s, ksteps, E, D);
    __pipeline_commit();
  }

  // RMSNorm, one warp per token
  for (int t = warp; t < TOKENS; t += nwarps)
  {
    const bool live = t0 + t < T;
    float ss = 0.f;
    if (live)
      for (int d = lane; d < D; d += 32)
      {
        const float v = __half2float(x[(size_t)(t0 + t) * D + d]);
        ss += v * v;
      }
    ss = warp_sum(ss);
    const float r = rsqrtf(ss / D + eps);
    for (int d = lane; d < Dpad; d += 32)
    {
      float v = 0.f;
      if (live && d < D) v = __half2float(x[(size_t)(t0 + t) * D + d]) * r * __half2float(g[d]);
      xn[t * XN_LD + d] = __float2half(v);
    }
  }

  // 2x2 tiles of 16x16, one per warp
  const int wr = warp >> 1, wc = warp & 1;
  fragment<accumulator, 16, 16, 16, float> c;
  fill_fragment(c, 0.f);

  for (int it = 0; it < total; ++it)
  {
    __pipeline_wait_prior(NSTAGE - 2);
    __syncthreads();
    const int ahead = it + NSTAGE - 1;
    if (ahead < total) issue_w(wt + (ahead % NSTAGE) * COLS * W_LD, W, ahead, ksteps, E, D);
    __pipeline_commit();

    const int ks = it % ksteps;
    const half *ws = wt + (it % NSTAGE) * COLS * W_LD;
    for (int kk = 0; kk < DEPTH; kk += 16)
    {
      fragment<matrix_a, 16, 16, 16, half, row_major> a;
      fragment<matrix_b, 16, 16, 16, half, col_major> b;
      load_matrix_sync(a, xn + wr * 16 * XN_LD + ks * DEPTH + kk, XN_LD);
      load_matrix_sync(b, ws + wc * 16 * W_LD + kk, W_LD);
      mma_sync(c, a, b, c);
    }

    if (ks == ksteps - 1)
    {
      // a column block is done
      store_matrix_sync(outs + wr * 16 * OUT_LD + wc * 16, c, OUT_LD, mem_row_major);
      fill_fragment(c, 0.f);
      __syncthreads();
      const int e0 = (it / ksteps) * COLS;
      for (int i = threadIdx.x; i < TOKENS * COLS; i += blockDim.x)
      {
        const int t = i / COLS, e = i % COLS;
        if (t0 + t < T && e0 + e < E) y[(size_t)(t0 + t) * E + e0 + e] = __float2half(outs[t * OUT_LD + e]);
      }
      __syncthreads();
    }
  }
}

void rms_proj(const half *x, const half *g, const half *W, half *y, int T, int D, int E, float eps, cudaStream_t s)
{
  const size_t smem = sizeof(half) * (TOKENS * XN_LD + NSTAGE * COLS * W_LD) + sizeof(float) * TOKENS * OUT_LD;
  rms_proj_kernel<<<(T + TOKENS - 1) / TOKENS, 128, smem, s>>>(x, g, W, y, T, D, E, eps);
}
