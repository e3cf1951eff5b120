// One transformer MLP in one kernel:  Y = gelu(X W1 + b1) W2 + b2
// X: [rows, DIN], W1: [DIN, ff], W2: [ff, DOUT], everything half.  A block keeps 16 rows; the hidden layer is made
// FF_CHUNK columns at a time in shared memory and never reaches global memory.  ff % 16 == 0.
#include <cuda_fp16.h>
#include <mma.h>

using nvcuda::wmma::accumulator;
using nvcuda::wmma::fill_fragment;
using nvcuda::wmma::fragment;
using nvcuda::wmma::load_matrix_sync;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::mem_row_major;
using nvcuda::wmma::mma_sync;
using nvcuda::wmma::row_major;
using nvcuda::wmma::store_matrix_sync;

using FragA   = fragment<matrix_a, 16, 16, 16, half, row_major>;
using FragB   = fragment<matrix_b, 16, 16, 16, half, row_major>;
using FragAcc = fragment<accumulator, 16, 16, 16, float>;

constexpr int kRows    = 16;
constexpr int kWarps   = 4;
constexpr int kFfChunk = kWarps * 16;

__device__ __forceinline__ float gelu(float x)
{
    const float c = 0.7978845608f;   // sqrt(2 / pi)
    return 0.5f * x * (1.f + tanhf(c * (x + 0.044715f * x * x * x)));
}

template <int DIN, int DOUT>
__global__ void fused_mlp(const half *__restrict__ X, const half *__restrict__ W1, const half *__restrict__ b1,
                          const half *__restrict__ W2, const half *__restrict__ b2, half *__restrict__ Y,
                          int rows, int ff)
{
    constexpr int ldx = DIN + 8;
    constexpr int ldh = kFfChunk + 8;
    constexpr int lds = (DOUT > kFfChunk ? DOUT : kFfChunk) + 4;
    constexpr int tiles = DOUT / 16 / kWarps;   // of the output, for each warp

    __shared__ __align__(32) half sx[kRows * ldx];
    __shared__ __align__(32) half sh[kRows * ldh];
    __shared__ __align__(32) float stage[kRows * lds];

    const int warp = threadIdx.y;
    const int tid  = threadIdx.y * 32 + threadIdx.x;
    const int row0 = blockIdx.x * kRows;

    for (int i = tid; i < kRows * DIN; i += kWarps * 32) {
        const int r = i / DIN, c = i % DIN;
        sx[r * ldx + c] = row0 + r < rows ? X[(row0 + r) * DIN + c] : __float2half(0.f);
    }
    __syncthreads();

    FragAcc out[tiles];
    for (int j = 0; j < tiles; ++j) fill_fragment(out[j], 0.f);

    for (int f0 = 0; f0 < ff; f0 += kFfChunk) {
        // first GEMM: a warp makes 16 columns of the hidden layer
        const int f = f0 + warp * 16;
        if (f < ff) {
            FragAcc hidden;
            fill_fragment(hidden, 0.f);
            for (int k = 0; k < DIN; k += 16) {
                FragA a;
                FragB b;
                load_matrix_sync(a, sx + k, ldx);
                load_matrix_sync(b, W1 + k * ff + f, ff);
                mma_sync(hidden, a, b, hidden);
            }
            store_matrix_sync(stage + warp * 16, hidden, lds, mem_row_major);
        }
        __syncthreads();

        const int width = min(kFfChunk, ff - f0);
        for (int i = tid; i < kRows * kFfChunk; i += kWarps * 32) {
            const int r = i / kFfChunk, c = i % kFfChunk;
            if (c < width)
                sh[r * ldh + c] = __float2half(gelu(stage[r * lds + c] + __half2float(b1[f0 + c])));
        }
        __syncthreads();

        // second GEMM: the chunk times its rows of W2
        for (int k = 0; k < width; k += 16) {
            FragA a;
            load_matrix_sync(a, sh + k, ldh);
            for (int j = 0; j < tiles; ++j) {
                FragB b;
                load_matrix_sync(b, W2 + (f0 + k) * DOUT + (warp * tiles + j) * 16, DOUT);
                mma_sync(out[j], a, b, out[j]);
            }
        }
    }

    for (int j = 0; j < tiles; ++j)
        store_matrix_sync(stage + (warp * tiles + j) * 16, out[j], lds, mem_row_major);
    __syncthreads();
    for (int i = tid; i < kRows * DOUT; i += kWarps * 32) {
        const int r = i / DOUT, c = i % DOUT;
        if (row0 + r < rows)
            Y[(row0 + r) * DOUT + c] = __float2half(stage[r * lds + c] + __half2float(b2[c]));
    }
}

template __global__ void fused_mlp<48, 128>(const half *, const half *, const half *, const half *, const half *, half *, int, int);
