#include <cuda_fp16.h>
#include <mma.h>

// Tensor core segmented reduction: every warp sums one segment of 256 halves with two products by ones.
//   sums[s] = in[256 s] + ... + in[256 s + 255]
__global__ void segmentedReduceWmma256(const half *__restrict__ in, float *__restrict__ sums, int numSegments) {
    using namespace nvcuda;
    __shared__ __align__(32) float partial[8][16 * 16];

    int warpIdx = threadIdx.x / warpSize;
    int segment = blockIdx.x * (blockDim.x / warpSize) + warpIdx;
    if (segment >= numSegments) return;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> ones;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> values;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> columns;
    wmma::fill_fragment(ones, __float2half(1.0f));
    wmma::fill_fragment(columns, 0.0f);
    wmma::load_matrix_sync(values, in + (size_t)segment * 256, 16);
    wmma::mma_sync(columns, ones, values, columns);
    wmma::store_matrix_sync(partial[warpIdx], columns, 16, wmma::mem_row_major);
    __syncwarp();

    float v = threadIdx.x % warpSize < 16 ? partial[warpIdx][threadIdx.x % warpSize] : 0.0f;
    for (int offset = 8; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
    if (threadIdx.x % warpSize == 0) sums[segment] = v;
}
