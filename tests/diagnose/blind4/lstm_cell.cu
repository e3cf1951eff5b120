// One step of an LSTM layer on tensor cores.
//
//   gates = x * Wx^T + h * Wh^T + bias        (order of the gates as in PyTorch: i, f, g, o)
//   c'    = sigmoid(f) * c + sigmoid(i) * tanh(g)
//   h'    = sigmoid(o) * tanh(c')
//
// A block makes 16 samples x 16 units. Each of its four warps computes one gate, then all threads combine them.
#include <cuda_fp16.h>
#include <mma.h>

namespace lstm {

using namespace nvcuda;

enum Gate { kInput = 0, kForget = 1, kCandidate = 2, kOutput = 3, kGates = 4 };

constexpr int kTile = 16;
constexpr int kChunk = 32;
constexpr int kSkew = 8;
constexpr int kThreads = 32 * kGates;

using Accumulator = wmma::fragment<wmma::accumulator, kTile, kTile, kTile, float>;

__device__ __forceinline__ float sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }

// Rows of x or h that this block works on, a chunk of features at a time; samples behind the last are zero.
__device__ void stageRows(half (*dst)[kChunk + kSkew], const half* __restrict__ src, int firstRow, int rows,
                          int firstCol, int width)
{
    for (int i = threadIdx.x; i < kTile * kChunk; i += kThreads) {
        const int r = i / kChunk;
        const int c = i % kChunk;
        const bool inside = firstRow + r < rows && firstCol + c < width;
        dst[r][c] = inside ? src[(size_t)(firstRow + r) * width + firstCol + c] : __float2half(0.0f);
    }
}

// acc += rows * weights^T, where `weights` points to the first of this warp's 16 rows of a [4 * units, width] matrix
__device__ void addProduct(Accumulator& acc, half (*stage)[kChunk + kSkew], const half* __restrict__ input,
                           const half* __restrict__ weights, int firstRow, int rows, int width)
{
    wmma::fragment<wmma::matrix_a, kTile, kTile, kTile, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, kTile, kTile, kTile, half, wmma::col_major> b;

    for (int k0 = 0; k0 < width; k0 += kChunk) {
        stageRows(stage, input, firstRow, rows, k0, width);
        __syncthreads();
        const int depth = min(kChunk, width - k0);
        for (int k = 0; k < depth; k += kTile) {
            wmma::load_matrix_sync(a, &stage[0][k], kChunk + kSkew);
            wmma::load_matrix_sync(b, weights + k0 + k, width);
            wmma::mma_sync(acc, a, b, acc);
        }
        __syncthreads();
    }
}

__global__ void __launch_bounds__(kThreads)
cellForward(const half* __restrict__ x, const half* __restrict__ hPrev, const float* __restrict__ cPrev,
            const half* __restrict__ wx, const half* __restrict__ wh, const float* __restrict__ bias,
            half* __restrict__ hNext, float* __restrict__ cNext, int batch, int inputs, int units)
{
    __shared__ __align__(128) half stage[kTile][kChunk + kSkew];
    __shared__ __align__(128) float gates[kGates][kTile][kTile];

    const int gate = threadIdx.x / 32;
    const int firstRow = blockIdx.y * kTile;
    const int firstUnit = blockIdx.x * kTile;
    const size_t weightRow = (size_t)gate * units + firstUnit;

    Accumulator acc;
    wmma::fill_fragment(acc, 0.0f);
    addProduct(acc, stage, x, wx + weightRow * inputs, firstRow, batch, inputs);
    addProduct(acc, stage, hPrev, wh + weightRow * units, firstRow, batch, units);
    wmma::store_matrix_sync(&gates[gate][0][0], acc, kTile, wmma::mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < kTile * kTile; i += kThreads) {
        const int r = i / kTile;
        const int u = i % kTile;
        if (firstRow + r >= batch)
            continue;
        const int unit = firstUnit + u;
        const float in = sigmoid(gates[kInput][r][u] + bias[kInput * units + unit]);
        const float forget = sigmoid(gates[kForget][r][u] + bias[kForget * units + unit]);
        const float candidate = tanhf(gates[kCandidate][r][u] + bias[kCandidate * units + unit]);
        const float out = sigmoid(gates[kOutput][r][u] + bias[kOutput * units + unit]);

        const size_t at = (size_t)(firstRow + r) * units + unit;
        const float cell = forget * cPrev[at] + in * candidate;
        cNext[at] = cell;
        hNext[at] = __float2half(out * tanhf(cell));
    }
}

}  // namespace lstm

void lstmCellForward(const half* x, const half* h, const float* c, const half* wx, const half* wh, const float* bias,
                     half* hNext, float* cNext, int batch, int inputs, int units, cudaStream_t stream)
{
    const dim3 grid(units / lstm::kTile, (batch + lstm::kTile - 1) / lstm::kTile);
    lstm::cellForward<<<grid, lstm::kThreads, 0, stream>>>(x, h, c, wx, wh, bias, hNext, cNext, batch, inputs, units);
}
