#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
// flash attention, sliding window, key padding mask (1: padded), online softmax, BSHD
#define D 64
#define BR 32
#define BC 32
__global__ void swa(const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V, const unsigned char* __restrict__ pad, half* __restrict__ O, int S, int H, int W, float sm)
{
  __shared__ __align__(32) half q[BR][D + 8], kv[BC][D + 8], p[BR][BC + 8];
  __shared__ __align__(32) float s[BR][BC + 4], o[BR][D + 4];
  __shared__ float m[BR], l[BR];
  const int tid = threadIdx.x, warp = tid / 32, b = blockIdx.z, h = blockIdx.y, r0 = blockIdx.x * BR;
  const long base = ((long)b * S * H + h) * D, ld = (long)H * D;
  for (int i = tid; i < BR * D; i += 128) { q[i / D][i % D] = Q[base + (r0 + i / D) * ld + i % D]; o[i / D][i % D] = 0.f; }
  if (tid < BR) { m[tid] = -1e30f; l[tid] = 0.f; }
  int first = max(0, r0 - W) / BC * BC;
  for (int c0 = first; c0 <= r0 + BR - 1; c0 += BC) {
    __syncthreads();
    for (int i = tid; i < BC * D; i += 128) kv[i / D][i % D] = K[base + (c0 + i / D) * ld + i % D];
    __syncthreads();
    {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> c; wmma::fill_fragment(c, 0.f);
      for (int k = 0; k < D; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
        wmma::load_matrix_sync(fa, &q[warp / 2 * 16][k], D + 8);
        wmma::load_matrix_sync(fb, &kv[warp % 2 * 16][k], D + 8);
        wmma::mma_sync(c, fa, fb, c);
      }
      wmma::store_matrix_sync(&s[warp / 2 * 16][warp % 2 * 16], c, BC + 4, wmma::mem_row_major);
    }
    __syncthreads();
    if (tid < BR) {
      const int row = r0 + tid;
      float mx = m[tid];
      for (int j = 0; j < BC; j++) {
        const int col = c0 + j;
        float x = s[tid][j] * sm;
        if (col > row || row - col > W || pad[b * S + col]) x = -1e30f;
        s[tid][j] = x;
        mx = fmaxf(mx, x);
      }
      float alpha = __expf(m[tid] - mx), sum = 0.f;
      for (int j = 0; j < BC; j++) {
        float e = s[tid][j] <= -1e29f ? 0.f : __expf(s[tid][j] - mx);
        sum += e; p[tid][j] = __float2half(e);
      }
      l[tid] = l[tid] * alpha + sum; m[tid] = mx;
      for (int d = 0; d < D; d++) o[tid][d] *= alpha;
    }
    __syncthreads();
    for (int i = tid; i < BC * D; i += 128) kv[i / D][i % D] = V[base + (c0 + i / D) * ld + i % D];
    __syncthreads();
    for (int t = warp; t < 2 * D / 16; t += 4) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
      const int ti = t % 2 * 16, tj = t / 2 * 16;
      wmma::load_matrix_sync(c, &o[ti][tj], D + 4, wmma::mem_row_major);
      for (int k = 0; k < BC; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, &p[ti][k], BC + 8);
        wmma::load_matrix_sync(fb, &kv[k][tj], D + 8);
        wmma::mma_sync(c, fa, fb, c);
      }
      wmma::store_matrix_sync(&o[ti][tj], c, D + 4, wmma::mem_row_major);
    }
  }
  __syncthreads();
  for (int i = tid; i < BR * D; i += 128) O[base + (r0 + i / D) * ld + i % D] = __float2half(l[i / D] > 0.f ? o[i / D][i % D] / l[i / D] : 0.f);
}
