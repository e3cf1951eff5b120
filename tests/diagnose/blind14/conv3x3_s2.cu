// 3x3 convolution, stride 2, padding 1, for downsampling blocks of ResNets. Implicit GEMM on WMMA.
//   x [N, H, W, C] half,  w [K, 3, 3, C] half,  y [N, P, Q, K] half,  y = relu(conv(x, w) + bias)
// rows of the GEMM: output pixels (n, p, q); columns: output channels; depth: (r, s, c) with c innermost. C % 8 == 0.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

static const int TILE_PIX = 32;
static const int TILE_OUT = 64;
static const int TILE_RSC = 32;
static const int PAD_LD = TILE_RSC + 8;
static const int OUT_LD = TILE_OUT + 8;

struct ConvShape {
    int N, H, W, C, K, P, Q;
};

__global__ void conv3x3_s2_relu(const half* __restrict__ x, const half* __restrict__ w, const float* __restrict__ bias,
                                half* __restrict__ y, ConvShape cs) {
    __shared__ __align__(32) half s_x[TILE_PIX * PAD_LD];
    __shared__ __align__(32) half s_w[TILE_OUT * PAD_LD];
    __shared__ __align__(32) float s_y[TILE_PIX * OUT_LD];

    const int tid = threadIdx.x;
    const int warp = tid >> 5;
    const int pix0 = blockIdx.x * TILE_PIX;
    const int out0 = blockIdx.y * TILE_OUT;
    const int numPix = cs.N * cs.P * cs.Q;
    const int depth = 9 * cs.C;

    // each thread gathers one vector of 8 channels for one pixel per step
    const int myPix = tid / (TILE_RSC / 8);
    const int myVec = tid % (TILE_RSC / 8) * 8;
    const int pix = pix0 + myPix;
    const int n = pix / (cs.P * cs.Q);
    const int p = pix % (cs.P * cs.Q) / cs.Q;
    const int q = pix % cs.Q;

    fragment<accumulator, 16, 16, 16, float> acc[2];
    for (int i = 0; i < 2; i++) fill_fragment(acc[i], 0.0f);

    for (int k0 = 0; k0 < depth; k0 += TILE_RSC) {
        const int kx = k0 + myVec;
        int4 v = make_int4(0, 0, 0, 0);
        if (pix < numPix && kx < depth) {
            const int rs = kx / cs.C;
            const int c = kx % cs.C;
            const int h = p * 2 - 1 + rs / 3;
            const int wcol = q * 2 - 1 + rs % 3;
            if (h >= 0 && h < cs.H && wcol >= 0 && wcol < cs.W) {
                v = *(const int4*)(x + ((size_t)(n * cs.H + h) * cs.W + wcol) * cs.C + c);
            }
        }
        *(int4*)(s_x + myPix * PAD_LD + myVec) = v;

        for (int i = tid; i < TILE_OUT * TILE_RSC / 8; i += blockDim.x) {
            const int ko = i / (TILE_RSC / 8);
            const int kw = i % (TILE_RSC / 8) * 8;
            int4 u = make_int4(0, 0, 0, 0);
            if (out0 + ko < cs.K && k0 + kw < depth) {
                u = *(const int4*)(w + (size_t)(out0 + ko) * depth + k0 + kw);
            }
            *(int4*)(s_w + ko * PAD_LD + kw) = u;
        }
        __syncthreads();

        // warp: 16 output channels, all 32 pixels
        for (int kk = 0; kk < TILE_RSC; kk += 16) {
            fragment<matrix_b, 16, 16, 16, half, col_major> fw;
            load_matrix_sync(fw, s_w + warp * 16 * PAD_LD + kk, PAD_LD);
            for (int i = 0; i < 2; i++) {
                fragment<matrix_a, 16, 16, 16, half, row_major> fx;
                load_matrix_sync(fx, s_x + i * 16 * PAD_LD + kk, PAD_LD);
                mma_sync(acc[i], fx, fw, acc[i]);
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++) {
        store_matrix_sync(s_y + i * 16 * OUT_LD + warp * 16, acc[i], OUT_LD, mem_row_major);
    }
    __syncthreads();

    for (int i = tid; i < TILE_PIX * TILE_OUT; i += blockDim.x) {
        const int row = i / TILE_OUT;
        const int ko = i % TILE_OUT;
        if (pix0 + row < numPix && out0 + ko < cs.K) {
            float v = s_y[row * OUT_LD + ko] + bias[out0 + ko];
            v = v > 0.0f ? v : 0.0f;
            y[(size_t)(pix0 + row) * cs.K + out0 + ko] = __float2half(v);
        }
    }
}
