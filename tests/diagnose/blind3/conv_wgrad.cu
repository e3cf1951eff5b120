// Gradient of a convolution with respect to its filters, as an implicit GEMM on tensor cores (NHWC, half).
//
//   dw[k][r][s][c] += sum over n, p, q of dy[n][p][q][k] * x[n][p * stride - pad + r][q * stride - pad + s][c]
//
// GEMM view:  rows = filters (k), columns = taps and channels (r, s, c), reduction = output pixels (n, p, q).
// The reduction is split over blockIdx.z; the parts are added with atomics.

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <iostream>
#include <vector>

#define CUDA_CHECK(call)                                                                    \
    do {                                                                                    \
        cudaError_t status_ = (call);                                                       \
        if (status_ != cudaSuccess) {                                                       \
            std::cerr << #call << " failed: " << cudaGetErrorString(status_) << std::endl;  \
            std::exit(EXIT_FAILURE);                                                        \
        }                                                                                   \
    } while (0)

struct ConvShape
{
    int N, H, W, C;      // input
    int K, R, S;         // filters
    int stride, pad;
    int P, Q;            // output

    static ConvShape make(int n, int h, int w, int c, int k, int r, int s, int stride, int pad)
    {
        ConvShape shape{n, h, w, c, k, r, s, stride, pad, 0, 0};
        shape.P = (h + 2 * pad - r) / stride + 1;
        shape.Q = (w + 2 * pad - s) / stride + 1;
        return shape;
    }
};

static constexpr int FILTERS_PER_BLOCK = 32;
static constexpr int COLUMNS_PER_BLOCK = 64;
static constexpr int PIXELS_PER_STEP = 32;
static constexpr int THREADS_PER_BLOCK = 128;

__global__ void conv2d_wgrad_kernel(const half* __restrict__ x, const half* __restrict__ dy, float* __restrict__ dw,
                                    ConvShape shape, int pixelsPerSplit)
{
    using namespace nvcuda::wmma;

    __shared__ __align__(32) half tileDy[PIXELS_PER_STEP][FILTERS_PER_BLOCK + 8];
    __shared__ __align__(32) half tileX[PIXELS_PER_STEP][COLUMNS_PER_BLOCK + 8];
    __shared__ __align__(32) float tileDw[FILTERS_PER_BLOCK][COLUMNS_PER_BLOCK + 4];

    const int tid = threadIdx.x;
    const int warpColumn = tid / 32 * 16;
    const int firstFilter = blockIdx.y * FILTERS_PER_BLOCK;
    const int firstColumn = blockIdx.x * COLUMNS_PER_BLOCK;
    const int columns = shape.R * shape.S * shape.C;
    const int pixels = shape.N * shape.P * shape.Q;
    const int begin = blockIdx.z * pixelsPerSplit;
    const int end = min(begin + pixelsPerSplit, pixels);

    // a thread always fills the same column: decode its tap and channel once
    const int column = firstColumn + tid % COLUMNS_PER_BLOCK;
    const int channel = column % shape.C;
    const int tapS = column / shape.C % shape.S;
    const int tapR = column / shape.C / shape.S;

    // 32 filters x 16 columns per warp
    fragment<accumulator, 32, 8, 16, float> acc[2];
    fill_fragment(acc[0], 0.0f);
    fill_fragment(acc[1], 0.0f);

    for (int pixel0 = begin; pixel0 < end; pixel0 += PIXELS_PER_STEP)
    {
        for (int i = tid; i < PIXELS_PER_STEP * FILTERS_PER_BLOCK; i += THREADS_PER_BLOCK)
        {
            const int row = i / FILTERS_PER_BLOCK;
            const int filter = firstFilter + i % FILTERS_PER_BLOCK;
            const bool inside = pixel0 + row < end && filter < shape.K;
            tileDy[row][i % FILTERS_PER_BLOCK] = inside ? dy[(pixel0 + row) * shape.K + filter] : __float2half(0.0f);
        }

        for (int row = tid / COLUMNS_PER_BLOCK; row < PIXELS_PER_STEP; row += THREADS_PER_BLOCK / COLUMNS_PER_BLOCK)
        {
            half value = __float2half(0.0f);
            const int pixel = pixel0 + row;
            if (pixel < end && column < columns)
            {
                const int image = pixel / (shape.P * shape.Q);
                const int p = pixel / shape.Q % shape.P;
                const int q = pixel % shape.Q;
                const int h = p * shape.stride - shape.pad + tapR;
                const int w = q * shape.stride - shape.pad + tapS;
                if (h >= 0 && h < shape.H && w >= 0 && w < shape.W)
                    value = x[((image * shape.H + h) * shape.W + w) * shape.C + channel];
            }
            tileX[row][tid % COLUMNS_PER_BLOCK] = value;
        }
        __syncthreads();

        for (int k = 0; k < PIXELS_PER_STEP; k += 16)
        {
            fragment<matrix_a, 32, 8, 16, half, col_major> a;
            fragment<matrix_b, 32, 8, 16, half, row_major> b;
            load_matrix_sync(a, &tileDy[k][0], FILTERS_PER_BLOCK + 8);
            for (int j = 0; j < 2; ++j)
            {
                load_matrix_sync(b, &tileX[k][warpColumn + j * 8], COLUMNS_PER_BLOCK + 8);
                mma_sync(acc[j], a, b, acc[j]);
            }
        }
        __syncthreads();
    }

    for (int j = 0; j < 2; ++j)
        store_matrix_sync(&tileDw[0][warpColumn + j * 8], acc[j], COLUMNS_PER_BLOCK + 4, mem_row_major);
    __syncwarp();

    // every warp writes its own 16 columns
    const int lane = tid % 32;
    for (int i = lane; i < FILTERS_PER_BLOCK * 16; i += 32)
    {
        const int filter = firstFilter + i / 16;
        const int out = firstColumn + warpColumn + i % 16;
        if (filter < shape.K && out < columns)
            atomicAdd(&dw[filter * columns + out], tileDw[i / 16][warpColumn + i % 16]);
    }
}

