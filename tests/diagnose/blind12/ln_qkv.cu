// Fused LayerNorm + QKV projection + split into heads, the front half of a transformer block.
#include <cuda_fp16.h>
#include <mma.h>

namespace fused {

constexpr int kRows = 16;            // tokens per block
constexpr int kWarps = 4;
constexpr int kTile = 16;

/// What is needed of a token: 1/sigma and mean.
struct RowStats {
    float mean;
    float rstd;
};

__inline__ __device__ float warpReduceSum(float val) {
    for (int mask = 16; mask > 0; mask >>= 1) val += __shfl_xor_sync(0xffffffff, val, mask, 32);
    return val;
}

__inline__ __device__ RowStats rowStats(const half *row, int width, float eps) {
    const int lane = threadIdx.x % 32;
    float total = 0.0f;
    for (int i = lane; i < width; i += 32) total += __half2float(row[i]);
    RowStats stats;
    stats.mean = warpReduceSum(total) / width;
    float squares = 0.0f;
    for (int i = lane; i < width; i += 32) {
        const float centred = __half2float(row[i]) - stats.mean;
        squares += centred * centred;
    }
    stats.rstd = rsqrtf(warpReduceSum(squares) / width + eps);
    return stats;
}

/// Where element (token, column) of the projection goes: [3][batch][head][position][headDim]
struct HeadSplitter {
    int batch, seqLen, numHeads, headDim;
    __inline__ __device__ size_t operator()(int which, int token, int column) const {
        const int b = token / seqLen, s = token % seqLen;
        const int h = column / headDim, d = column % headDim;
        return ((((size_t)which * batch + b) * numHeads + h) * seqLen + s) * headDim + d;
    }
};

/**
 * input  [batch * seqLen, embed]
 * weight [embed, 3 * embed], bias [3 * embed]
 * output [3, batch, numHeads, seqLen, embed / numHeads], the queries scaled
 */
__global__ void layerNormQkvKernel(half *output, const half *input, const float *gamma, const float *beta,
                                   const half *weight, const half *bias, int batch, int seqLen, int embed,
                                   int numHeads, float queryScale, float eps) {
    using namespace nvcuda;
    extern __shared__ __align__(32) unsigned char shared[];
    const int stride = embed + 8;
    half *normed = reinterpret_cast<half *>(shared);                                   // [kRows][stride]
    float *staging = reinterpret_cast<float *>(shared + kRows * stride * sizeof(half));   // [kWarps][16 * 16]

    const int warpId = threadIdx.x / 32;
    const int laneId = threadIdx.x % 32;
    const int tokens = batch * seqLen;
    const int firstToken = blockIdx.x * kRows;

    // 1. normalise, a warp per token
    for (int r = warpId; r < kRows; r += kWarps) {
        const int token = firstToken + r;
        if (token < tokens) {
            const half *row = input + (size_t)token * embed;
            const RowStats stats = rowStats(row, embed, eps);
            for (int i = laneId; i < embed; i += 32) {
                const float x = (__half2float(row[i]) - stats.mean) * stats.rstd;
                normed[r * stride + i] = __float2half(x * gamma[i] + beta[i]);
            }
        } else {
            for (int i = laneId; i < embed; i += 32) normed[r * stride + i] = __float2half(0.0f);
        }
    }
    __syncthreads();

    // 2. project, a warp per 16 columns; 3. scatter to heads
    const HeadSplitter split{batch, seqLen, numHeads, embed / numHeads};
    const int columns = 3 * embed;
    float *tile = staging + warpId * kTile * kTile;
    for (int col = (blockIdx.y * kWarps + warpId) * kTile; col < columns; col += gridDim.y * kWarps * kTile) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
        wmma::fill_fragment(acc, 0.0f);
        for (int k = 0; k < embed; k += kTile) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
            wmma::load_matrix_sync(a, normed + k, stride);
            wmma::load_matrix_sync(b, weight + (size_t)k * columns + col, columns);
            wmma::mma_sync(acc, a, b, acc);
        }
        wmma::store_matrix_sync(tile, acc, kTile, wmma::mem_row_major);
        __syncwarp();
        for (int e = laneId; e < kTile * kTile; e += 32) {
            const int token = firstToken + e / kTile;
            const int column = col + e % kTile;
            if (token >= tokens) continue;
            float value = tile[e] + __half2float(bias[column]);
            const int which = column / embed;
            if (which == 0) value *= queryScale;
            output[split(which, token, column % embed)] = __float2half(value);
        }
        __syncwarp();
    }
}

}  // namespace fused
