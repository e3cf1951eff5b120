#include <cuda_fp16.h>
#include <float.h>
#include <mma.h>

/* Causal sliding-window attention with ALiBi (as MPT and Baichuan have it), D = 64, for GPUs since Volta.
   WMMA only: scores, probabilities and the output tile all go through shared memory.
   q, k, v, out: [batch * heads, n, 64] */

namespace wm = nvcuda::wmma;

enum { BR = 32, BC = 32, D = 64, NTHREADS = 128, NWARPS = 4 };
enum { LDQ = D + 8, LDS = BC + 4, LDP = BC + 8, LDO = D + 4 };
enum { TPR = NTHREADS / BR };   // threads that share a row

struct AttnArgs {
  const half *q, *k, *v;
  const float *slopes;
  half *out;
  int heads, n, window;
  float scale;
};

struct SharedTiles {
  half q[BR * LDQ];
  half k[BC * LDQ];
  half v[BC * LDQ];
  half p[BR * LDP];
  float s[BR * LDS];
  float o[BR * LDO];
  float m[BR], l[BR];
};

__device__ void load_rows(half *tile, const half *base, int first, int n)
{
  for (int i = threadIdx.x; i < 32 * D / 8; i += NTHREADS) {
    int r = i / (D / 8);
    int c = i % (D / 8) * 8;
    int4 bits = make_int4(0, 0, 0, 0);
    if (first + r < n)
      bits = *(const int4 *)(base + (size_t)(first + r) * D + c);
    *(int4 *)(tile + r * LDQ + c) = bits;
  }
}

extern "C" __global__ void alibi_swa(AttnArgs args)
{
  __shared__ __align__(32) SharedTiles sh;
  const int bh = blockIdx.y;
  const int head = bh % args.heads;
  const int i0 = blockIdx.x * BR;
  const size_t base = (size_t)bh * args.n * D;
  const int w = threadIdx.x >> 5;
  const int row = threadIdx.x / TPR, sub = threadIdx.x % TPR;
  const float slope = args.slopes[head];

  load_rows(sh.q, args.q + base, i0, args.n);
  for (int i = threadIdx.x; i < BR * LDO; i += NTHREADS) sh.o[i] = 0.f;
  if (threadIdx.x < BR) {
    sh.m[threadIdx.x] = -FLT_MAX;
    sh.l[threadIdx.x] = 0.f;
  }

  // keys that some query of this tile sees
  int lo = max(0, i0 - args.window);
  int hi = min(args.n, i0 + BR);
  lo = lo / BC * BC;

  for (int j0 = lo; j0 < hi; j0 += BC) {
    __syncthreads();
    load_rows(sh.k, args.k + base, j0, args.n);
    load_rows(sh.v, args.v + base, j0, args.n);
    __syncthreads();

    // S = Q K^T: a 16 x 16 tile for each warp
    {
      const int wr = w / 2 * 16, wc = w % 2 * 16;
      wm::fragment<wm::accumulator, 16, 16, 16, float> s;
      wm::fill_fragment(s, 0.f);
      for (int d = 0; d < D; d += 16) {
        wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::row_major> qf;
        wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::col_major> kf;
        wm::load_matrix_sync(qf, sh.q + wr * LDQ + d, LDQ);
        wm::load_matrix_sync(kf, sh.k + wc * LDQ + d, LDQ);
        wm::mma_sync(s, qf, kf, s);
      }
      wm::store_matrix_sync(sh.s + wr * LDS + wc, s, LDS, wm::mem_row_major);
    }
    __syncthreads();

    // softmax of a row by four threads that are neighbours
    {
      const int i = i0 + row;
      float x[BC / TPR];
      float top = -FLT_MAX;
      for (int t = 0; t < BC / TPR; t++) {
        const int c = sub + t * TPR, j = j0 + c;
        const bool seen = j <= i && j >= i - args.window && i < args.n;
        x[t] = seen ? sh.s[row * LDS + c] * args.scale - slope * (i - j) : -FLT_MAX;
        top = fmaxf(top, x[t]);
      }
      for (int step = TPR / 2; step > 0; step >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));

      const float before = sh.m[row];
      const float now = fmaxf(before, top);
      const float shrink = __expf(before - now);
      float sum = 0.f;
      for (int t = 0; t < BC / TPR; t++) {
        const float p = x[t] == -FLT_MAX ? 0.f : __expf(x[t] - now);
        sum += p;
        sh.p[row * LDP + sub + t * TPR] = __float2half(p);
      }
      for (int step = TPR / 2; step > 0; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
      for (int d = sub; d < D; d += TPR) sh.o[row * LDO + d] *= shrink;
      __syncwarp();
      if (sub == 0) {
        sh.l[row] = sh.l[row] * shrink + sum;
        sh.m[row] = now;
      }
    }
    __syncthreads();

    // O += P V: 16 rows and 32 columns for each warp
    for (int half_tile = 0; half_tile < 2; half_tile++) {
      const int wr = w / 2 * 16, wc = w % 2 * 32 + half_tile * 16;
      wm::fragment<wm::accumulator, 16, 16, 16, float> o;
      wm::load_matrix_sync(o, sh.o + wr * LDO + wc, LDO, wm::mem_row_major);
      for (int c = 0; c < BC; c += 16) {
        wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::row_major> pf;
        wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::row_major> vf;
        wm::load_matrix_sync(pf, sh.p + wr * LDP + c, LDP);
        wm::load_matrix_sync(vf, sh.v + c * LDQ + wc, LDQ);
        wm::mma_sync(o, pf, vf, o);
      }
      wm::store_matrix_sync(sh.o + wr * LDO + wc, o, LDO, wm::mem_row_major);
    }
  }
  __syncthreads();

  if (i0 + row < args.n) {
    const float inv = 1.f / sh.l[row];
    for (int d = sub; d < D; d += TPR)
      args.out[base + (size_t)(i0 + row) * D + d] = __float2half(sh.o[row * LDO + d] * inv);
  }
}

void launch_alibi_swa(const AttnArgs &args, int batch, cudaStream_t stream)
{
  dim3 grid((args.n + BR - 1) / BR, batch * args.heads);
  alibi_swa<<<grid, NTHREADS, 0, stream>>>(args);
}