void conv2dWgrad(const half* x, const half* dy, float* dw, const ConvShape& shape, int splits, cudaStream_t stream)
{
    const int columns = shape.R * shape.S * shape.C;
    const int pixels = shape.N * shape.P * shape.Q;
    CUDA_CHECK(cudaMemsetAsync(dw, 0, shape.K * columns * sizeof(float), stream));
    const dim3 grid((columns + COLUMNS_PER_BLOCK - 1) / COLUMNS_PER_BLOCK,
                    (shape.K + FILTERS_PER_BLOCK - 1) / FILTERS_PER_BLOCK, splits);
    conv2d_wgrad_kernel<<<grid, THREADS_PER_BLOCK, 0, stream>>>(x, dy, dw, shape, (pixels + splits - 1) / splits);
    CUDA_CHECK(cudaGetLastError());
}

int main()
{
    const ConvShape shape = ConvShape::make(8, 28, 28, 64, 128, 3, 3, 1, 1);
    const size_t sizeX = size_t(shape.N) * shape.H * shape.W * shape.C;
    const size_t sizeDy = size_t(shape.N) * shape.P * shape.Q * shape.K;
    const size_t sizeDw = size_t(shape.K) * shape.R * shape.S * shape.C;
    std::vector<half> hostX(sizeX, __float2half(0.5f)), hostDy(sizeDy, __float2half(0.25f));
    half *x, *dy;
    float* dw;
    CUDA_CHECK(cudaMalloc(&x, sizeX * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&dy, sizeDy * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&dw, sizeDw * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(x, hostX.data(), sizeX * sizeof(half), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(dy, hostDy.data(), sizeDy * sizeof(half), cudaMemcpyHostToDevice));
    conv2dWgrad(x, dy, dw, shape, 4, nullptr);
    std::vector<float> hostDw(sizeDw);
    CUDA_CHECK(cudaMemcpy(hostDw.data(), dw, sizeDw * sizeof(float), cudaMemcpyDeviceToHost));
    // the tap in the middle sees every pixel
    const float expected = 0.125f * shape.N * shape.P * shape.Q;
    const float got = hostDw[(1 * 3 + 1) * shape.C];
    std::cout << (got == expected ? "PASS" : "FAIL") << " " << got << " " << expected << std::endl;
    CUDA_CHECK(cudaFree(x));
    CUDA_CHECK(cudaFree(dy));
    CUDA_CHECK(cudaFree(dw));
    return got == expected ? 0 : 1;
}
