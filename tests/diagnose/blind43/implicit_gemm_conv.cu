// 2-D convolution as an implicit GEMM on tensor cores: y = relu(conv(x, w) + bias)
//
//   x    [N, H, W, C]     half, channels last
//   w    [K, R, S, C]     half
//   bias [K]              float
//   y    [N, OH, OW, K]   half
//
// GEMM: rows are the pixels of the output (N*OH*OW), columns the filters (K), depth is R*S*C.
// Rows of the matrix that im2col would build are gathered while a tile is loaded. C has to be a multiple of 8.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

static const int TILE_M = 64;
static const int TILE_N = 32;
static const int TILE_K = 32;
static const int SKEW = 8;
static const int NUM_THREADS = 128;

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
implicitGemmConv(const half* __restrict__ x, const half* __restrict__ w, const float* __restrict__ bias,
                 half* __restrict__ y, int N, int H, int W, int C, int K, int R, int S, int OH, int OW,
                 int stride, int pad, int dilation)
{
    __shared__ __align__(128) half tileX[2][TILE_M][TILE_K + SKEW];
    __shared__ __align__(128) half tileW[2][TILE_N][TILE_K + SKEW];
    __shared__ __align__(128) float tileY[NUM_THREADS / 32][16][TILE_N + 4];

    const int tid = threadIdx.x;
    const int warpId = tid / 32;
    const int laneId = tid % 32;
    const int gemmM = N * OH * OW;
    const int gemmK = R * S * C;
    const int rowStart = blockIdx.x * TILE_M;
    const int filterStart = blockIdx.y * TILE_N;

    // each thread gathers 8 channels of two pixels and of one filter
    const int vec = (tid % 4) * 8;
    const int loadRow = tid / 4;
    int image[2], top[2], left[2];
    bool inside[2];
    for (int i = 0; i < 2; i++) {
        int pixel = rowStart + loadRow + i * 32;
        inside[i] = pixel < gemmM;
        image[i] = pixel / (OH * OW);
        top[i] = (pixel / OW) % OH * stride - pad;
        left[i] = pixel % OW * stride - pad;
    }
    const int filter = filterStart + loadRow;

    uint4 regX[2], regW;

    auto gather = [&](int kStart) {
        int k = kStart + vec;
        int tap = k / C;
        int c = k % C;
        int r = tap / S;
        int s = tap % S;
        for (int i = 0; i < 2; i++) {
            int ih = top[i] + r * dilation;
            int iw = left[i] + s * dilation;
            regX[i] = make_uint4(0, 0, 0, 0);
            if (inside[i] && k < gemmK && ih >= 0 && ih < H && iw >= 0 && iw < W)
                regX[i] = *(const uint4*)&x[(((size_t)image[i] * H + ih) * W + iw) * C + c];
        }
        regW = make_uint4(0, 0, 0, 0);
        if (filter < K && k < gemmK)
            regW = *(const uint4*)&w[(size_t)filter * gemmK + k];
    };

    auto store = [&](int buf) {
        *(uint4*)&tileX[buf][loadRow][vec] = regX[0];
        *(uint4*)&tileX[buf][loadRow + 32][vec] = regX[1];
        *(uint4*)&tileW[buf][loadRow][vec] = regW;
    };

    fragment<accumulator, 16, 16, 16, float> acc[TILE_N / 16];
    for (int j = 0; j < TILE_N / 16; j++)
        fill_fragment(acc[j], 0.0f);

    gather(0);
    store(0);
    __syncthreads();

    int cur = 0;
    for (int k0 = 0; k0 < gemmK; k0 += TILE_K) {
        const bool more = k0 + TILE_K < gemmK;
        if (more)
            gather(k0 + TILE_K);

        for (int kk = 0; kk < TILE_K; kk += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> xFrag;
            fragment<matrix_b, 16, 16, 16, half, col_major> wFrag;
            load_matrix_sync(xFrag, &tileX[cur][warpId * 16][kk], TILE_K + SKEW);
            for (int j = 0; j < TILE_N / 16; j++) {
                load_matrix_sync(wFrag, &tileW[cur][j * 16][kk], TILE_K + SKEW);
                mma_sync(acc[j], xFrag, wFrag, acc[j]);
            }
        }

        if (more)
            store(cur ^ 1);
        __syncthreads();
        cur ^= 1;
    }

    // a warp writes its own 16 pixels
    for (int j = 0; j < TILE_N / 16; j++)
        store_matrix_sync(&tileY[warpId][0][j * 16], acc[j], TILE_N + 4, mem_row_major);
    __syncwarp();

    for (int i = laneId; i < 16 * TILE_N; i += 32) {
        int row = i / TILE_N;
        int col = i % TILE_N;
        int pixel = rowStart + warpId * 16 + row;
        int f = filterStart + col;
        if (pixel < gemmM && f < K) {
            float v = fmaxf(tileY[warpId][row][col] + bias[f], 0.0f);
            y[(size_t)pixel * K + f] = __float2half(v);
        }
    }
}
