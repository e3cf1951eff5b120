// Last layer of a mobile super-resolution net (ESPCN / ABPN style), x2:
//   y = clip( depth_to_space( conv3x3(feat) + bias ) + anchor, lo, hi )
// feat   [N, H, W, 32] half, zero padding of 1
// weight [3, 3, 32, 12] half (HWIO); the 12 outputs are (dy, dx, rgb) with rgb fastest = TF's depth_to_space
// anchor: the low resolution picture itself [N, H, W, 3], each pixel repeated 2 x 2
// y      [N, 3, 2H, 2W] float (planar for the display)
#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
using namespace nvcuda;

#define UP        2
#define RGB       3
#define CIN       32
#define COUT      (UP * UP * RGB)      // 12
#define COUT_PAD  16
#define TILE_W    16                   // pixels of a warp: one row of 16
#define TILE_H    4                    // = warps
#define HALO_W    (TILE_W + 2)
#define HALO_H    (TILE_H + 2)
#define PIX       (CIN + 16)           // halves from pixel to pixel in shared memory, a multiple of 16: wmma wants 32 byte addresses
#define OUT_LD    20

__global__ void __launch_bounds__(32 * TILE_H)
conv_depth2space(const half* __restrict__ feat, const half* __restrict__ weight, const float* __restrict__ bias,
                 const half* __restrict__ anchor, float* __restrict__ y, int H, int W, float lo, float hi)
{
    __shared__ __align__(32) half  s_in[HALO_H][HALO_W][PIX];
    __shared__ __align__(32) half  s_w[9][CIN][COUT_PAD];
    __shared__ __align__(32) float s_out[TILE_H][TILE_W][OUT_LD];
    __shared__ float s_bias[COUT];

    const int tid  = threadIdx.x;
    const int warp = tid / 32;
    const int lane = tid % 32;
    const int x0 = blockIdx.x * TILE_W;
    const int y0 = blockIdx.y * TILE_H;
    const int img = blockIdx.z;

    // ---- input tile with its halo ----
    const half* src = feat + (size_t)img * H * W * CIN;
    for (int i = tid; i < HALO_H * HALO_W * (CIN / 8); i += blockDim.x) {
        const int c8 = i % (CIN / 8);
        const int px = i / (CIN / 8) % HALO_W;
        const int py = i / (CIN / 8) / HALO_W;
        const int gx = x0 + px - 1;
        const int gy = y0 + py - 1;
        half* dst = &s_in[py][px][c8 * 8];
        if (gx >= 0 && gx < W && gy >= 0 && gy < H)
            __pipeline_memcpy_async(dst, src + ((size_t)gy * W + gx) * CIN + c8 * 8, 16);
        else
            *reinterpret_cast<int4*>(dst) = make_int4(0, 0, 0, 0);
    }
    __pipeline_commit();

    // ---- weights: 12 columns padded to 16 with zeros ----
    for (int i = tid; i < 9 * CIN * COUT_PAD; i += blockDim.x) {
        const int co = i % COUT_PAD;
        const int row = i / COUT_PAD;                 // (tap, ci)
        s_w[row / CIN][row % CIN][co] = co < COUT ? weight[row * COUT + co] : __float2half(0.f);
    }
    if (tid < COUT)
        s_bias[tid] = bias[tid];

    __pipeline_wait_prior(0);
    __syncthreads();

    // ---- 9 taps x 2 halves of the channels ----
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);
    #pragma unroll
    for (int ky = 0; ky < 3; ++ky) {
        #pragma unroll
        for (int kx = 0; kx < 3; ++kx) {
            #pragma unroll
            for (int c = 0; c < CIN; c += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
                wmma::load_matrix_sync(fa, &s_in[warp + ky][kx][c], PIX);
                wmma::load_matrix_sync(fb, &s_w[ky * 3 + kx][c][0], COUT_PAD);
                wmma::mma_sync(acc, fa, fb, acc);
            }
        }
    }
    wmma::store_matrix_sync(&s_out[warp][0][0], acc, OUT_LD, wmma::mem_row_major);
    __syncwarp();

    // ---- a warp writes two rows of 32 pixels in each of 3 planes: a lane per pixel ----
    const int gy = y0 + warp;
    const int gx = x0 + lane / UP;
    if (gy >= H || gx >= W)
        return;

    const half* low = anchor + (((size_t)img * H + gy) * W + gx) * RGB;
    const int dx = lane % UP;
    for (int ch = 0; ch < RGB; ++ch) {
        const float base = __half2float(low[ch]);
        float* plane = y + ((size_t)img * RGB + ch) * (UP * H) * (UP * W);
        #pragma unroll
        for (int dy = 0; dy < UP; ++dy) {
            const int co = (dy * UP + dx) * RGB + ch;
            const float v = s_out[warp][lane / UP][co] + s_bias[co] + base;
            plane[(size_t)(gy * UP + dy) * (UP * W) + gx * UP + dx] = fminf(fmaxf(v, lo), hi);
        }
    }
}

void run_upsampler(const half* feat, const half* weight, const float* bias, const half* anchor, float* y,
                   int N, int H, int W, cudaStream_t stream)
{
    dim3 grid((W + TILE_W - 1) / TILE_W, (H + TILE_H - 1) / TILE_H, N);
    conv_depth2space<<<grid, 32 * TILE_H, 0, stream>>>(feat, weight, bias, anchor, y, H, W, 0.f, 255.f);
}
