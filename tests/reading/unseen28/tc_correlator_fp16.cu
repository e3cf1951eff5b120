// FX correlator "X" stage on tensor cores, fp16 samples.
//
//   samples      [channel][receiver][time]       complex, __half2 (x = real, y = imaginary)
//   visibilities [channel][baseline]             complex, float2
//
//   baseline(i, j) = i * (i + 1) / 2 + j   for j <= i      (autocorrelations included)
//
//   vis(i, j) = sum over time of  s_i * conj(s_j)
//
// Receivers in multiples of 32, time in multiples of 32.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <stdexcept>
#include <string>

using namespace nvcuda;

namespace tcc {

constexpr unsigned NR_RECEIVERS_PER_BLOCK = 32;
constexpr unsigned NR_TIMES_PER_BLOCK     = 32;
constexpr unsigned NR_THREADS             = 128;
constexpr unsigned PITCH                  = NR_TIMES_PER_BLOCK + 8;
constexpr unsigned OUT_PITCH              = NR_RECEIVERS_PER_BLOCK + 4;

typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> AFragment;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> BFragment;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> Sum;

// real and imaginary parts in two planes
struct Planes {
  half re[NR_RECEIVERS_PER_BLOCK][PITCH];
  half im[NR_RECEIVERS_PER_BLOCK][PITCH];
};

__device__ inline void loadPlanes(Planes &dst, const __half2 *samples, unsigned firstReceiver, unsigned firstTime,
                                  unsigned nrTimes)
{
  for (unsigned i = threadIdx.x; i < NR_RECEIVERS_PER_BLOCK * NR_TIMES_PER_BLOCK; i += NR_THREADS) {
    unsigned receiver = i / NR_TIMES_PER_BLOCK, time = i % NR_TIMES_PER_BLOCK;
    __half2 sample = samples[(size_t) (firstReceiver + receiver) * nrTimes + firstTime + time];
    dst.re[receiver][time] = __low2half(sample);
    dst.im[receiver][time] = __high2half(sample);
  }
}

__global__ __launch_bounds__(NR_THREADS)
void correlate(float2 *visibilities, const __half2 *samples, unsigned nrReceivers, unsigned nrTimes)
{
  __shared__ __align__(32) Planes rows, cols;
  __shared__ __align__(32) float outRe[NR_RECEIVERS_PER_BLOCK][OUT_PITCH];
  __shared__ __align__(32) float outIm[NR_RECEIVERS_PER_BLOCK][OUT_PITCH];

  const unsigned channel = blockIdx.y;
  // linear index in the lower triangle of blocks -> (blockI, blockJ)
  const unsigned block  = blockIdx.x;
  unsigned       blockI = (unsigned) ((sqrtf(8 * block + 1) - 1) / 2);
  while (blockI * (blockI + 1) / 2 > block) -- blockI;
  while ((blockI + 1) * (blockI + 2) / 2 <= block) ++ blockI;
  const unsigned blockJ = block - blockI * (blockI + 1) / 2;

  const unsigned firstI = blockI * NR_RECEIVERS_PER_BLOCK;
  const unsigned firstJ = blockJ * NR_RECEIVERS_PER_BLOCK;
  const unsigned warp   = threadIdx.x / 32;
  const unsigned wi     = warp / 2 * 16;
  const unsigned wj     = warp % 2 * 16;

  samples += (size_t) channel * nrReceivers * nrTimes;

  Sum real, imagPlus, imagMinus;
  wmma::fill_fragment(real, 0);
  wmma::fill_fragment(imagPlus, 0);
  wmma::fill_fragment(imagMinus, 0);

  for (unsigned time = 0; time < nrTimes; time += NR_TIMES_PER_BLOCK) {
    loadPlanes(rows, samples, firstI, time, nrTimes);
    loadPlanes(cols, samples, firstJ, time, nrTimes);
    __syncthreads();

    for (unsigned t = 0; t < NR_TIMES_PER_BLOCK; t += 16) {
      AFragment aRe, aIm;
      BFragment bRe, bIm;
      wmma::load_matrix_sync(aRe, &rows.re[wi][t], PITCH);
      wmma::load_matrix_sync(aIm, &rows.im[wi][t], PITCH);
      wmma::load_matrix_sync(bRe, &cols.re[wj][t], PITCH);
      wmma::load_matrix_sync(bIm, &cols.im[wj][t], PITCH);

      // (a + ib) * (c - id) = (ac + bd) + i (bc - ad)
      wmma::mma_sync(real, aRe, bRe, real);
      wmma::mma_sync(real, aIm, bIm, real);
      wmma::mma_sync(imagPlus, aIm, bRe, imagPlus);
      wmma::mma_sync(imagMinus, aRe, bIm, imagMinus);
    }
    __syncthreads();
  }

  for (int i = 0; i < imagPlus.num_elements; i ++)
    imagPlus.x[i] -= imagMinus.x[i];

  wmma::store_matrix_sync(&outRe[wi][wj], real, OUT_PITCH, wmma::mem_row_major);
  wmma::store_matrix_sync(&outIm[wi][wj], imagPlus, OUT_PITCH, wmma::mem_row_major);
  __syncthreads();

  const size_t nrBaselines = (size_t) nrReceivers * (nrReceivers + 1) / 2;
  visibilities += channel * nrBaselines;
  for (unsigned e = threadIdx.x; e < NR_RECEIVERS_PER_BLOCK * NR_RECEIVERS_PER_BLOCK; e += NR_THREADS) {
    unsigned r = e / NR_RECEIVERS_PER_BLOCK, c = e % NR_RECEIVERS_PER_BLOCK;
    size_t   i = firstI + r, j = firstJ + c;
    if (j <= i)
      visibilities[i * (i + 1) / 2 + j] = make_float2(outRe[r][c], outIm[r][c]);
  }
}

class Correlator {
 public:
  Correlator(unsigned nrReceivers, unsigned nrChannels, unsigned nrSamplesPerChannel)
      : nrReceivers(nrReceivers), nrChannels(nrChannels), nrSamplesPerChannel(nrSamplesPerChannel)
  {
    if (nrReceivers == 0 || nrReceivers % NR_RECEIVERS_PER_BLOCK != 0)
      throw std::invalid_argument("number of receivers must be a multiple of " +
                                  std::to_string(NR_RECEIVERS_PER_BLOCK));
    if (nrSamplesPerChannel % NR_TIMES_PER_BLOCK != 0)
      throw std::invalid_argument("number of samples must be a multiple of " + std::to_string(NR_TIMES_PER_BLOCK));
  }

  size_t nrBaselines() const { return (size_t) nrReceivers * (nrReceivers + 1) / 2; }
  size_t samplesSize() const { return (size_t) nrChannels * nrReceivers * nrSamplesPerChannel * sizeof(__half2); }
  size_t visibilitiesSize() const { return nrChannels * nrBaselines() * sizeof(float2); }
  // 8 floating point operations per complex multiply-add
  double flops() const { return 8. * nrChannels * nrBaselines() * nrSamplesPerChannel; }

  void launchAsync(cudaStream_t stream, float2 *visibilities, const __half2 *samples) const
  {
    unsigned nrBlocks = nrReceivers / NR_RECEIVERS_PER_BLOCK;
    dim3     grid(nrBlocks * (nrBlocks + 1) / 2, nrChannels);
    correlate<<<grid, NR_THREADS, 0, stream>>>(visibilities, samples, nrReceivers, nrSamplesPerChannel);
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess)
      throw std::runtime_error(cudaGetErrorString(error));
  }

 private:
  const unsigned nrReceivers, nrChannels, nrSamplesPerChannel;
};

}  // namespace tcc
