#include <cuda.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <stdexcept>

// One fully connected layer of the policy network:
//     Y = relu(X * W + b)
// X: batch x in, W: in x out, b: out, Y: batch x out. The dimensions of our
// network are fixed at build time, every dimension is a multiple of the tile.

#ifndef FC_IN
#define FC_IN 128
#endif
#ifndef FC_OUT
#define FC_OUT 256
#endif

class FullyConnected
{
public:
    static constexpr int kIn = FC_IN;
    static constexpr int kOut = FC_OUT;
    static constexpr int kRowsPerBlock = 32;
    static constexpr int kColsPerBlock = 128;
    static constexpr int kWarpsPerBlock = 8;
    static constexpr int kChunk = 64;

    FullyConnected(const half *weight, const half *bias) : weight_(weight), bias_(bias) {}

    void forward(const half *x, half *y, int batch, cudaStream_t s) const { launch(x, weight_, bias_, y, batch, s); }

    static void launch(const half *x, const half *w, const half *b, half *y, int batch, cudaStream_t s);

private:
    const half *weight_;
    const half *bias_;
};

static_assert(FullyConnected::kIn % FullyConnected::kChunk == 0, "input width");
static_assert(FullyConnected::kOut % FullyConnected::kColsPerBlock == 0, "output width");

__global__ void fc_bias_relu(const half *__restrict__ x, const half *__restrict__ w,
                             const half *__restrict__ b, half *__restrict__ y)
{
    using namespace nvcuda;
    using FC = FullyConnected;

    __shared__ __align__(128) half xs[FC::kRowsPerBlock][FC::kChunk + 8];
    __shared__ __align__(128) half ws[FC::kChunk][FC::kColsPerBlock + 8];
    __shared__ __align__(128) float ys[FC::kRowsPerBlock][FC::kColsPerBlock + 4];

    const int row0 = blockIdx.x * FC::kRowsPerBlock;
    const int col0 = blockIdx.y * FC::kColsPerBlock;
    const int warp = threadIdx.y;                       // block is 32 x 8
    const int t = threadIdx.y * 32 + threadIdx.x;

    // warp -> one column strip of 16, both 16-row tiles
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> top, bottom;
    wmma::fill_fragment(top, 0.f);
    wmma::fill_fragment(bottom, 0.f);

    for (int k0 = 0; k0 < FC::kIn; k0 += FC::kChunk)
    {
        // 32 x 64 halves = 256 x 16 bytes: exactly one vector per thread
        {
            const int r = t / 8, c = (t % 8) * 8;
            *reinterpret_cast<uint4 *>(&xs[r][c]) =
                *reinterpret_cast<const uint4 *>(&x[(row0 + r) * FC::kIn + k0 + c]);
        }
        // 64 x 128 halves: four vectors per thread
        for (int v = 0; v < 4; v++)
        {
            const int r = v * 16 + t / 16, c = (t % 16) * 8;
            *reinterpret_cast<uint4 *>(&ws[r][c]) =
                *reinterpret_cast<const uint4 *>(&w[(k0 + r) * FC::kOut + col0 + c]);
        }
        __syncthreads();
        for (int kk = 0; kk < FC::kChunk; kk += 16)
        {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> bf;
            wmma::load_matrix_sync(bf, &ws[kk][warp * 16], FC::kColsPerBlock + 8);
            wmma::load_matrix_sync(a, &xs[0][kk], FC::kChunk + 8);
            wmma::mma_sync(top, a, bf, top);
            wmma::load_matrix_sync(a, &xs[16][kk], FC::kChunk + 8);
            wmma::mma_sync(bottom, a, bf, bottom);
        }
        __syncthreads();
    }

    wmma::store_matrix_sync(&ys[0][warp * 16], top, FC::kColsPerBlock + 4, wmma::mem_row_major);
    wmma::store_matrix_sync(&ys[16][warp * 16], bottom, FC::kColsPerBlock + 4, wmma::mem_row_major);
    __syncthreads();

    for (int i = t; i < FC::kRowsPerBlock * FC::kColsPerBlock / 2; i += 256)
    {
        const int r = i / (FC::kColsPerBlock / 2);
        const int c = i % (FC::kColsPerBlock / 2) * 2;
        const float2 bias = __half22float2(*reinterpret_cast<const half2 *>(&b[col0 + c]));
        const float v0 = fmaxf(ys[r][c] + bias.x, 0.f);
        const float v1 = fmaxf(ys[r][c + 1] + bias.y, 0.f);
        *reinterpret_cast<half2 *>(&y[(row0 + r) * FC::kOut + col0 + c]) = __floats2half2_rn(v0, v1);
    }
}

void FullyConnected::launch(const half *x, const half *w, const half *b, half *y, int batch, cudaStream_t s)
{
    if (batch % kRowsPerBlock != 0)
        throw std::invalid_argument("batch must be a multiple of 32");
    const dim3 grid(batch / kRowsPerBlock, kOut / kColsPerBlock);
    const dim3 block(32, kWarpsPerBlock);
    fc_bias_relu<<<grid, block, 0, s>>>(x, w, b, y);
    if (cudaGetLastError() != cudaSuccess)
        throw std::runtime_error("fc_bias_relu");
}
