////////////////////////////////////////////////////////////////////////////////
// Reduction and inclusive scan on tensor cores.
//
// The idea is from Dakkak et al., "Accelerating Reduction and Scan Using Tensor
// Core Units" (ICS'19): a segment of 256 halfs is a 16x16 matrix X (row major).
//
//   reduction:  ones * X       -> every row holds the 16 column sums
//   scan:       X * U          -> prefix sums inside each row (U: upper triangular ones)
//
// Inputs are half, sums are float. The number of elements must be a multiple of 256
// for the reduction and of 2048 (SCAN_BLOCK) for the scan; pad with zeros otherwise.
////////////////////////////////////////////////////////////////////////////////
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace nvcuda;

static constexpr int WARP_SIZE   = 32;
static constexpr int SEG         = 256;                          // elements per warp tile
static constexpr int BLOCK_WARPS = 8;
static constexpr int BLOCK_DIM   = BLOCK_WARPS * WARP_SIZE;
static constexpr int SCAN_BLOCK  = BLOCK_WARPS * SEG;            // 2048 elements per block
static constexpr unsigned FULL   = 0xffffffffu;

typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> FragA;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> FragB;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> FragC;

// ------------------------------------------------------------------ reduction
// One partial sum per block. Each warp keeps accumulating into the same fragment, so
// there is one mma per 256 elements and the horizontal part is done only once.
__global__ void tcuReduceKernel(const half *__restrict__ in, float *__restrict__ partial, int numSegments) {
  __shared__ float colSums[BLOCK_WARPS][256];
  __shared__ float warpSums[BLOCK_WARPS];

  const int warpIdx    = threadIdx.x / WARP_SIZE;
  const int laneIdx    = threadIdx.x % WARP_SIZE;
  const int globalWarp = blockIdx.x * BLOCK_WARPS + warpIdx;
  const int numWarps   = gridDim.x * BLOCK_WARPS;

  FragA ones;
  FragB x;
  FragC acc;
  wmma::fill_fragment(ones, __float2half(1.0f));
  wmma::fill_fragment(acc, 0.0f);

  for (int seg = globalWarp; seg < numSegments; seg += numWarps) {
    wmma::load_matrix_sync(x, in + (size_t) seg * SEG, 16);
    wmma::mma_sync(acc, ones, x, acc);
  }

  wmma::store_matrix_sync(colSums[warpIdx], acc, 16, wmma::mem_row_major);
  __syncwarp();

  // the first row has the column sums, all the other rows are copies
  float sum = laneIdx < 16 ? colSums[warpIdx][laneIdx] : 0.0f;
  for (int offset = 8; offset > 0; offset /= 2) {
    sum += __shfl_down_sync(FULL, sum, offset);
  }
  if (laneIdx == 0) {
    warpSums[warpIdx] = sum;
  }
  __syncthreads();

  if (threadIdx.x == 0) {
    float total = 0.0f;
    for (int w = 0; w < BLOCK_WARPS; ++w) {
      total += warpSums[w];
    }
    partial[blockIdx.x] = total;
  }
}

// sums up to a few thousand partials with one block
__global__ void finalReduceKernel(const float *__restrict__ partial, float *__restrict__ out, int n) {
  __shared__ float sdata[256];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    sum += partial[i];
  }
  sdata[threadIdx.x] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) {
      sdata[threadIdx.x] += sdata[threadIdx.x + s];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    *out = sdata[0];
  }
}

// ----------------------------------------------------------------------- scan
// Scans 2048 elements per block and writes the block totals.
__global__ void tcuScanKernel(const half *__restrict__ in, float *__restrict__ out, float *__restrict__ blockSums) {
  __shared__ half upper[256];
  __shared__ float tile[BLOCK_WARPS][256];
  __shared__ float warpTotals[BLOCK_WARPS];

  const int warpIdx = threadIdx.x / WARP_SIZE;
  const int laneIdx = threadIdx.x % WARP_SIZE;
  const size_t base = (size_t) blockIdx.x * SCAN_BLOCK + (size_t) warpIdx * SEG;

  // U[k][j] = 1 for k <= j
  if (threadIdx.x < 256) {
    const int k         = threadIdx.x / 16;
    const int j         = threadIdx.x % 16;
    upper[threadIdx.x] = __float2half(k <= j ? 1.0f : 0.0f);
  }
  __syncthreads();

  FragA x;
  FragB u;
  FragC acc;
  wmma::load_matrix_sync(x, in + base, 16);
  wmma::load_matrix_sync(u, upper, 16);
  wmma::fill_fragment(acc, 0.0f);
  wmma::mma_sync(acc, x, u, acc);
  wmma::store_matrix_sync(tile[warpIdx], acc, 16, wmma::mem_row_major);
  __syncwarp();

  // row totals -> exclusive offsets of the rows; lanes 16..31 carry zeros
  const float rowTotal = laneIdx < 16 ? tile[warpIdx][laneIdx * 16 + 15] : 0.0f;
  float rowScan        = rowTotal;
  for (int offset = 1; offset < 16; offset *= 2) {
    const float up = __shfl_up_sync(FULL, rowScan, offset);
    if (laneIdx >= offset) {
      rowScan += up;
    }
  }
  const float rowOffset = rowScan - rowTotal;
  if (laneIdx == 15) {
    warpTotals[warpIdx] = rowScan;
  }
  __syncthreads();

  float warpOffset = 0.0f;
  for (int w = 0; w < warpIdx; ++w) {
    warpOffset += warpTotals[w];
  }

  for (int i = 0; i < SEG / WARP_SIZE; ++i) {
    const int e     = i * WARP_SIZE + laneIdx;
    const float off = __shfl_sync(FULL, rowOffset, e / 16);
    out[base + e]   = tile[warpIdx][e] + off + warpOffset;
  }

  if (threadIdx.x == BLOCK_DIM - 1) {
    blockSums[blockIdx.x] = warpOffset + warpTotals[BLOCK_WARPS - 1];
  }
}

