// FX correlator, X stage: visibilities of all pairs of receivers, per frequency channel, on tensor cores.
//
//   V[ch][r][c] = 1/T * sum_t  S[ch][r][t] * conj(S[ch][c][t])        for r >= c only (V is Hermitian)
//
// S: complex half, [channel][receiver][time], re and im interleaved; V: complex float, [channel][receiver][receiver].
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define RX_PER_BLOCK   32
#define TIME_PER_STEP  32
#define LDT            (TIME_PER_STEP + 8)
#define LDV            (RX_PER_BLOCK + 4)
#define NTHREADS       128

typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> FragX;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> FragY;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float>              FragV;

struct Planes {
  half re[RX_PER_BLOCK][LDT];
  half im[RX_PER_BLOCK][LDT];
};

struct Visibilities {
  float re[RX_PER_BLOCK][LDV];
  float im[RX_PER_BLOCK][LDV];
};

union __align__(128) Shared {
  struct { Planes x, y; } in;
  Visibilities            out;
};

// De-interleave TIME_PER_STEP samples of RX_PER_BLOCK receivers; outside of the array there are zeros.
__device__ void loadSamples(Planes &p, const half2 *chan, int rx0, int t0, int nrReceivers, int nrTimes)
{
  for (int i = threadIdx.x; i < RX_PER_BLOCK * TIME_PER_STEP; i += NTHREADS) {
    int   rx   = i / TIME_PER_STEP;
    int   t    = i % TIME_PER_STEP;
    half2 smpl = __float2half2_rn(0.0f);

    if (rx0 + rx < nrReceivers && t0 + t < nrTimes)
      smpl = chan[(size_t) (rx0 + rx) * nrTimes + t0 + t];

    p.re[rx][t] = __low2half(smpl);
    p.im[rx][t] = __high2half(smpl);
  }
}

__device__ void negate(FragY &f)
{
  for (int i = 0; i < f.num_elements; i ++)
    f.x[i] = __hneg(f.x[i]);
}

extern "C" __global__ void __launch_bounds__(NTHREADS)
correlate(float *visibilities, const half *samples, int nrReceivers, int nrTimes, float weight)
{
  __shared__ Shared sh;

  // blockIdx.x counts the blocks of the lower triangle, row by row
  int blockRow = 0, blockCol = blockIdx.x;
  while (blockCol > blockRow) {
    blockRow ++;
    blockCol -= blockRow;
  }

  const int    channel = blockIdx.y;
  const int    rowRx   = blockRow * RX_PER_BLOCK;
  const int    colRx   = blockCol * RX_PER_BLOCK;
  const half2 *chan    = (const half2 *) samples + (size_t) channel * nrReceivers * nrTimes;
  const int    warp    = threadIdx.x / 32;
  const int    x0      = 16 * (warp >> 1);
  const int    y0      = 16 * (warp & 1);
  FragV        sumRe, sumIm;

  wmma::fill_fragment(sumRe, 0.0f);
  wmma::fill_fragment(sumIm, 0.0f);

  for (int t0 = 0; t0 < nrTimes; t0 += TIME_PER_STEP) {
    loadSamples(sh.in.x, chan, rowRx, t0, nrReceivers, nrTimes);
    loadSamples(sh.in.y, chan, colRx, t0, nrReceivers, nrTimes);
    __syncthreads();

    for (int t = 0; t < TIME_PER_STEP; t += 16) {
      FragX xRe, xIm;
      FragY yRe, yIm;

      wmma::load_matrix_sync(xRe, &sh.in.x.re[x0][t], LDT);
      wmma::load_matrix_sync(xIm, &sh.in.x.im[x0][t], LDT);
      wmma::load_matrix_sync(yRe, &sh.in.y.re[y0][t], LDT);
      wmma::load_matrix_sync(yIm, &sh.in.y.im[y0][t], LDT);

      // (a + bi) * (c - di) = (ac + bd) + (bc - ad)i
      wmma::mma_sync(sumRe, xRe, yRe, sumRe);
      wmma::mma_sync(sumRe, xIm, yIm, sumRe);
      wmma::mma_sync(sumIm, xIm, yRe, sumIm);
      negate(yIm);
      wmma::mma_sync(sumIm, xRe, yIm, sumIm);
    }

    __syncthreads();
  }

  wmma::store_matrix_sync(&sh.out.re[x0][y0], sumRe, LDV, wmma::mem_row_major);
  wmma::store_matrix_sync(&sh.out.im[x0][y0], sumIm, LDV, wmma::mem_row_major);
  __syncthreads();

  float2 *vis = (float2 *) visibilities + (size_t) channel * nrReceivers * nrReceivers;

  for (int i = threadIdx.x; i < RX_PER_BLOCK * RX_PER_BLOCK; i += NTHREADS) {
    int r = i / RX_PER_BLOCK, row = rowRx + r;
    int c = i % RX_PER_BLOCK, col = colRx + c;

    if (row < nrReceivers && col <= row)
      vis[(size_t) row * nrReceivers + col] = make_float2(sh.out.re[r][c] * weight, sh.out.im[r][c] * weight);
  }
}