// exclusive scan of the block totals, one block of 1024 threads, any n
__global__ void scanBlockSumsKernel(float *__restrict__ sums, int n) {
  __shared__ float buf[1024];
  __shared__ float carry;
  if (threadIdx.x == 0) {
    carry = 0.0f;
  }
  for (int base = 0; base < n; base += 1024) {
    const int i     = base + threadIdx.x;
    const float val = i < n ? sums[i] : 0.0f;
    buf[threadIdx.x] = val;
    __syncthreads();
    for (int offset = 1; offset < 1024; offset *= 2) {
      const float add = threadIdx.x >= offset ? buf[threadIdx.x - offset] : 0.0f;
      __syncthreads();
      buf[threadIdx.x] += add;
      __syncthreads();
    }
    if (i < n) {
      sums[i] = carry + buf[threadIdx.x] - val;
    }
    __syncthreads();
    if (threadIdx.x == 1023) {
      carry += buf[1023];
    }
    __syncthreads();
  }
}

__global__ void addBlockOffsetsKernel(float *__restrict__ out, const float *__restrict__ offsets) {
  const float off   = offsets[blockIdx.x];
  const size_t base = (size_t) blockIdx.x * SCAN_BLOCK;
  for (int i = threadIdx.x; i < SCAN_BLOCK; i += blockDim.x) {
    out[base + i] += off;
  }
}

// ----------------------------------------------------------------------- host
float tcuReduce(const thrust::device_vector<half> &in) {
  const int numSegments = static_cast<int>(in.size() / SEG);
  int numBlocks         = (numSegments + BLOCK_WARPS - 1) / BLOCK_WARPS;
  if (numBlocks > 640) {
    numBlocks = 640;
  }
  thrust::device_vector<float> partial(numBlocks);
  thrust::device_vector<float> result(1);
  tcuReduceKernel<<<numBlocks, BLOCK_DIM>>>(thrust::raw_pointer_cast(in.data()),
                                            thrust::raw_pointer_cast(partial.data()), numSegments);
  finalReduceKernel<<<1, 256>>>(thrust::raw_pointer_cast(partial.data()), thrust::raw_pointer_cast(result.data()),
                                numBlocks);
  return result[0];
}

void tcuScan(const thrust::device_vector<half> &in, thrust::device_vector<float> &out) {
  const int numBlocks = static_cast<int>(in.size() / SCAN_BLOCK);
  thrust::device_vector<float> sums(numBlocks);
  tcuScanKernel<<<numBlocks, BLOCK_DIM>>>(thrust::raw_pointer_cast(in.data()), thrust::raw_pointer_cast(out.data()),
                                          thrust::raw_pointer_cast(sums.data()));
  scanBlockSumsKernel<<<1, 1024>>>(thrust::raw_pointer_cast(sums.data()), numBlocks);
  addBlockOffsetsKernel<<<numBlocks, 256>>>(thrust::raw_pointer_cast(out.data()),
                                            thrust::raw_pointer_cast(sums.data()));
}

int main(int argc, char **argv) {
  const size_t n = (argc > 1 ? atoi(argv[1]) : 64) * (size_t) SCAN_BLOCK;

  thrust::host_vector<half> h(n);
  srand(42);
  for (size_t i = 0; i < n; ++i) {
    h[i] = __float2half((float) (rand() % 5));  // small integers: all the sums are exact below 2^24
  }
  thrust::device_vector<half> d = h;
  thrust::device_vector<float> scanned(n);

  const float sum = tcuReduce(d);
  tcuScan(d, scanned);
  thrust::host_vector<float> s = scanned;

  double ref   = 0;
  size_t wrong = 0;
  for (size_t i = 0; i < n; ++i) {
    ref += __half2float(h[i]);
    if (fabs(ref - s[i]) > 0.5) {
      ++wrong;
    }
  }
  printf("n = %zu  reduce %.1f (expected %.1f)  scan mismatches %zu\n", n, sum, ref, wrong);
  return (fabs(ref - sum) < 0.5 && wrong == 0) ? 0 : 1;
}
